package diff

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// world draws results that are likely to share rows.
type world struct{ t *rapid.T }

func (w world) term(name string) Term {
	switch rapid.IntRange(0, 5).Draw(w.t, name) {
	case 0:
		return Term{}
	case 1:
		return Term{Kind: IRI, Value: "http://x/" + rapid.StringOfN(rapid.RuneFrom([]rune("ab é\\\"")), 0, 2, -1).Draw(w.t, "iri")}
	case 2:
		return Term{Kind: Literal, Value: rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\\n\t\x01\x7f日/😀}{,")), 0, 5, -1).Draw(w.t, "lit")}
	case 3:
		return Term{Kind: Literal, Value: rapid.SampledFrom([]string{"1", "x", ":", "}}", ":}}", `":`, `\":}}`, `"}},{"`}).Draw(w.t,
			"v"), Lang: rapid.SampledFrom([]string{"", "en", "DE-at"}).Draw(w.t, "lang")}
	case 4:
		return Term{Kind: Literal, Value: "1", Datatype: rapid.SampledFrom([]string{"", xsdString, "http://dt/1"}).Draw(w.t, "dt")}
	}
	return Term{Kind: Blank, Value: rapid.SampledFrom([]string{"a", "b", "c", "nodeID://b1"}).Draw(w.t, "blank")}
}

func (w world) result(form Form, o Options) *Result {
	b := NewBuilder(form, o)
	switch {
	case form == Ask:
		_ = b.SetBoolean(rapid.Bool().Draw(w.t, "boolean"))
	case form.Graph():
		for range rapid.IntRange(0, 8).Draw(w.t, "triples") {
			s, o := w.term("s"), w.term("o")
			if s.Kind != IRI && s.Kind != Blank {
				s = Term{Kind: IRI, Value: "http://s"}
			}
			if o.Kind == Unbound {
				o = Term{Kind: Literal}
			}
			_ = b.Triple(s, Term{Kind: IRI, Value: "http://p"}, o)
		}
	default:
		vars := rapid.SampledFrom([][]string{{"x", "y"}, {"x", "y"}, {"y", "x"}, {"x"}}).Draw(w.t, "vars")
		_ = b.SetVars(vars)
		for range rapid.IntRange(0, 8).Draw(w.t, "rows") {
			row := make([]Term, len(vars))
			for i := range row {
				row[i] = w.term("term")
			}
			_ = b.Row(row...)
		}
	}
	r, err := b.Finish()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

type setting struct {
	form Form
	o    Options
}

func settings() []setting {
	return []setting{
		{Select, Options{}}, {Select, Options{Ordered: true}}, {Select, Options{Ordered: true, OrderKeys: []string{"x"}}},
		{Ask, Options{}}, {Construct, Options{}}, {Describe, Options{}},
	}
}

func eachSetting(t *testing.T, f func(w world, s setting)) {
	for _, s := range settings() {
		t.Run(fmt.Sprintf("%s/ordered=%t/keys=%d", s.form, s.o.Ordered, len(s.o.OrderKeys)), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { f(world{t}, s) })
		})
	}
}

func TestApplyGivesNew(t *testing.T) {
	eachSetting(t, func(w world, s setting) {
		a, b := w.result(s.form, s.o), w.result(s.form, s.o)
		d := Compare(a, b)
		if (d == nil) != bytes.Equal(a.Document(), b.Document()) {
			w.t.Fatalf("delta %v between\n%s\n%s", d, a.Document(), b.Document())
		}
		got, err := d.Apply(a)
		if err != nil {
			w.t.Fatal(err)
		}
		if !bytes.Equal(got.Document(), b.Document()) {
			w.t.Fatalf("got\n%s\nwant\n%s", got.Document(), b.Document())
		}
	})
}

func TestComposeIsBothSteps(t *testing.T) {
	eachSetting(t, func(w world, s setting) {
		a, b, c := w.result(s.form, s.o), w.result(s.form, s.o), w.result(s.form, s.o)
		d, err := Compose(Compare(a, b), Compare(b, c))
		if err != nil {
			w.t.Fatal(err)
		}
		got, err := d.Apply(a)
		if err != nil {
			w.t.Fatal(err)
		}
		if !bytes.Equal(got.Document(), c.Document()) {
			w.t.Fatalf("got\n%s\nwant\n%s", got.Document(), c.Document())
		}
		direct := Compare(a, c)
		if (d == nil) != (direct == nil) {
			w.t.Fatalf("composed %v, direct %v", d, direct)
		}
		if d != nil && direct != nil && d.Jaccard != direct.Jaccard {
			w.t.Fatalf("composed distance %v, direct %v", d.Jaccard, direct.Jaccard)
		}
	})
}

func TestThereAndBackIsNothing(t *testing.T) {
	eachSetting(t, func(w world, s setting) {
		a, b := w.result(s.form, s.o), w.result(s.form, s.o)
		d := Compare(a, b)
		back, err := Compose(d, Invert(d))
		if err != nil || back != nil {
			w.t.Fatalf("%v %v", back, err)
		}
	})
}

func TestDocumentsComeBack(t *testing.T) {
	eachSetting(t, func(w world, s setting) {
		a := w.result(s.form, s.o)
		b, err := Decode(a.Document(), s.form, s.o.Ordered)
		if err != nil {
			w.t.Fatal(err)
		}
		if d := Compare(a, b); d != nil || b.Hash() != a.Hash() || b.Len() != a.Len() || a.Size() != len(a.Document()) {
			w.t.Fatalf("%v: %s came back as %s", d, a.Document(), b.Document())
		}
	})
}
