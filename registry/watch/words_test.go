package watch

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
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
			if err := b.Row(diff.Term{Kind: diff.IRI, Value: "http://city.example/id/" + dock}, diff.Term{Kind: diff.Literal, Value: bikes}, diff.Term{}); err != nil {
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
			if err := b.Triple(diff.Term{Kind: diff.IRI, Value: "http://city.example/id/gauge"}, diff.Term{Kind: diff.IRI, Value: "http://city.example/level"}, diff.Term{Kind: diff.Literal, Value: l}); err != nil {
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
		{"a row more", docks(t, diff.Options{}, "a 1"), docks(t, diff.Options{}, "a 1", "b 3"), "+ b, 3", "+ b, 3"},
		{"a row less", docks(t, diff.Options{}, "a 1", "b 3"), docks(t, diff.Options{}, "a 1"), "− b, 3", "− b, 3"},
		{"another row", docks(t, diff.Options{}, "a 1"), docks(t, diff.Options{}, "b 2"), "− a, 1; + b, 2", "− a, 1|+ b, 2"},
		{"many", docks(t, diff.Options{}), docks(t, diff.Options{}, "a 1", "b 2", "c 3", "d 4"), "4 rows added", "+ a, 1|+ b, 2|+ c, 3|+ d, 4"},
		{"the order", docks(t, ordered, "a 1", "b 2"), docks(t, ordered, "b 2", "a 1"), "", ""},
		{"an answer", answer(t, false), answer(t, true), "now true, was false", ""},
		{"a first answer", nil, answer(t, false), "first result: false", ""},
		{"a triple", graph(t, "2.3"), graph(t, "2.4"), "gauge, level: 2.3 → 2.4", "gauge, level: 2.3 → 2.4"},
		{"first triples", nil, graph(t, "2.3", "2.4"), "first result: 2 triples", ""},
		{"a triple less", graph(t, "2.3", "2.4"), graph(t, "2.4"), "− gauge, level, 2.3", "− gauge, level, 2.3"},
	} {
		w := InWords(diff.Compare(x.before, x.after), nil, Plain)
		if x.what == "the order" {
			if w.Short() == "" || w.Headline == "" {
				t.Errorf("the order: %+v", w)
			}
			continue
		}
		if w.Short() != x.short || strings.Join(w.Lines, "|") != x.lines || w.More != 0 {
			t.Errorf("%s: %q, %q, %d more; want %q, %q", x.what, w.Short(), w.Lines, w.More, x.short, x.lines)
		}
	}
	late := func(line, datatype string) *diff.Result {
		return result(t, diff.Select, diff.Options{}, func(b *diff.Builder) {
			err := b.SetVars([]string{"line", "delay"})
			if err == nil {
				err = b.Row(diff.Term{Kind: diff.Literal, Value: line, Datatype: datatype}, diff.Term{Kind: diff.Literal, Value: "0", Datatype: integer})
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if w := InWords(diff.Compare(late("f1", ""), late("b11", "")), nil, Plain); w.Short() != "− f1, 0; + b11, 0" {
		t.Errorf("rows that have a number in common: %q", w.Short())
	}
	if w := InWords(diff.Compare(late("1", integer), late("2", integer)), nil, Plain); w.Short() != "0: line 1 → 2" {
		t.Errorf("the only row, of numbers: %q", w.Short())
	}
	if w := InWords(nil, nil, Plain); w.Short() != "no change" {
		t.Errorf("%+v", w)
	}
	var many []string
	for i := range 120 {
		many = append(many, string(rune('a'+i%26))+strings.Repeat("x", i)+" 1")
	}
	if w := InWords(diff.Compare(docks(t, diff.Options{}), docks(t, diff.Options{}, many...)), nil, Plain); len(w.Lines) != mostLines || w.More != 120-mostLines || w.Short() != "120 rows added" {
		t.Errorf("%d lines, %d more, %s", len(w.Lines), w.More, w.Short())
	}
}
