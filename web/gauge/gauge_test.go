package gauge

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
)

func num(s string) diff.Term {
	return diff.Term{Kind: diff.Literal, Value: s, Datatype: xsd + "integer"}
}
func lit(s string) diff.Term { return diff.Term{Kind: diff.Literal, Value: s} }
func iri(s string) diff.Term { return diff.Term{Kind: diff.IRI, Value: s} }

func table(t *testing.T, vars string, rows ...[]diff.Term) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars(strings.Fields(vars)); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := b.Row(r...); err != nil {
			t.Fatal(err)
		}
	}
	return finish(t, b)
}

func finish(t *testing.T, b *diff.Builder) *diff.Result {
	t.Helper()
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(list []Sample) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, fmt.Sprint(s.Column, s.Labels, " ", s.Value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func TestRead(t *testing.T) {
	none := diff.Term{}
	long := lit(strings.Repeat("x", MaxLabel+1))
	for _, x := range []struct {
		name   string
		r      *diff.Result
		limit  int
		labels []string
		want   string
		left   string
	}{
		{"numbers and labels", table(t, "city n area", []diff.Term{iri("http://x/Ulm"), num("12"), num("3")},
			[]diff.Term{lit("Bonn"), num("-7"), none}), 9, nil,
			"area[{city http://x/Ulm}] 3; n[{city Bonn}] -7; n[{city http://x/Ulm}] 12", "map[]"},
		{"a label that is a number", table(t, "year n", []diff.Term{num("2024"), num("1")}, []diff.Term{num("2025"), num("2")}), 9,
			[]string{"year"},
			"n[{year 2024}] 1; n[{year 2025}] 2", "map[]"},
		{"one text makes a column a label", table(t, "a n", []diff.Term{num("1"), num("5")}, []diff.Term{lit("x"), num("6")}), 9, nil,
			"n[{a 1}] 5; n[{a x}] 6", "map[]"},
		{"the same row twice is one sample", table(t, "a n", []diff.Term{lit("x"), num("5")}, []diff.Term{lit("x"), num("5")}), 9, nil,
			"n[{a x}] 5", "map[]"},
		{"other numbers under the same labels", table(t, "a n", []diff.Term{lit("x"), num("5")}, []diff.Term{lit("x"), num("6")},
			[]diff.Term{lit("y"), num("1")}), 9, nil,
			"n[{a y}] 1", "map[ambiguous:2]"},
		{"no label is like an empty one", table(t, "a n", []diff.Term{lit(""), num("5")}, []diff.Term{none, num("6")}), 9, nil, "",
			"map[ambiguous:2]"},
		{"limit", table(t, "a n", []diff.Term{lit("x"), num("5")}, []diff.Term{lit("y"), num("6")}, []diff.Term{lit("z"), num("7")}), 2,
			nil, "n[{a x}] 5; n[{a y}] 6", "map[limit:1]"},
		{"long", table(t, "a n", []diff.Term{long, num("5")}, []diff.Term{lit("y"), num("6")}), 9, nil, "n[{a y}] 6", "map[long:1]"},
		{"no number", table(t, "a", []diff.Term{lit("5")}), 9, nil, "", "map[no_number:1]"},
		{"empty", table(t, "a n"), 9, nil, "", "map[]"},
		{"names of labels", table(t, "query é e_ __x 2nd n", []diff.Term{lit("1"), lit("2"), lit("3"), lit("4"), lit("5"), num("6")}), 9, nil,
			"n[{query_ 1} {_ 2} {e_ 3} {v__x 4} {_2nd 5}] 6", "map[]"},
	} {
		samples, left := Read(x.r, x.limit, x.labels)
		if got := text(samples); got != x.want || fmt.Sprint(left) != x.left {
			t.Errorf("%s: %s, %v; not %s, %s", x.name, got, left, x.want, x.left)
		}
	}
}

func TestOtherForms(t *testing.T) {
	for value, want := range map[bool]float64{true: 1, false: 0} {
		b := diff.NewBuilder(diff.Ask, diff.Options{})
		if err := b.SetBoolean(value); err != nil {
			t.Fatal(err)
		}
		if s, _ := Read(finish(t, b), 1, nil); len(s) != 1 || s[0].Value != want || s[0].Column != "boolean" {
			t.Errorf("%v: %v", value, s)
		}
	}
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	if err := b.Triple(iri("http://x/s"), iri("http://x/p"), num("1")); err != nil {
		t.Fatal(err)
	}
	if s, left := Read(finish(t, b), 9, nil); s != nil || left[Graph] != 1 {
		t.Errorf("%v, %v", s, left)
	}
}

func TestNumber(t *testing.T) {
	for s, want := range map[string]float64{"1": 1, "+1.50": 1.5, "-.5": -.5, "1e3": 1000, "INF": math.Inf(1), "-INF": math.Inf(-1),
		"1e999": math.Inf(1)} {
		if f, ok := number(diff.Term{Kind: diff.Literal, Value: s, Datatype: xsd + "double"}); !ok || f != want {
			t.Errorf("%s is %v, %v", s, f, ok)
		}
	}
	if f, ok := number(diff.Term{Kind: diff.Literal, Value: "NaN", Datatype: xsd + "float"}); !ok || f == f {
		t.Errorf("NaN is %v, %v", f, ok)
	}
	for _, x := range []diff.Term{lit("1"), iri("1"), {}, {Kind: diff.Literal, Value: "0x10", Datatype: xsd + "integer"},
		{Kind: diff.Literal, Value: "1_0", Datatype: xsd + "integer"},
		{Kind: diff.Literal, Value: "inf", Datatype: xsd + "double"}, {Kind: diff.Literal, Value: "2024", Datatype: xsd + "gYear"},
		{Kind: diff.Literal, Value: "", Datatype: xsd + "double"}} {
		if f, ok := number(x); ok {
			t.Errorf("%v is %v", x, f)
		}
	}
}
