package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// TestRefusalAgreesWithNext plays random slots to their end: there is a reason for each
// query that Next did not start, and none for one that it would start.
func TestRefusalAgreesWithNext(t *testing.T) {
	const seed = 19
	r := rand.New(rand.NewPCG(seed, 0))
	waited := 0
	for range 2000 {
		costs := make([]float64, 1+r.IntN(12))
		for i := range costs {
			costs[i] = []float64{0, 0.5, 1, 3, 6, 12}[r.IntN(6)]
		}
		width := 1 + r.IntN(3)
		p, s := begun(width, costs...)
		now := noon
		for {
			for s.Next(now) != nil {
			}
			if len(s.runs) == 0 {
				break
			}
			x := s.runs[0]
			took := time.Duration(r.Float64() * 1.5 * float64(max(x.c.Estimate, time.Second)))
			now = slices.MaxFunc([]time.Time{now, x.start.Add(min(took, x.limit))}, time.Time.Compare)
			s.Finish(x, registry.Answer{Outcome: registry.Unchanged, Elapsed: took}, false)
		}
		o := s.Opening()
		for _, c := range p.order {
			if c.in == nil {
				continue
			}
			waited++
			if why := o.Refusal(c.tier, c.Estimate, false); why == "" {
				t.Fatalf("seed %d, %d at a time, costs %v: no reason for query %s, which needs %s, with %+v left", seed, width, costs,
					c.Query.ID, c.Estimate, o)
			}
		}
		if _, fresh := begun(width, costs...); fresh != nil {
			whole := fresh.Opening()
			c := fresh.Next(noon).c
			if why := whole.Refusal(c.tier, c.Estimate, false); why != "" && c.Estimate <= whole.budget {
				t.Fatalf("seed %d, costs %v: query %s starts although %s", seed, costs, c.Query.ID, why)
			}
		}
	}
	if waited < 1000 {
		t.Errorf("%d queries waited, which shows little", waited)
	}
}

// How long a query ran before it was cut is not what it needs.
func TestRefusalAfterACut(t *testing.T) {
	p, _ := begun(1, 0, 3)
	for i, c := range p.order {
		stats := c.Stats
		if i == 0 {
			stats.Floor = 5 * time.Second
		}
		p.put(c.Query, stats)
		x, _ := p.Explain(c.Query.ID, noon)
		if x.Cut != (i == 0) {
			t.Errorf("query %d: cut %v, estimate %s", i, x.Cut, x.Estimate)
		}
	}
	o := Opening{budget: 10 * time.Second, ranked: 2 * time.Second}
	for cut, want := range map[bool]string{true: "it was cut after 5s and needs longer, more than was left when its turn came",
		false: "it needs about 5s, more than was left when its turn came"} {
		if got := o.Refusal(TierRanked, 5*time.Second, cut); got != want {
			t.Errorf("cut %v: %s", cut, got)
		}
	}
}
