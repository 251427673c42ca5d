package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// TestIndexOfConstantsInPieces checks that, after any sequence of puts, drops and
// pieces, the index finds what a scan of all queries finds.
func TestIndexOfConstantsInPieces(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := New(mustParse(t, "rr"), time.Second)
		next := 0
		for step := range 600 {
			switch r.IntN(20) {
			case 0:
				p.index.grow(p.order[:r.IntN(len(p.order)+1)])
			case 1, 2, 3, 4:
				if len(p.order) > 0 {
					p.drop(p.order[r.IntN(len(p.order))].Query.ID)
				}
			default:
				q := query(fmt.Sprintf("q%d", next))
				next++
				if len(p.order) > 0 && r.IntN(4) == 0 {
					q = p.order[r.IntN(len(p.order))].Query
				}
				q.Constants = nil
				for range r.IntN(4) {
					q.Constants = append(q.Constants, fmt.Sprint(r.IntN(1+r.IntN(30))))
				}
				slices.Sort(q.Constants)
				p.put(q, policy.Stats{})
			}
			if step%100 == 99 {
				checkConstants(t, p, seed)
			}
		}
	}
}

func mustParse(tb testing.TB, policy string) policy.Policy {
	tb.Helper()
	p, err := parse(policy)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func checkConstants(t *testing.T, p *Planner, seed uint64) {
	t.Helper()
	for p.index.grow(p.order) {
	}
	want := map[string][]string{}
	for _, c := range p.order {
		for _, iri := range c.indexed() {
			want[iri] = append(want[iri], c.Query.ID)
		}
	}
	if len(want) != len(p.index.by) {
		t.Fatalf("seed %d: %d constants, want %d", seed, len(p.index.by), len(want))
	}
	for iri, ids := range want {
		var got []string
		for _, c := range p.index.by[iri].list {
			got = append(got, c.Query.ID)
		}
		slices.Sort(ids)
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Fatalf("seed %d: %s is named by %v, want %v", seed, iri, got, ids)
		}
	}
}

// TestPiecesOfTheIndexAreBounded checks that the size of a piece, which holds the
// plan's lock, does not grow with the number of queries.
func TestPiecesOfTheIndexAreBounded(t *testing.T) {
	p := planned(t, "rr", registered(20_000))
	pieces := 1
	for before := 0; p.index.grow(p.order); pieces++ {
		if n := p.index.upto - before; n*9 > growBy+9 {
			t.Fatalf("a piece takes in %d queries of 8 constants", n)
		}
		before = p.index.upto
	}
	if pieces < 18 {
		t.Errorf("the index was made in %d pieces", pieces)
	}
}

// TestLongDroppingKinIsNotQuadratic checks that removing many queries that share a
// constant takes time that grows linearly with their number.
func TestLongDroppingKinIsNotQuadratic(t *testing.T) {
	growth.Check(t, growth.Sizes(1000, func(n int) growth.Input {
		list := make([]*item, n)
		for i := range list {
			list[i] = &item{planned: true, Candidate: policy.Candidate{Number: int32(i)}}
			list[i].Query = registry.Query{ID: fmt.Sprint("q_", i), Constants: []string{"http://example.org/all"}}
		}
		return growth.Input{Size: n, Work: func() {
			for range 20 {
				x := newConstantIndex()
				for x.grow(list) {
				}
				for _, c := range list {
					x.drop(c)
				}
			}
		}}
	})...)
}
