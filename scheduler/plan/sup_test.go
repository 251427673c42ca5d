package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A rhythm is a world of queries with known updates. Each execution takes a second.
type rhythm [][]uint64 // slots of updates, ascending, by query

func (r rhythm) Execute(q int, slot, last uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: time.Second}
	if i, _ := slices.BinarySearch(r[q], last+1); i < len(r[q]) && r[q][i] <= slot {
		k.Outcome, k.Jaccard = registry.Changed, 1
	}
	return k
}

func (rhythm) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// executions returns the slots in which each query runs if the budget is large enough.
func (r rhythm) executions(t *testing.T, policy string, slots int, edit func(*registry.Query)) [][]uint64 {
	t.Helper()
	p, err := scheduler.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	queries := make([]registry.Query, len(r))
	for i := range queries {
		queries[i].ID = fmt.Sprintf("q%03d", i)
		if edit != nil {
			edit(&queries[i])
		}
	}
	play, err := plan.NewReplay(plan.ReplayConfig{
		Policy: p, Rule: plan.RuleStrict, Budget: time.Hour, Queries: queries, World: r, Ring: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]uint64, len(r))
	for slot := uint64(1); slot <= uint64(slots); slot++ {
		play.Slot(func(x plan.Played) { out[x.Query] = append(out[x.Query], slot) })
	}
	return out
}

// poisson draws updates; busy returns the expected number in a slot.
func poisson(rng *rand.Rand, slots int, busy func(slot uint64) float64) (out []uint64) {
	for s := uint64(1); s <= uint64(slots); s++ {
		if rng.Float64() < busy(s) {
			out = append(out, s)
		}
	}
	return out
}

// satisfied counts all X-th updates, and those that an execution met while they were
// alive.
func satisfied(updates, executions []uint64, x int) (met, all int) {
	for i := x - 1; i+1 < len(updates); i += x {
		all++
		k, _ := slices.BinarySearch(executions, updates[i])
		if k < len(executions) && executions[k] < updates[i+1] {
			met++
		}
	}
	return met, all
}

// TestSatisfyFewExecutions checks that, with updates about every 24 slots and cheap
// executions, a query has about one execution for each update, and hardly any if
// nothing changes.
func TestSatisfyFewExecutions(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	const slots = 6000
	r := rhythm{poisson(rng, slots, func(uint64) float64 { return 1.0 / 24 }), nil,
		poisson(rng, slots, func(uint64) float64 { return 1.0 / 3 })}
	ran := r.executions(t, "sup", slots, nil)
	for _, q := range []int{0, 2} {
		updates, n := len(r[q]), len(ran[q])
		met, all := satisfied(r[q], ran[q], 1)
		t.Logf("seed 21, 22: %d updates, %d executions, %d of %d met", updates, n, met, all)
		if n < updates*6/10 || n > updates*14/10 {
			t.Errorf("%d executions for %d updates", n, updates)
		}
		if met < all*4/10 { // of a process without memory 1 − 1/e could be met by executions as many as updates
			t.Errorf("%d of %d updates met", met, all)
		}
	}
	if n := len(ran[1]); n < 3 || n > 12 {
		t.Errorf("a query that never changes was executed %d times in %d slots: %v", n, slots, ran[1])
	}
}

// TestSatisfyFeedback checks that feedback meets more of the third updates with
// moderately more executions, and changes nothing if every update counts.
func TestSatisfyFeedback(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	const slots = 20_000
	r := rhythm{}
	for range 6 {
		r = append(r, poisson(rng, slots, func(uint64) float64 { return 1.0 / 30 }))
	}
	count := func(policy string, x int) (met, runs int) {
		for q, list := range r.executions(t, policy, slots, nil) {
			m, _ := satisfied(r[q], list, x)
			met, runs = met+m, runs+len(list)
		}
		return met, runs
	}
	met, runs := count("sup:x=3", 3)
	fedMet, fedRuns := count("fbsup:x=3", 3)
	t.Logf("seed 23, 24: sup meets %d with %d executions, fbsup %d with %d", met, runs, fedMet, fedRuns)
	if fedMet <= met || fedRuns <= runs || fedRuns > 3*runs {
		t.Errorf("sup meets %d with %d executions, fbsup %d with %d", met, runs, fedMet, fedRuns)
	}
	if a, b := r.executions(t, "sup", 3000, nil), r.executions(t, "fbsup", 3000, nil); !slices.EqualFunc(a, b, slices.Equal[[]uint64]) {
		t.Error("feedback makes a difference where every update counts")
	}
}

// TestSatisfyLearnsTheDay checks that a query that is updated in working hours is
// executed mostly then and soon after.
func TestSatisfyLearnsTheDay(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	const slots = 24 * 7 * 30 // of an hour
	busy := func(s uint64) float64 {
		if h := s % 24; h >= 8 && h < 18 {
			return 0.5
		}
		return 0.005
	}
	r := rhythm{poisson(rng, slots, busy)}
	day, night := 0, 0
	for _, s := range r.executions(t, "sup", slots, nil)[0] {
		switch h := s % 24; {
		case s < slots/3: // still learning
		case h >= 7 && h < 20: // up to the slot before the first update of the next morning is expected
			day++
		default:
			night++
		}
	}
	t.Logf("seed 25, 26: %d executions by day, %d at night", day, night)
	if 2*day < 5*night { // by even chances 13 to 11
		t.Errorf("%d executions from 7 to 20, %d in the rest of the day", day, night)
	}
}

// TestSatisfyHolders checks that a query is due at the end of the life of the expected
// update, that max_staleness makes it due earlier, and that the life given in the
// policy counts.
func TestSatisfyHolders(t *testing.T) {
	for _, c := range []struct {
		holder registry.Holder
		first  uint64
	}{
		{registry.Holder{}, 15}, // updates expected at 8 and 16
		{registry.Holder{MaxStaleness: registry.Duration(5 * time.Hour)}, 5}, // of slots of an hour
	} {
		p, err := scheduler.ParsePolicy("sup")
		if err != nil {
			t.Fatal(err)
		}
		q := registry.Query{ID: "q", Holders: []registry.Holder{c.holder}}
		k := &policy.Candidate{Query: q}
		if c.first == 5 {
			k.Overdue = 5
		}
		if got := p.Key(k).Due; got != c.first {
			t.Errorf("%+v: due in slot %d, want %d", c.holder, got, c.first)
		}
	}
	rng := rand.New(rand.NewPCG(27, 28))
	const slots = 3000
	r := rhythm{poisson(rng, slots, func(uint64) float64 { return 1.0 / 40 })}
	plain := len(r.executions(t, "sup", slots, nil)[0])
	tight := len(r.executions(t, "sup:life=window,0", slots, nil)[0])
	if plain == tight {
		t.Errorf("%d executions whatever the life", plain)
	}
}
