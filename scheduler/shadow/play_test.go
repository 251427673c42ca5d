package shadow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A steady world has the same costs in every slot. A seed determines its changes.
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

func parse(t *testing.T, spelling string) policy.Policy {
	t.Helper()
	p, err := scheduler.ParsePolicy(spelling)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func replay(t *testing.T, spelling string, budget time.Duration, w steady) *plan.Replay {
	t.Helper()
	queries := make([]registry.Query, len(w.costs))
	for i := range queries {
		queries[i] = registry.Query{ID: fmt.Sprintf("q%06d", i), Constants: []string{fmt.Sprint("urn:", i%3)}}
	}
	r, err := plan.NewReplay(plan.ReplayConfig{Policy: parse(t, spelling), Rule: plan.RuleStrict, Budget: budget, Queries: queries,
		World: w, Ring: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// recordedBy runs a policy in a world and returns what it records.
func recordedBy(t *testing.T, spelling string, budget time.Duration, w steady, slots int) []policy.Entry {
	t.Helper()
	r := replay(t, spelling, budget, w)
	for range slots {
		r.Slot(func(plan.Played) {})
	}
	return r.Entries()
}

func shadowOf(t *testing.T, spelling string, budget time.Duration, entries []policy.Entry) Report {
	t.Helper()
	r, err := Play(context.Background(), Config{Policy: parse(t, spelling), Budget: budget, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func world8() steady {
	w := steady{seed: 5}
	for i := range 8 {
		w.costs = append(w.costs, time.Second)
		w.rates = append(w.rates, []float64{0.5, 0.05}[i%2])
	}
	return w
}

// If every query was executed in every slot, the history is complete: the estimate of
// a policy is exactly what it would have done.
func TestShadowKnowsAll(t *testing.T) {
	w := world8()
	entries := recordedBy(t, "rr", time.Minute, w, 60)
	for _, spelling := range []string{"rr", "cr:lambda=0", "dj", "ttl:max=8:reset", "hybrid:d=8", "sqrt"} {
		got := shadowOf(t, spelling, 3*time.Second, entries)
		r := replay(t, spelling, 3*time.Second, w)
		var total, relevant int
		for range 60 {
			r.Slot(func(x plan.Played) {
				total++
				if x.Outcome == registry.Changed {
					relevant++
				}
			})
		}
		exact := func(n int) Range { return Range{float64(n), float64(n)} }
		if got.Total != exact(total) || got.Relevant != exact(relevant) || got.Delay.Low != got.Delay.High {
			t.Errorf("%s: %+v, but the total is %d, and relevant are %d", spelling, got, total, relevant)
		}
		if got.Used != exact(total) || got.From != 1 || got.To != 60 || got.Queries != 8 {
			t.Errorf("%s: %+v", spelling, got)
		}
		if got.Missed != exact(got.Known-relevant) || got.Same.Total != 60*8 || got.Same.Delay != exact(0) {
			t.Errorf("%s: %d found of %d known changes, %+v", spelling, relevant, got.Known, got)
		}
	}
}

// If the history is sparse, the delay is uncertain.
func TestShadowIsUncertain(t *testing.T) {
	w := world8()
	entries := recordedBy(t, "rr", 2*time.Second, w, 200) // each query every fourth slot
	got := shadowOf(t, "rr", 2*time.Second, entries)
	if got.Total.Low != got.Total.High || got.Delay.Low != 0 || got.Delay.High < 2.5 {
		t.Errorf("playing what was recorded: %+v", got)
	}
	// The same executions find the same changes.
	if known := float64(got.Known); got.Relevant != (Range{known, known}) || got.Total.Low != float64(got.Same.Total) ||
		got.Delay != got.Same.Delay {
		t.Errorf("playing what was recorded differs from it: %+v", got)
	}
	if more := shadowOf(t, "rr", time.Minute, entries); more.Relevant.Low != float64(more.Known) || more.Missed.High != 0 ||
		more.Delay.High != 0 {
		t.Errorf("asking everything always finds all changes at once: %+v", more)
	}
}

// In histories in which each change that is known came at some time that the record allows,
// the figures of most policies lie in the reported ranges, up to a twentieth.
func TestRangesCover(t *testing.T) {
	const slots, sparse, dense = 150, 4 * time.Second, 12 * time.Second
	w := steady{seed: 7}
	for i := range 32 {
		w.costs = append(w.costs, time.Second)
		w.rates = append(w.rates, []float64{0.5, 0.15, 0.05, 0.01}[i%4])
	}
	entries := recordedBy(t, "rr", sparse, w, slots) // each query every eighth slot
	inside, all := 0, 0
	for _, p := range []struct {
		spelling string
		budget   time.Duration
	}{{"rr", dense}, {"ttl:max=16:half", dense}, {"cr:lambda=0", sparse}, {"dj", sparse}, {"hybrid:d=32", sparse}} {
		c := Config{Policy: parse(t, p.spelling), Budget: p.budget, Entries: entries}
		report, err := Play(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		h, err := newHistory(entries, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(20) {
			got, err := play(c, h.past(pasts+n))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []struct {
				is float64
				e  Range
			}{{float64(got.total), report.Total}, {float64(got.relevant), report.Relevant}, {got.delay(), report.Delay}} {
				if all++; f.is >= 0.95*f.e.Low && f.is <= 1.05*f.e.High {
					inside++
				} else {
					t.Logf("%s: %g is not in %+v", p.spelling, f.is, f.e)
				}
			}
		}
	}
	if 10*inside < 9*all {
		t.Errorf("%d of %d figures are in the ranges", inside, all)
	}
}

func TestPlayErrors(t *testing.T) {
	p := parse(t, "rr")
	if _, err := Play(context.Background(), Config{Policy: p, Budget: time.Second}); !errors.Is(err, ErrNoHistory) {
		t.Errorf("without any history: %v", err)
	}
	entries := recordedBy(t, "rr", time.Minute, world8(), 3)
	if _, err := Play(context.Background(), Config{Policy: p, Entries: entries}); err == nil {
		t.Error("played without a budget")
	}
	if _, err := Play(context.Background(), Config{Policy: parse(t, "cv"), Budget: time.Second, Entries: entries}); !errors.Is(err,
		policy.ErrPolicy) {
		t.Errorf("a clairvoyant policy: %v", err)
	}
}
