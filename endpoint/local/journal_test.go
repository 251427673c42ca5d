package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var blankLabel = regexp.MustCompile(`_:\w+`)

// shape is the dataset without blank node labels.
func shape(t *testing.T, e *Engine) []string {
	t.Helper()
	lines := sortedQuads(t, e)
	for n := range lines {
		lines[n] = blankLabel.ReplaceAllString(lines[n], "_:b")
	}
	slices.Sort(lines)
	return lines
}

// stop makes the engine lose its instance, as a cut or a crash would.
func stop(t *testing.T, e *Engine) {
	t.Helper()
	err := e.do(context.Background(), func(i *instance) error {
		i.broken = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// randomUpdate returns a random update: with data, patterns, randomness and the
// clock, blank nodes, graphs.
func randomUpdate(r *rand.Rand) string {
	s := func() string { return fmt.Sprintf("<http://x/s%d>", r.IntN(6)) }
	p := func() string { return fmt.Sprintf("<http://x/p%d>", r.IntN(4)) }
	g := func() string { return fmt.Sprintf("<http://x/g%d>", r.IntN(3)) }
	switch r.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("INSERT DATA { %s %s %d, %s . %s %s 'now() or never'@EN }", s(), p(), r.IntN(9), s(), s(), p())
	case 3:
		return fmt.Sprintf("DELETE DATA { %s %s %d }", s(), p(), r.IntN(9))
	case 4:
		return fmt.Sprintf("INSERT DATA { GRAPH %s { %s %s _:b . _:b %s _:c } }", g(), s(), p(), p())
	case 5:
		return fmt.Sprintf("DELETE WHERE { %s %s ?o }", s(), p())
	case 6:
		return fmt.Sprintf("INSERT { %s %s ?x } WHERE { BIND (CONCAT(STRUUID(), STR(RAND()), STR(NOW())) AS ?x) }", s(), p())
	case 7:
		return fmt.Sprintf("DELETE { ?s %s ?o } INSERT { ?s %s ?o } WHERE { ?s %s ?o }", p(), p(), p())
	case 8:
		return fmt.Sprintf("INSERT { ?b %s %s } WHERE { GRAPH ?g { ?b ?p ?c FILTER (isBlank(?b)) } }", p(), s())
	case 9:
		return fmt.Sprintf("CLEAR SILENT GRAPH %s", g())
	case 10:
		return fmt.Sprintf("INSERT { GRAPH %s { ?s ?p ?o } } WHERE { { SELECT * { ?s ?p ?o } LIMIT 3 } }", g())
	}
	return fmt.Sprintf("CREATE SILENT GRAPH %s ; MOVE SILENT %s TO %s", g(), g(), g())
}

// A rebuilt engine has the same dataset, including named graphs, whatever was
// accepted.
func TestRebuildLaw(t *testing.T) {
	const seed = 20261120
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	e := loaded(t, people)
	ctx := context.Background()
	for round := range 5 {
		for range 12 {
			u := randomUpdate(r)
			if err := e.Update(ctx, u); err != nil {
				t.Fatalf("%s: %v", u, err)
			}
		}
		if round%3 == 1 {
			if err := e.Load(ctx, strings.NewReader("<http://x/s1> <http://x/p1> _:n <http://x/g1> .\n"), "nq"); err != nil {
				t.Fatal(err)
			}
		}
		const graphs = "SELECT ?g { GRAPH ?g {} } ORDER BY ?g"
		before := shape(t, e)
		named, err := e.Query(ctx, graphs, "csv", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		stop(t, e)
		if diff := cmp.Diff(before, shape(t, e)); diff != "" {
			t.Fatalf("round %d: -before +after\n%s", round, diff)
		}
		again, err := e.Query(ctx, graphs, "csv", nil, nil)
		if diff := cmp.Diff(string(named), string(again)); diff != "" || err != nil {
			t.Fatalf("round %d: graphs %v\n%s", round, err, diff)
		}
	}
}

// The journal does not grow with the number of updates.
func TestJournalIsFolded(t *testing.T) {
	e := loaded(t, people)
	ctx := context.Background()
	filler := strings.Repeat("x", 1<<10)
	e.journal.limit = 16 << 10
	for n := range 40 {
		u := fmt.Sprintf("DELETE WHERE { <http://x/big> ?p ?o } ; INSERT DATA { <http://x/big> <http://x/p> '%d%s' }", n, filler)
		if err := e.Update(ctx, u); err != nil {
			t.Fatal(err)
		}
		if e.journal.weight > e.journal.limit {
			t.Fatalf("%d bytes after %d updates", e.journal.weight, n+1)
		}
	}
	before := sortedQuads(t, e)
	stop(t, e)
	if diff := cmp.Diff(before, sortedQuads(t, e)); diff != "" {
		t.Error("the folded journal differs")
	}
}
