package shadow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	r, err := plan.NewReplay(plan.ReplayConfig{Policy: parse(t, spelling), Rule: plan.RuleStrict, Budget: budget, Queries: queries, World: w, Ring: true})
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
	r, err := Play(context.Background(), Config{Policy: parse(t, spelling), Budget: budget, Entries: entries, Seed: 3})
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
		want := fmt.Sprintf("%d %d 0 0 0", total, relevant)
		if is := fmt.Sprintf("%g %g %g %g %g", got.Total.Mean, got.Relevant.Mean, got.Total.Dev, got.Relevant.Dev, math.Round(1e9*got.Delay.Dev)); is != want {
			t.Errorf("%s: total, relevant and deviations are %s, want %s", spelling, is, want)
		}
		if got.Used.Mean != float64(total) || got.From != 1 || got.To != 60 || got.Queries != 8 {
			t.Errorf("%s: %+v", spelling, got)
		}
		if got.Changes != (Estimate{Mean: float64(got.Known), Low: float64(got.Known), High: float64(got.Known)}) ||
			got.Missed.Mean != float64(got.Known-relevant) || got.Same.Relevant != got.Known || got.Same.Delay.Mean != 0 || got.Same.Missed.High != 0 {
			t.Errorf("%s: of %d known changes %g are missed, %d found, %+v", spelling, got.Known, got.Missed.Mean, relevant, got)
		}
	}
}

// If the history is sparse, the delay is uncertain. The deviation covers the distance
// between the estimate and what really happened.
func TestShadowIsUncertain(t *testing.T) {
	w := world8()
	entries := recordedBy(t, "rr", 2*time.Second, w, 200) // each query every fourth slot
	got := shadowOf(t, "rr", 2*time.Second, entries)
	if got.Total.Dev != 0 || got.Delay.Dev == 0 || got.Delay.Mean == 0 {
		t.Errorf("playing what was recorded: %+v", got)
	}
	// The same executions find the same changes.
	if got.Relevant.Mean != float64(got.Same.Relevant) || got.Total.Mean != float64(got.Same.Total) || math.Abs(got.Delay.Mean-got.Same.Delay.Mean) > 1e-9 {
		t.Errorf("playing what was recorded differs from it: %+v", got)
	}
	again := shadowOf(t, "rr", 2*time.Second, entries)
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("the same seed gives something else:\n%s", d)
	}
	if more := shadowOf(t, "rr", time.Minute, entries); more.Relevant != more.Changes || more.Missed.High != 0 || more.Delay.High != 0 {
		t.Errorf("asking everything always finds all changes at once: %+v", more)
	}
}

// scored returns what a policy really does in a world.
func scored(t *testing.T, spelling string, budget time.Duration, w steady, slots uint64) (s tally) {
	t.Helper()
	changed := func(q int, slot uint64) bool { return w.Execute(q, slot, slot-1).Outcome == registry.Changed }
	last := make([]uint64, len(w.costs))
	r := replay(t, spelling, budget, w)
	for slot := uint64(1); slot <= slots; slot++ {
		for q := range last {
			if changed(q, slot) {
				s.changes++
			}
		}
		r.Slot(func(x plan.Played) {
			s.total++
			for since := last[x.Query] + 1; since <= slot; since++ {
				if changed(x.Query, since) {
					s.relevant++
					s.slots += slot - since
					break
				}
			}
			last[x.Query] = slot
		})
	}
	return s
}

// Estimates from a sparse history, which contains half of the changes, cover what
// really happens: it nearly always lies within two deviations of the mean, the mean is
// right on average, and the deviation is not trivially wide.
func TestLongShadowCovers(t *testing.T) {
	const slots, worlds = 150, 12
	const sparse, dense = 4 * time.Second, 12 * time.Second
	figures := []struct {
		name string
		of   func(Report) Estimate
		is   func(tally) float64
	}{
		{"changes", func(r Report) Estimate { return r.Changes }, func(s tally) float64 { return float64(s.changes) }},
		{"total", func(r Report) Estimate { return r.Total }, func(s tally) float64 { return float64(s.total) }},
		{"relevant", func(r Report) Estimate { return r.Relevant }, func(s tally) float64 { return float64(s.relevant) }},
		{"missed", func(r Report) Estimate { return r.Missed }, tally.missed},
		{"delay", func(r Report) Estimate { return r.Delay }, tally.delay},
	}
	held, wide, all, seen := make([]int, len(figures)), make([]float64, len(figures)), 0, 0.0
	for seed := range uint64(worlds) {
		w := steady{seed: seed}
		for i := range 32 {
			w.costs = append(w.costs, time.Second)
			w.rates = append(w.rates, []float64{0.5, 0.15, 0.05, 0.01}[i%4])
		}
		entries := recordedBy(t, "rr", sparse, w, slots) // each query every eighth slot
		for _, p := range []struct {
			spelling string
			budget   time.Duration
		}{{"rr", dense}, {"ttl:max=16:half", dense}, {"cr:lambda=0", sparse}, {"dj", sparse}, {"hybrid:d=32", sparse}} {
			report, real := shadowOf(t, p.spelling, p.budget, entries), scored(t, p.spelling, p.budget, w, slots)
			all++
			seen += float64(report.Known) / float64(real.changes)
			for i, f := range figures {
				e := f.of(report)
				if math.Abs(f.is(real)-e.Mean) <= 2*e.Dev {
					held[i]++
				}
				wide[i] += e.Dev / e.Mean
			}
		}
	}
	if seen /= float64(all); seen > 0.6 {
		t.Errorf("the history has seen %.2f of the changes: it is not sparse", seen)
	}
	for i, f := range figures {
		if share, dev := float64(held[i])/float64(all), wide[i]/float64(all); share < 0.9 || dev > 0.5 {
			t.Errorf("%s: %.2f lie within two deviations, which are %.2f of the mean each", f.name, share, dev)
		} else {
			t.Logf("%s: %.2f lie within two deviations, which are %.2f of the mean each", f.name, share, dev)
		}
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
	if _, err := Play(context.Background(), Config{Policy: policy.Clairvoyant(nil), Budget: time.Second, Entries: entries}); !errors.Is(err, policy.ErrPolicy) {
		t.Errorf("a clairvoyant policy: %v", err)
	}
}
