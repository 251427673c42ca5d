package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

func TestHintTriples(t *testing.T) {
	var h registry.Hint
	err := h.Triples(strings.NewReader(`# started
<http://x/s> <http://x/p> <http://x/o> .
<http://x/s> <http://x/q> "a \" <http://x/not> ."@en .
_:b <http://x/p> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://x/\u0041> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/C>.
<http://en.wikipedia.org/wiki/Rōmon> <http://x/r> "tab" .
<http://x/cut> <http://x/p> "no end
no triple at all
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []sparql.Pattern{
		{Subject: "<http://x/s>", Predicate: "<http://x/p>", Object: "<http://x/o>"},
		{Subject: "<http://x/s>", Predicate: "<http://x/q>", Object: `"a " <http://x/not> .`},
		{Subject: "_", Predicate: "<http://x/p>", Object: `"5`},
		{Subject: "<http://x/A>", Predicate: "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", Object: "<http://x/C>"},
		{Subject: "<http://en.wikipedia.org/wiki/Rōmon>", Predicate: "<http://x/r>", Object: `"tab`},
	}
	if d := cmp.Diff(want, h.Changed); d != "" || h.Skipped != 2 || h.All {
		t.Errorf("%s\nskipped %d", d, h.Skipped)
	}
}

func TestHintPatch(t *testing.T) {
	var h registry.Hint
	err := h.Patch(strings.NewReader(`H id <uuid:1> .
TX .
PA "x" "http://x/" .
PA y: <http://y/> .
A <http://x/s> x:p "v" .
D y:s <http://x/q> _:b <http://x/graph> .
A z:unknown <http://x/p> "v" .
TC .
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []sparql.Pattern{
		{Subject: "<http://x/s>", Predicate: "<http://x/p>", Object: `"v`},
		{Subject: "<http://y/s>", Predicate: "<http://x/q>", Object: "_", Graph: "<http://x/graph>"},
	}
	if d := cmp.Diff(want, h.Changed); d != "" || h.Skipped != 1 {
		t.Errorf("%s\nskipped %d", d, h.Skipped)
	}
}

// A hint holds a bounded number of IRIs; with more it becomes All.
func TestHintBound(t *testing.T) {
	var h registry.Hint
	for i := range registry.MaxTouched + 1 {
		h.Touch("http://x/" + strings.Repeat("a", i%100) + string(rune('A'+i%26)) + strings.Repeat("b", i/100%500))
		h.Touch("http://y/" + string(rune(0x4e00+i%20_000)) + string(rune('A'+i/20_000)))
	}
	if !h.All || len(h.Touched) != 0 {
		t.Errorf("all %v with %d IRIs", h.All, len(h.Touched))
	}
}

func FuzzHint(f *testing.F) {
	f.Add("<http://x/s> <http://x/p> \"o\"@en .")
	f.Add("A <a:b> <c:d> x:y .\nPA \"x\" <http://x/>")
	f.Add("\"a\"^^<b")
	f.Fuzz(func(t *testing.T, text string) {
		var h registry.Hint
		_ = h.Triples(strings.NewReader(text)) // a line may be too long
		_ = h.Patch(strings.NewReader(text))
		for _, x := range h.Changed {
			if x.Subject == "" || x.Predicate == "" || x.Object == "" {
				t.Fatalf("an empty field in %+v", x)
			}
			var again registry.Hint
			if err := again.Triples(strings.NewReader(registry.Line(x))); err != nil || len(again.Changed) != 1 || again.Changed[0] != x {
				t.Fatalf("%+v is written as %s and read as %+v (%v)", x, registry.Line(x), again.Changed, err)
			}
		}
	})
}
