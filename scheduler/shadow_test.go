package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
)

// recordedBy plays a policy in a world and returns the history that is left.
func recordedBy(t *testing.T, spelling string, budget time.Duration, w steady, slots int) []Entry {
	t.Helper()
	p, err := ParsePolicy(spelling)
	if err != nil {
		t.Fatal(err)
	}
	r := replay(t, p, budget, w)
	for range slots {
		r.Slot(func(Played) {})
	}
	var out []Entry
	for _, c := range r.all {
		out = append(out, Entry{Query: c.Query, Stats: c.Stats.owned()})
	}
	return out
}

func shadowOf(t *testing.T, spelling string, budget time.Duration, entries []Entry) ShadowReport {
	t.Helper()
	p, err := ParsePolicy(spelling)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Shadow(context.Background(), ShadowConfig{Policy: p, Budget: budget, Entries: entries, Seed: 3})
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

// Where everything was executed in every slot the history leaves nothing open:
// the estimate of any policy is what it would have done, exactly.
func TestShadowKnowsAll(t *testing.T) {
	w := world8()
	entries := recordedBy(t, "rr", time.Minute, w, 60)
	for _, spelling := range []string{"rr", "cr:lambda=0", "dj", "ttl:max=8:reset", "hybrid:d=8", "sqrt"} {
		got := shadowOf(t, spelling, 3*time.Second, entries)
		p, _ := ParsePolicy(spelling)
		r := replay(t, p, 3*time.Second, w)
		var total, relevant int
		for range 60 {
			r.Slot(func(x Played) {
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
		if got.Missed.Mean != float64(got.Known-relevant) || got.Same.Relevant != got.Known || got.Same.Delay.Mean != 0 {
			t.Errorf("%s: of %d known changes %g are missed, %d found", spelling, got.Known, got.Missed.Mean, relevant)
		}
	}
}

// Where the history is sparse the delay is uncertain, and the deviation covers
// how far the estimate is from what really happened.
func TestShadowIsUncertain(t *testing.T) {
	w := world8()
	entries := recordedBy(t, "rr", 2*time.Second, w, 200) // each query every fourth slot
	got := shadowOf(t, "rr", 2*time.Second, entries)
	if got.Total.Dev != 0 || got.Delay.Dev == 0 || got.Delay.Mean == 0 {
		t.Errorf("playing what was recorded: %+v", got)
	}
	// It finds what it found, as it asks when it asked.
	if got.Relevant.Mean != float64(got.Same.Relevant) || got.Total.Mean != float64(got.Same.Total) || math.Abs(got.Delay.Mean-got.Same.Delay.Mean) > 1e-9 {
		t.Errorf("playing what was recorded differs from it: %+v", got)
	}
	// A change lies evenly in four slots: 1.5 slots of delay on average.
	if math.Abs(got.Delay.Mean-1.5) > 0.2 {
		t.Errorf("the mean delay is %g", got.Delay.Mean)
	}
	again := shadowOf(t, "rr", 2*time.Second, entries)
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("the same seed gives something else:\n%s", d)
	}
	if more := shadowOf(t, "rr", time.Minute, entries); more.Relevant.Mean < float64(more.Known)-1e-9 || more.Delay.Mean != 0 {
		t.Errorf("asking everything always finds all known changes at once: %+v", more)
	}
}

func TestShadowErrors(t *testing.T) {
	p, _ := ParsePolicy("rr")
	if _, err := Shadow(context.Background(), ShadowConfig{Policy: p, Budget: time.Second}); err == nil {
		t.Error("a shadow without any history")
	}
	entries := recordedBy(t, "rr", time.Minute, world8(), 3)
	if _, err := Shadow(context.Background(), ShadowConfig{Policy: p, Entries: entries}); err == nil {
		t.Error("a shadow without a budget")
	}
	if _, err := Shadow(context.Background(), ShadowConfig{Policy: Clairvoyant(told), Budget: time.Second, Entries: entries}); !errors.Is(err, ErrPolicy) {
		t.Errorf("a clairvoyant shadow: %v", err)
	}
}
