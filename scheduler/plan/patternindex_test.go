package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/policy"
)

// randomQuery writes a query with patterns from a small vocabulary.
func randomQuery(r *rand.Rand) string {
	iri := func() string { return fmt.Sprintf("<http://x/%d>", r.IntN(6)) }
	node := func() string {
		switch r.IntN(5) {
		case 0, 1:
			return iri()
		case 2:
			return fmt.Sprintf("%q@en", fmt.Sprint("l", r.IntN(3)))
		}
		return fmt.Sprint("?v", r.IntN(3))
	}
	pattern := func() string {
		verb := iri()
		switch r.IntN(12) {
		case 0:
			verb = "?p"
		case 1:
			verb += "/" + iri()
		case 2:
			verb += "*"
		case 3:
			verb = "!" + verb
		case 4:
			verb = "a"
		}
		subject := node()
		for subject[0] == '"' {
			subject = node()
		}
		return subject + " " + verb + " " + node() + " . "
	}
	body := pattern()
	for range r.IntN(3) {
		switch p := pattern(); r.IntN(8) {
		case 0:
			body += "OPTIONAL { " + p + "} "
		case 1:
			body += "GRAPH " + iri() + " { " + p + "} "
		case 2:
			body += "FILTER NOT EXISTS { " + p + "} "
		case 3:
			body += "GRAPH ?g { " + p + "} "
		default:
			body += p
		}
	}
	if r.IntN(15) == 0 {
		body += "SERVICE <http://x/s> { ?a ?b ?c } "
	}
	return "SELECT * { " + body + "}"
}

func randomTriple(r *rand.Rand) sparql.Pattern {
	field := func(choices ...string) string { return choices[r.IntN(len(choices))] }
	iri := func() string { return fmt.Sprintf("<http://x/%d>", r.IntN(6)) }
	return sparql.Pattern{
		Subject: field(iri(), iri(), "_"), Predicate: field(iri(), iri(), iri(), rdfType),
		Object: field(iri(), fmt.Sprint(`"l`, r.IntN(3)), "_"), Graph: field("", iri()),
	}
}

// TestHintFindsMatchingQueries checks the index of patterns against a scan of all
// queries, after any sequence of puts, drops and pieces.
func TestHintFindsMatchingQueries(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := New(mustParse(t, "rr"), time.Second)
		marked := 0
		for range 400 {
			switch r.IntN(12) {
			case 0:
				p.pattern.grow(p.order[:r.IntN(len(p.order)+1)])
			case 1, 2:
				if len(p.order) > 0 {
					p.drop(p.order[r.IntN(len(p.order))].Query.ID)
				}
			case 3:
				var h registry.Hint
				for range 1 + r.IntN(3) {
					h.Changed = append(h.Changed, randomTriple(r))
				}
				marked += checkMatches(t, p, h, seed)
			default:
				q := query(fmt.Sprint("q", r.IntN(60)))
				q.Text = randomQuery(r)
				p.put(q, policy.Stats{})
			}
		}
		for _, c := range slices.Clone(p.order) {
			p.drop(c.Query.ID)
		}
		if len(p.pattern.by) != 0 || marked == 0 {
			t.Errorf("seed %d: %d queries were marked, %d keys are left", seed, marked, len(p.pattern.by))
		}
	}
}

func checkMatches(t *testing.T, p *Planner, h registry.Hint, seed uint64) int {
	t.Helper()
	p.hints = nil
	p.Proofs().hint(h)
	n := 0
	for _, c := range p.order {
		list, why := sparql.Patterns(c.Query.Text)
		want := why != "" || slices.ContainsFunc(list, func(x sparql.Pattern) bool { return slices.ContainsFunc(h.Changed, x.Matches) })
		if got := p.hints.has(c); got != want {
			t.Fatalf("seed %d: %s with patterns %v is marked: %v; changed: %v", seed, c.Query.Text, list, got, h.Changed)
		}
		if want {
			n++
		}
	}
	return n
}

// BenchmarkMark measures a hint of one triple among 100,000 queries, of which it affects
// one and ten: 0.3 and 0.8 µs, whatever the number of queries.
func BenchmarkMark(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		p := New(mustParse(b, "rr"), time.Second)
		for i := range n {
			q := query(fmt.Sprint("q_", i))
			q.Text = fmt.Sprintf("SELECT * { <http://x/%d> <http://x/label> ?l . ?s <http://x/in> <http://x/g%d> }", i, i/10)
			p.put(q, policy.Stats{})
		}
		for p.GrowPatterns() {
		}
		for name, x := range map[string]sparql.Pattern{
			"one": {Subject: "<http://x/500>", Predicate: "<http://x/label>", Object: `"new`},
			"ten": {Subject: "<http://x/s>", Predicate: "<http://x/in>", Object: "<http://x/g50>"},
		} {
			b.Run(fmt.Sprintf("queries=%d/%s", n, name), func(b *testing.B) {
				h := registry.Hint{Changed: []sparql.Pattern{x}}
				for b.Loop() {
					if got, _ := p.Proofs().hint(h); got.Affected == 0 || got.Affected > 10 {
						b.Fatalf("%+v", got)
					}
				}
			})
		}
	}
}
