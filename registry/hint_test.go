package registry_test

import (
	"slices"
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
	want := []string{"http://x/s", "http://x/p", "http://x/o", "http://x/q", "http://x/A", "http://x/C", "http://en.wikipedia.org/wiki/Rōmon", "http://x/r"}
	if d := cmp.Diff(want, h.Touched); d != "" || h.Skipped != 2 || h.All {
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
	want := []string{"http://x/s", "http://x/p", "http://y/s", "http://x/q", "http://x/graph"}
	if d := cmp.Diff(want, h.Touched); d != "" || h.Skipped != 1 {
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

func TestOpen(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT * { ?s ?p ?o }":                                                      true,
		"SELECT * { ?s <http://x/p> ?o . ?o ?q ?z }":                                 true,
		"SELECT * { ?s <http://x/p> ?o ; ?q ?z }":                                    true,
		"SELECT * { [] ?p \"x\" . ?s <http://x/p> ?o }":                              true,
		"SELECT * { ?s a ?c . ?c <http://x/p> ?o }":                                  true,
		"SELECT * { ?s !<http://x/p> ?o }":                                           true,
		"SELECT * { ?s !(<http://x/p>|^<http://x/q>) ?o }":                           true,
		"SELECT ?a ?b ?c { ?a <http://x/p> ?b . ?b <http://x/q> ?c }":                false,
		"SELECT ?a ?b ?c { ?a <http://x/p> ?b , ?c } ORDER BY ?a ?b ?c":              false,
		"SELECT * { ?s a <http://x/C> ; <http://x/p> ?o FILTER(!bound(?z) && ?o>3)}": false,
		"SELECT * { <http://x/s> ?p ?o }":                                            false,
		"SELECT * { ?s ?p <http://x/o> }":                                            false,
		"SELECT ?s (COUNT(?o) AS ?n) { ?s <http://x/p> ?o } GROUP BY ?s":             false,
		"SELECT * { VALUES (?a ?b ?c) { (1 2 3) } ?a <http://x/p> ?b }":              false,
	} {
		a, err := sparql.Analyse(text)
		if err != nil {
			t.Fatal(err)
		}
		q := registry.Query{Normal: a.Normal, Constants: slices.Clone(a.Constants)}
		if got := q.MatchesAnyTriple(); got != want {
			t.Errorf("%s: open is %v, want %v", text, got, want)
		}
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
		for _, iri := range h.Touched {
			if iri == "" {
				t.Fatal("an empty IRI")
			}
		}
	})
}
