package watch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const integer = "http://www.w3.org/2001/XMLSchema#integer"

func result(t *testing.T, form diff.Form, o diff.Options, fill func(b *diff.Builder)) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(form, o)
	fill(b)
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func docks(t *testing.T, o diff.Options, rows ...string) *diff.Result {
	return result(t, diff.Select, o, func(b *diff.Builder) {
		if err := b.SetVars([]string{"dock", "bikes", "note"}); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			dock, bikes, _ := strings.Cut(row, " ")
			if err := b.Row(diff.Term{Kind: diff.IRI, Value: "http://city.example/id/" + dock}, diff.Term{Kind: diff.Literal,
				Value: bikes}, diff.Term{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func answer(t *testing.T, yes bool) *diff.Result {
	return result(t, diff.Ask, diff.Options{}, func(b *diff.Builder) { b.SetBoolean(yes) })
}

func graph(t *testing.T, levels ...string) *diff.Result {
	return result(t, diff.Construct, diff.Options{}, func(b *diff.Builder) {
		for _, l := range levels {
			if err := b.Triple(diff.Term{Kind: diff.IRI, Value: "http://city.example/id/gauge"},
				diff.Term{Kind: diff.IRI, Value: "http://city.example/level"}, diff.Term{Kind: diff.Literal, Value: l}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Changes of all forms have words.
func TestInWords(t *testing.T) {
	ordered := diff.Options{Ordered: true}
	for _, x := range []struct {
		what          string
		before, after *diff.Result
		short, lines  string
	}{
		{"first rows", nil, docks(t, diff.Options{}, "a 1", "b 2"), "first result: 2 rows", ""},
		{"one first row", nil, docks(t, diff.Options{}, "a 1"), "first result: 1 row", ""},
		{"a value", docks(t, diff.Options{}, "a 1", "b 2"), docks(t, diff.Options{}, "a 1", "b 3"), "b: bikes 2 → 3", "b: bikes 2 → 3"},
		{"a row more", docks(t, diff.Options{}, "a 1"), docks(t, diff.Options{}, "a 1", "b 3"), "+ b, bikes 3", "+ b, bikes 3"},
		{"a row less", docks(t, diff.Options{}, "a 1", "b 3"), docks(t, diff.Options{}, "a 1"), "− b, bikes 3", "− b, bikes 3"},
		{"another row", docks(t, diff.Options{}, "a 1"), docks(t, diff.Options{}, "b 2"), "− a, bikes 1; + b, bikes 2",
			"− a, bikes 1|+ b, bikes 2"},
		{"many", docks(t, diff.Options{}), docks(t, diff.Options{}, "a 1", "b 2", "c 3", "d 4"), "4 rows added",
			"+ a, bikes 1|+ b, bikes 2|+ c, bikes 3|+ d, bikes 4"},
		{"the order", docks(t, ordered, "a 1", "b 2"), docks(t, ordered, "b 2", "a 1"), "a, bikes 1 moved", "a, bikes 1 moved"},
		{"an answer", answer(t, false), answer(t, true), "now true, was false", ""},
		{"a first answer", nil, answer(t, false), "first result: false", ""},
		{"a triple", graph(t, "2.3"), graph(t, "2.4"), "gauge, level: 2.3 → 2.4", "gauge, level: 2.3 → 2.4"},
		{"first triples", nil, graph(t, "2.3", "2.4"), "first result: 2 triples", ""},
		{"a triple less", graph(t, "2.3", "2.4"), graph(t, "2.4"), "− gauge, level, 2.3", "− gauge, level, 2.3"},
	} {
		w := InWords(diff.Compare(x.before, x.after), nil, Plain)
		if w.Short() != x.short || strings.Join(w.Lines, "|") != x.lines || w.More != 0 {
			t.Errorf("%s: %q, %q, %d more; want %q, %q", x.what, w.Short(), w.Lines, w.More, x.short, x.lines)
		}
	}
	late := func(line, datatype string) *diff.Result {
		return result(t, diff.Select, diff.Options{}, func(b *diff.Builder) {
			err := b.SetVars([]string{"line", "delay"})
			if err == nil {
				err = b.Row(diff.Term{Kind: diff.Literal, Value: line, Datatype: datatype}, diff.Term{Kind: diff.Literal, Value: "0",
					Datatype: integer})
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if w := InWords(diff.Compare(late("f1", ""), late("b11", "")), nil, Plain); w.Short() != "− line f1, delay 0; + line b11, delay 0" {
		t.Errorf("rows that have a number in common: %q", w.Short())
	}
	if w := InWords(diff.Compare(late("1", integer), late("2", integer)), nil, Plain); w.Short() != "delay 0: line 1 → 2" {
		t.Errorf("the only row, of numbers: %q", w.Short())
	}
	if w := InWords(nil, nil, Plain); w.Short() != "no change" {
		t.Errorf("%+v", w)
	}
	var many []string
	for i := range 120 {
		many = append(many, string(rune('a'+i%26))+strings.Repeat("x", i)+" 1")
	}
	if w := InWords(diff.Compare(docks(t, diff.Options{}), docks(t, diff.Options{}, many...)), nil,
		Plain); len(w.Lines) != mostLines || w.More != 120-mostLines || w.Short() != "120 rows added" {
		t.Errorf("%d lines, %d more, %s", len(w.Lines), w.More, w.Short())
	}
}

func lines(t *testing.T, vars []string, rows ...[]string) *diff.Result {
	return result(t, diff.Select, diff.Options{}, func(b *diff.Builder) {
		if err := b.SetVars(vars); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			var terms []diff.Term
			for _, v := range row {
				x := diff.Term{Kind: diff.Literal, Value: v}
				if _, err := strconv.Atoi(v); err == nil {
					x.Datatype = integer
				}
				terms = append(terms, x)
			}
			if err := b.Row(terms...); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A code or a number is named by its variable, and what names itself is not.
func TestVariablesInWords(t *testing.T) {
	for _, x := range []struct {
		vars        []string
		before, now []string
		want        string
	}{
		{[]string{"line", "delay"}, []string{"t2", "3"}, []string{"t2", "5"}, "line t2: delay 3 → 5"},
		{[]string{"dock", "bikes"}, []string{"dock 7", "3"}, []string{"dock 7", "4"}, "dock 7: bikes 3 → 4"},
		{[]string{"n"}, []string{"41"}, []string{"42"}, "n 41 → 42"},
		{[]string{"dock", "note"}, []string{"Dock7", "\u200b"}, []string{"Dock7", "new"}, `Dock7: note "" → new`},
		{[]string{"x", "y"}, []string{"t2", "3"}, []string{"t2", "5"}, "t2: y 3 → 5"},
	} {
		d := diff.Compare(lines(t, x.vars, x.before), lines(t, x.vars, x.now))
		if got := InWords(d, nil, Plain).Short(); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
	d := diff.Compare(lines(t, []string{"line", "delay"}, []string{"t2", "3"}), lines(t, []string{"line", "track"}, []string{"t2", "5"}))
	if got := InWords(d, nil, Plain).Short(); got != "− line t2, delay 3; + line t2, track 5" {
		t.Errorf("other variables: %q", got)
	}
}

// A change of hostile cells is as short as any other, is text in lines, and still says what differs.
func TestHostileWords(t *testing.T) {
	long := strings.Repeat("the same long text ", 50_000)
	evil := "\x1b[31mred\u202eright\u0085\u2028next\r\nline\x00\u200b" + strings.Repeat("é", 5000)
	vars := []string{"who", "what" + strings.Repeat("x", 5000)}
	var rows [][]string
	for range 400 {
		rows = append(rows, []string{fmt.Sprint(len(rows)) + evil, evil + fmt.Sprint(len(rows))})
	}
	watched := Watch{Kind: Entity, IRI: "http://x.example/a"}
	for name, d := range map[string]*diff.Delta{
		"one of many": diff.Compare(lines(t, vars, rows...), lines(t, vars, rows[1:]...)),
		"all":         diff.Compare(lines(t, vars, rows...), lines(t, vars)),
		"long":        diff.Compare(lines(t, vars, []string{long, long + "a"}), lines(t, vars, []string{long, long + "b"})),
		"wide":        diff.Compare(lines(t, []string{"a", "b", "c"}), lines(t, []string{"a", "b", "c"}, []string{evil, evil, evil})),
		"graph":       diff.Compare(graph(t, evil, "a"), graph(t, evil+"b", "a")),
	} {
		for _, w := range []*Watch{nil, &watched} {
			words := InWords(d, w, func(iri string) string { return iri + evil })
			for _, line := range append(append(words.All(), words.Short(), words.Headline), strings.Split(words.Screen(), "\n")...) {
				odd := func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' }
				if utf8.RuneCountInString(line) > mostLine || strings.ContainsFunc(line, odd) || !utf8.ValidString(line) || line == "" {
					t.Errorf("%s: a line of %d characters: %.300q", name, utf8.RuneCountInString(line), line)
				}
			}
			screen := words.Screen()
			if n := strings.Count(screen, "\n") + 1; n > screenLines+1 || utf8.RuneCountInString(screen) > screenText+mostLine {
				t.Errorf("%s: %d lines, %d characters on a screen", name, n, utf8.RuneCountInString(screen))
			}
			if len(words.All()) > mostLines+1 {
				t.Errorf("%s: %d lines", name, len(words.All()))
			}
		}
	}
	d := diff.Compare(lines(t, []string{"who", "text"}, []string{long, long + "is late"}), lines(t, []string{"who", "text"},
		[]string{long, long + "is early"}))
	if got := InWords(d, nil, Plain).Lines[0]; !strings.Contains(got, "is late → …") || !strings.Contains(got, "is early") {
		t.Errorf("what differs is not seen: %q", got)
	}
}

// The screen of a phone names what fits and counts the rest, so that the counts add up.
func TestScreen(t *testing.T) {
	var rows []string
	for i := range 17 {
		rows = append(rows, fmt.Sprintf("dock%02d %d", i, i))
	}
	empty := docks(t, diff.Options{})
	want := "17 rows added\n+ dock00, bikes 0"
	if got := InWords(diff.Compare(empty, docks(t, diff.Options{}, rows...)), nil, Plain).Screen(); !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, "\nand 9 more") {
		t.Errorf("%s", got)
	}
	if got := InWords(diff.Compare(empty, docks(t, diff.Options{}, rows[:2]...)), nil, Plain).Screen(); got != "+ dock00, "+
		"bikes 0\n+ dock01, bikes 1" {
		t.Errorf("%s", got)
	}
	by := []registry.DataEdit{{Text: "revision 2145 of Q42"}, {Text: "revision 2146 of Q42"}}
	w := InWords(diff.Compare(empty, docks(t, diff.Options{}, rows...)), nil, Plain).By(by)
	if got := w.Screen(); !strings.HasSuffix(got, "\nand 10 more\npossibly by revision 2145 of Q42, revision 2146 of Q42") ||
		strings.Count(got, "\n") != 9 {
		t.Errorf("%s", got)
	}
	if got := w.All(); got[len(got)-1] != w.Cause || len(got) != 18 {
		t.Errorf("%q", got)
	}
	if w = InWords(nil, nil, Plain).By(nil); len(w.All()) != 1 {
		t.Errorf("%q", w.All())
	}
	if got := InWords(diff.Compare(answer(t, false), answer(t, true)), nil, Plain).Screen(); got != "now true, was false" {
		t.Errorf("%s", got)
	}
	if got := InWords(diff.Compare(nil, docks(t, diff.Options{}, rows...)), nil, Plain).Screen(); got != "first result: 17 rows" {
		t.Errorf("%s", got)
	}
}

// A watch of a query has its rows in words, its labels, and its title.
func TestQueryInWords(t *testing.T) {
	result := func(rows ...[2]string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		err := b.SetVars([]string{"dock", "bikes"})
		for _, row := range rows {
			err = errors.Join(err, b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + row[0]}, diff.Term{Kind: diff.Literal,
				Value: row[1], Datatype: "http://www.w3.org/2001/XMLSchema#integer"}))
		}
		r, e := b.Finish()
		if err = errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		return r
	}
	w := Watch{Kind: ByQuery, Text: "# Bikes\nSELECT ?dock ?bikes { ?dock <http://x.example/bikes> ?bikes }"}
	name := Namer(func(iri string) string {
		return map[string]string{"http://x.example/d7": "dock 7"}[iri]
	})
	old, now := result([2]string{"d7", "3"}), result([2]string{"d7", "4"}, [2]string{"d8", "1"})
	d := diff.Compare(old, now)
	if got := InWords(d, &w, name).All(); !slices.Equal(got, []string{"dock 7: bikes 3 → 4", "+ dock d8, bikes 1"}) {
		t.Errorf("%q", got)
	}
	if got := w.Now(now, w.Sample(now), name); got != "2 rows now: dock 7, bikes 4; dock d8, bikes 1" {
		t.Errorf("%q", got)
	}
	if got := w.IRIs(d); !slices.Equal(got, []string{"http://x.example/d7", "http://x.example/d8"}) {
		t.Errorf("%q", got)
	}
	if got := w.Describe(name); got != "“Bikes”" {
		t.Errorf("%q", got)
	}
	if got := (Watch{Kind: ByQuery, Text: "ASK\n{ ?a ?b ?c }"}).Describe(name); got != "the query ASK { ?a ?b ?c }" {
		t.Errorf("%q", got)
	}
	if got := InWords(&diff.Delta{Form: diff.Ask, Boolean: true}, &w, name).All(); !slices.Equal(got, []string{"now true, was false"}) {
		t.Errorf("%q", got)
	}
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	err := b.SetBoolean(true)
	yes, e := b.Finish()
	if err != nil || e != nil || w.Now(yes, w.Sample(yes), name) != "true now" {
		t.Errorf("%q %v %v", w.Now(yes, w.Sample(yes), name), err, e)
	}
}
