package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A steady world has the same costs in every slot, and changes derived from a seed.
type steady struct {
	costs []time.Duration
	rates []float64 // changes per slot
	seed  uint64
}

func (w steady) Execute(query int, slot, last uint64) Known {
	k := Known{Outcome: registry.Unchanged, Elapsed: w.costs[query]}
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

func replay(t rapid.TB, p policy.Policy, budget time.Duration, w steady) *Replay {
	t.Helper()
	queries := make([]registry.Query, len(w.costs))
	for i := range queries {
		queries[i] = registry.Query{ID: fmt.Sprintf("q%06d", i), Constants: []string{fmt.Sprint("urn:", i%3)}}
	}
	r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: budget, Queries: queries, World: w, Ring: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDeadlineLaw checks the bound for max_staleness: with exact estimates, and unless
// the slot reports that the waits cannot all be kept, no query waits longer than its
// max_staleness.
func TestDeadlineLaw(t *testing.T) {
	const budget = 10 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		w := steady{seed: rapid.Uint64().Draw(t, "seed")}
		cost := rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond, time.Second, 2400 * time.Millisecond})
		limits := make([]uint64, rapid.IntRange(1, 60).Draw(t, "queries"))
		need := 0.0 // of the budget
		for i := range limits {
			limits[i] = rapid.SampledFrom([]uint64{0, 0, 4, 5, 12, 24}).Draw(t, "limit")
			w.costs = append(w.costs, cost.Draw(t, "cost"))
			w.rates = append(w.rates, rapid.SampledFrom([]float64{0, 0, 0.01, 0.5, 1}).Draw(t, "rate"))
			if limits[i] > 0 {
				need += w.costs[i].Seconds() / float64(limits[i]) / budget.Seconds()
			}
		}
		keepsDeadlines(t, budget, w, limits, need < 0.2)
	})
}

// keepsDeadlines plays 80 slots and fails if a query waits longer than its limit. If
// easy is set, this must not be reported as impossible either.
func keepsDeadlines(t rapid.TB, budget time.Duration, w steady, limits []uint64, easy bool) {
	t.Helper()
	p, err := parse("hybrid")
	if err != nil {
		t.Fatal(err)
	}
	queries := make([]registry.Query, len(w.costs))
	for i := range queries {
		queries[i] = registry.Query{ID: fmt.Sprintf("q%06d", i)}
		if n := limits[i]; n > 0 {
			queries[i].Holders = []registry.Holder{{Caller: registry.Anonymous, MaxStaleness: registry.Duration(time.Duration(n) * time.Hour)}}
		}
	}
	r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: budget, Queries: queries, World: w, Ring: true, Lead: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	last := make([]uint64, len(w.costs))
	stretched := false // in this slot or before; a wait that was too long may end later
	for slot := uint64(1); slot <= 80; slot++ {
		var used time.Duration
		all := r.Slot(func(x Played) {
			used += x.Elapsed
			if x.Outcome.Complete() {
				last[x.Query] = slot
			}
		})
		if used > budget {
			t.Fatalf("slot %d used %s", slot, used)
		}
		stretched = stretched || r.p.ranking.Stretch > 0
		if stretched && easy {
			t.Fatalf("slot %d: deadlines are stretched by %g where there is room", slot, r.p.ranking.Stretch)
		}
		for i, n := range limits {
			if all {
				last[i] = slot
			}
			if n > 0 && !stretched && slot-last[i] > n {
				t.Fatalf("slot %d: query %d of %s, last run in %d, is past its limit of %d slots, and nothing is reported", slot, i,
					w.costs[i], last[i], n)
			}
		}
	}
}

// TestWaitIsLonger checks that a wait for which the budget is too small is reported,
// and that no query starves.
func TestWaitIsLonger(t *testing.T) {
	p, err := parse("hybrid:d=4")
	if err != nil {
		t.Fatal(err)
	}
	w := steady{}
	for i := range 200 {
		w.costs = append(w.costs, time.Duration(100+i)*time.Millisecond)
		w.rates = append(w.rates, []float64{0, 1}[i%2])
	}
	r := replay(t, p, time.Second, w)
	last, longest := make([]uint64, 200), uint64(0)
	for slot := uint64(1); slot <= 600; slot++ {
		r.Slot(func(x Played) {
			longest = max(longest, slot-last[x.Query])
			last[x.Query] = slot
		})
		if r.p.ranking.Stretch <= 1 {
			t.Fatalf("slot %d: 200 queries of 0.2 s every 4 slots of a second need 10 times the budget, but the stretch is %g", slot,
				r.p.ranking.Stretch)
		}
	}
	for i, l := range last {
		longest = max(longest, 600-l)
		if l == 0 {
			t.Errorf("query %d never ran", i)
		}
	}
	// All take 40 s. A third of the budget executes them in 120 slots, and a query is
	// late after 150.
	if longest > 240 {
		t.Errorf("one waited %d slots", longest)
	}
}

// TestOthersDeadlines checks that every query without a max_staleness runs, whatever it
// costs, although the deadlines of the others need twice the budget.
func TestOthersDeadlines(t *testing.T) {
	p, err := parse("hybrid:d=8")
	if err != nil {
		t.Fatal(err)
	}
	var w steady
	var queries []registry.Query
	for i := range 26 {
		q, cost := registry.Query{ID: fmt.Sprintf("q%06d", i)}, time.Second
		if i < 20 {
			q.Holders = []registry.Holder{{Caller: registry.Anonymous, MaxStaleness: registry.Duration(time.Hour)}}
		} else {
			cost = []time.Duration{time.Millisecond, 4 * time.Second, 9 * time.Second}[i%3]
		}
		queries = append(queries, q)
		w.costs, w.rates = append(w.costs, cost), append(w.rates, []float64{0, 1}[i%2])
	}
	r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: 10 * time.Second, Queries: queries, World: w, Ring: true,
		Lead: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	last, longest, bound := make([]uint64, len(queries)), make([]uint64, len(queries)), 0
	const slots = 200
	for slot := uint64(1); slot <= slots; slot++ {
		r.Slot(func(x Played) {
			longest[x.Query] = max(longest[x.Query], slot-last[x.Query])
			last[x.Query] = slot
			if x.Query < 20 {
				bound++
			}
		})
	}
	// A query is late after 10 slots, and one late query runs in a slot.
	for i := 20; i < len(queries); i++ {
		if n := max(longest[i], slots-last[i]); n > 20 {
			t.Errorf("query %d of %s waited %d slots", i, w.costs[i], n)
		}
	}
	if bound < slots*5 {
		t.Errorf("%d executions in %d slots are of queries with deadlines", bound, slots)
	}
}

// spikes is a world in which the first query never changes and takes long in one slot.
type spikes struct {
	steady
	at uint64
}

func (w spikes) Execute(query int, slot, last uint64) Known {
	k := w.steady.Execute(query, slot, last)
	if query == 0 {
		k.Outcome, k.Elapsed = registry.Unchanged, time.Millisecond
		if slot == w.at {
			k.Elapsed = time.Minute
		}
	}
	return k
}

// TestCutOnce checks that a short query runs again soon although a hint ran it when it took long, so
// that it was cut after nearly the whole budget, while others are worth more all the time.
func TestCutOnce(t *testing.T) {
	const at, slots = 100, 400
	w := spikes{at: at}
	var queries []registry.Query
	for i := range 40 {
		queries = append(queries, registry.Query{ID: fmt.Sprintf("q%04d", i)})
		cost, rate := 400*time.Millisecond, []float64{0, 0.2}[i%2]
		if i < 4 {
			cost, rate = time.Millisecond, 0.9
		}
		w.costs, w.rates = append(w.costs, cost), append(w.rates, rate)
	}
	hinted := func(slot uint64) []int {
		if slot == at {
			return []int{1, 0}
		}
		return nil
	}
	p, err := parse("hybrid")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReplay(ReplayConfig{
		Policy: p, Rule: RuleStrict, Budget: 2 * time.Second, Queries: queries, World: w, Ring: true, Hinted: hinted,
	})
	if err != nil {
		t.Fatal(err)
	}
	cut, again := false, uint64(0)
	for slot := uint64(1); slot <= slots; slot++ {
		r.Slot(func(x Played) {
			if x.Query == 0 && slot >= at && again == 0 {
				if x.Outcome == registry.Cut {
					cut = true
				} else if x.Outcome.Complete() {
					again = slot
				}
			}
		})
	}
	if !cut || again == 0 || again > at+60 {
		t.Errorf("cut: %v; it ran again in slot %d, want one of the 60 after %d", cut, again, at)
	}
}

// A pulse is a world in which a few queries change in every slot except each fourth,
// and the others never change.
type pulse struct{ hot, queries int }

func (w pulse) Execute(query int, slot, last uint64) Known {
	k := Known{Outcome: registry.Unchanged, Elapsed: 100 * time.Millisecond}
	if query < w.hot && slot > 0 && slot-slot/4 > last-last/4 {
		k.Outcome, k.Jaccard = registry.Changed, 0.5
	}
	return k
}

func (pulse) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// TestTurn checks that, if the first executions of a slot find no changes, the other
// queries that change often do not run, while queries that have waited long do.
func TestTurn(t *testing.T) {
	w := pulse{hot: 6, queries: 200}
	var queries []registry.Query
	for i := range w.queries {
		queries = append(queries, registry.Query{ID: fmt.Sprintf("q%04d", i)})
	}
	play := func(spelling string) (live, empty int) {
		p, err := parse(spelling)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReplay(ReplayConfig{Policy: p, Rule: RuleStrict, Budget: time.Second, Queries: queries, World: w, Ring: true})
		if err != nil {
			t.Fatal(err)
		}
		for slot := uint64(1); slot <= 400; slot++ {
			hot, all := 0, 0
			r.Slot(func(x Played) {
				all++
				if x.Query < w.hot {
					hot++
				}
			})
			if all != 10 {
				t.Fatalf("%s, slot %d: %d executions, the budget holds 10", spelling, slot, all)
			}
			switch {
			case slot <= 200: // to learn
			case slot%4 == 0:
				empty += hot
			default:
				live += hot
			}
		}
		return live, empty
	}
	live, empty := play("hybrid:d=64")
	if live < 150*6-10 || empty > 50*3 {
		t.Errorf("queries that change: %d executions in 150 live slots, %d in 50 empty ones, want nearly all 6 and at most 3 a slot", live, empty)
	}
}

// TestEveryPolicyIsFair checks that the choices of every policy do not depend on the
// order in which queries are added, and that strict never exceeds the budget.
func TestEveryPolicyIsFair(t *testing.T) {
	outcomes := []registry.Outcome{registry.Unchanged, registry.Unchanged, registry.Changed, registry.Failed, registry.Cut}
	rapid.Check(t, func(t *rapid.T) {
		var spellings []string
		for _, d := range definitions() {
			if !d.Simulated {
				spellings = append(spellings, d.Name)
			}
		}
		p, err := parse(rapid.SampledFrom(spellings).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		planners := []*Planner{New(p, 10*time.Second), New(p, 10*time.Second)}
		var all []registry.Query
		for i := range rapid.IntRange(1, 14).Draw(t, "queries") {
			q := query(fmt.Sprintf("q%02d", i))
			q.Constants = []string{fmt.Sprint("urn:", i%4)}
			all = append(all, q)
		}
		for _, p := range planners {
			for _, q := range rapid.Permutation(all).Draw(t, "order") {
				p.put(q, policy.Stats{})
			}
		}
		cost := rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second, 11 * time.Second})
		for slot := uint64(1); slot <= 20; slot++ {
			type fate struct {
				took    time.Duration
				outcome registry.Outcome
			}
			fates := map[string]fate{}
			for _, q := range all {
				fates[q.ID] = fate{cost.Draw(t, "cost"), rapid.SampledFrom(outcomes).Draw(t, "outcome")}
			}
			play := func(id string) (time.Duration, registry.Outcome) { return fates[id].took, fates[id].outcome }
			want, got := slotOf(t, planners[0], slot, play), slotOf(t, planners[1], slot, play)
			if !slices.Equal(got, want) {
				t.Fatalf("slot %d under %s: %v in one order, %v in another", slot, p, want, got)
			}
		}
	})
}
