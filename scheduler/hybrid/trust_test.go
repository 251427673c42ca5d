package hybrid_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A steady world has the same costs in every slot, and changes computed from a
// seed.
type steady struct {
	costs []time.Duration
	rates []float64 // changes per slot
	seed  uint64
}

func (w steady) Execute(query int, slot, last uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: w.costs[query]}
	for s := last + 1; s <= slot && slot > 0; s++ {
		x := (uint64(query)<<32 + s + w.seed) * 0x9e3779b97f4a7c15
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		if float64(x>>11)/(1<<53) < w.rates[query] {
			k.Outcome, k.Jaccard = registry.Changed, 0.5
		}
	}
	return k
}

func (steady) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// A pulse is a world in which a few queries change in every slot except each
// fourth, and the others never change. Some of these come after the others and are dear.
type pulse struct {
	hot, queries int
	dear         []time.Duration
}

func (w pulse) Execute(query int, slot, last uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: 100 * time.Millisecond}
	if i := query - w.queries; i >= 0 {
		k.Elapsed = w.dear[i]
	}
	if query < w.hot && slot > 0 && slot-slot/4 > last-last/4 {
		k.Outcome, k.Jaccard = registry.Changed, 0.5
	}
	return k
}

func (pulse) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// A waning world's queries change a twentieth as often from some slot on, each from
// a different slot. The first query is an exception.
type waning struct{ steady }

func (w waning) Execute(query int, slot, last uint64) plan.Known {
	wane := uint64(60 + 40*query)
	if query == 0 {
		return w.steady.Execute(query, slot, last)
	}
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: w.costs[query]}
	if last < wane {
		k = w.steady.Execute(query, min(slot, wane), last)
	}
	if later := (steady{costs: w.costs, rates: make([]float64, len(w.rates)), seed: w.seed}); slot > wane {
		later.rates[query] = w.rates[query] / 20
		if l := later.Execute(query, slot, max(last, wane)); l.Outcome == registry.Changed {
			k = l
		}
	}
	return k
}

// A recorder keeps the shared state that hybrid learns.
type recorder struct {
	hybrid.Policy
	shared *[]float64
}

func (r recorder) Absorb(m policy.Moment, ran []*policy.Candidate, related func(*policy.Candidate) []*policy.Candidate) policy.Lesson {
	l := r.Policy.Absorb(m, ran, related)
	*r.shared = l.Shared
	return l
}

// Queries that do not change together are no evidence about each other, however
// many there are: hardly any slot counts as empty because they have not changed, and
// the clock does no harm. Where queries do change together, the policy learns it.
func TestTrust(t *testing.T) {
	play := func(spelling string, w plan.World, queries int) (found int, trusted bool, empty float64) {
		p, err := policy.Parse([]policy.Definition{hybrid.Definition()}, spelling)
		if err != nil {
			t.Fatal(err)
		}
		var shared []float64
		list := make([]registry.Query, queries)
		for i := range list {
			list[i] = registry.Query{ID: fmt.Sprintf("q%04d", i)}
		}
		r, err := plan.NewReplay(plan.ReplayConfig{Policy: recorder{p.(hybrid.Policy), &shared}, Rule: plan.RuleStrict,
			Budget: time.Second, Queries: list, World: w, Ring: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			r.Slot(func(x plan.Played) {
				if x.Outcome == registry.Changed {
					found++
				}
			})
		}
		trusted, empty = hybrid.Trust(shared)
		return found, trusted, empty
	}
	for seed := range uint64(8) {
		w := waning{steady{seed: seed}}
		for i := range 60 {
			w.costs = append(w.costs, 50*time.Millisecond)
			w.rates = append(w.rates, 0.002)
			if i < 12 {
				w.rates[i] = 0.35
			}
		}
		w.costs[0] = 300 * time.Millisecond
		found, _, empty := play("hybrid:d=32", w, len(w.rates))
		if empty > 3 {
			t.Errorf("seed %d: %g of 600 slots count as empty; %d changes found", seed, empty, found)
		}
	}
	if _, trusted, empty := play("hybrid:d=64", pulse{hot: 6, queries: 200}, 200); !trusted || empty < 100 {
		t.Errorf("every fourth slot is an empty one: trusted: %v, %g of 600 count as empty", trusted, empty)
	}
}

// The queries that show whether a slot is empty leave room for a late query that takes nearly the
// whole budget, and now and then for one that takes more. They still find the empty slots.
func TestProbesLeaveRoom(t *testing.T) {
	const slots, d = 2000, 64
	for _, x := range []struct {
		dear []time.Duration
		runs int // of each, at least
	}{
		{[]time.Duration{950 * time.Millisecond, 990 * time.Millisecond, 800 * time.Millisecond}, slots / d * 8 / 10},
		{[]time.Duration{1500 * time.Millisecond}, slots / (9 * d)},
		{[]time.Duration{950 * time.Millisecond, 1500 * time.Millisecond}, slots / (9 * d)},
	} {
		w := pulse{hot: 6, queries: 60, dear: x.dear}
		list := make([]registry.Query, w.queries+len(w.dear))
		for i := range list {
			list[i] = registry.Query{ID: fmt.Sprintf("q%04d", i)}
		}
		p, err := policy.Parse([]policy.Definition{hybrid.Definition()}, fmt.Sprint("hybrid:d=", d))
		if err != nil {
			t.Fatal(err)
		}
		var shared []float64
		r, err := plan.NewReplay(plan.ReplayConfig{Policy: recorder{p.(hybrid.Policy), &shared}, Rule: plan.RuleStrict,
			Budget: time.Second, Queries: list, World: w, Ring: true})
		if err != nil {
			t.Fatal(err)
		}
		runs := make([]int, len(w.dear))
		for range slots {
			r.Slot(func(x plan.Played) {
				if i := x.Query - w.queries; i >= 0 {
					runs[i]++
				}
			})
		}
		trusted, empty := hybrid.Trust(shared)
		if !trusted || empty < slots/5 {
			t.Errorf("%v: every fourth slot is an empty one: trusted: %v, %g of %d count as empty", x.dear, trusted, empty, slots)
		}
		if n := slices.Min(runs); n < x.runs {
			t.Errorf("the queries of %v ran %d times in %d slots, want %d at least", x.dear, runs, slots, x.runs)
		}
	}
}
