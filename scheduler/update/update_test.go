package update_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/scheduler/update"
)

// Updates are at 2, 5, 6, 9 and 14 of 20. Every second one is at 5 (overwritten by 6)
// and 9 (by 14). Windows are cut at the end of the epoch.
func TestSpans(t *testing.T) {
	updates := []int{2, 5, 6, 9, 14}
	for _, c := range []struct {
		rule update.Rule
		want []update.Span
	}{
		{update.Rule{X: 1, Life: update.Overwrite()}, []update.Span{{2, 4}, {5, 5}, {6, 8}, {9, 13}, {14, 20}}},
		{update.Rule{X: 2, Life: update.Overwrite()}, []update.Span{{5, 5}, {9, 13}}},
		{update.Rule{X: 5, Life: update.Overwrite()}, []update.Span{{14, 20}}},
		{update.Rule{X: 6, Life: update.Overwrite()}, nil},
		{update.Rule{X: 1, Life: update.Within(7)}, []update.Span{{2, 9}, {5, 12}, {6, 13}, {9, 16}, {14, 20}}},
		{update.Rule{X: 3, Life: update.Within(0)}, []update.Span{{6, 6}}},
	} {
		if got := c.rule.Spans(updates, 20); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.rule, got, c.want)
		}
	}
	if got := (update.Rule{X: 1}).Spans([]int{3, 3, 4}, 9); !slices.Equal(got, []update.Span{{3, 3}, {4, 9}}) {
		t.Errorf("two updates in one chronon: %v", got)
	}
	for _, bad := range []update.Rule{{X: 0}, {X: 1, Life: update.Within(-1)}} {
		if err := bad.Check(); !errors.Is(err, update.ErrRule) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Algorithm 1 by hand: [2,4] is probed at 4, which also lies in [3,9]; [5,7] is
// probed at 7, which also lies in [6,8].
func TestSUP(t *testing.T) {
	spans := []update.Span{{3, 9}, {2, 4}, {5, 7}, {6, 8}}
	if got := update.SUP(spans); !slices.Equal(got, []int{4, 7}) {
		t.Errorf("probes %v", got)
	}
	if u := update.Utility(spans, []int{5, 20}); u != 2 {
		t.Errorf("utility %d", u)
	}
}

// Algorithm 2 by hand, with X = 2. The model expects updates at 2, 4, 8, 12, so the
// intervals are [4,7] and [12,20]; the true updates are at 3, 9 and 15. At 7 there is
// one update, so the plan waits for the (2−1)-th after it in the model, 8, and probes
// at the end of its life, 11. That lies in the true interval [9,14]. The probe at 20
// finds three updates: one more is needed, and the model has none left.
func TestFeedback(t *testing.T) {
	r := update.Rule{X: 2, Life: update.Overwrite()}
	got := update.Feedback(r, []int{2, 4, 8, 12}, []int{3, 9, 15}, 20)
	if !slices.Equal(got, []int{7, 11, 20}) {
		t.Errorf("probes %v", got)
	}
	if u := update.Utility(r.Spans([]int{3, 9, 15}, 20), got); u != 1 {
		t.Errorf("utility %d", u)
	}
}

func drawUpdates(t *rapid.T, label string, n int) []int {
	var out []int
	for i := 1; i <= n; i++ {
		if rapid.IntRange(0, 2).Draw(t, label) == 0 {
			out = append(out, i)
		}
	}
	return out
}

// Theorem 3.1: no set of probes that satisfies every interval is smaller.
func TestLawFewestProbes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 11
		r := update.Rule{X: rapid.IntRange(1, 3).Draw(t, "X")}
		if rapid.Bool().Draw(t, "windowed") {
			r.Life = update.Within(rapid.IntRange(0, 5).Draw(t, "Y"))
		}
		spans := r.Spans(drawUpdates(t, "updates", n), n)
		probes := update.SUP(spans)
		if update.Utility(spans, probes) != len(spans) {
			t.Fatalf("%v leaves one of %v out", probes, spans)
		}
		for set := range 1 << n {
			var other []int
			for i := range n {
				if set>>i&1 == 1 {
					other = append(other, i+1)
				}
			}
			if len(other) < len(probes) && update.Utility(spans, other) == len(spans) {
				t.Fatalf("%v are enough for %v, SUP has %v", other, spans, probes)
			}
		}
	})
}

// Feedback only adds probes. It adds none if the model is right, and none for X = 1
// under overwrite, where every expected update has its probe.
func TestLawFeedback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 60
		r := update.Rule{X: rapid.IntRange(1, 4).Draw(t, "X")}
		truth, model := drawUpdates(t, "truth", n), drawUpdates(t, "model", n)
		static, fed := update.SUP(r.Spans(model, n)), update.Feedback(r, model, truth, n)
		if !slices.IsSorted(fed) {
			t.Fatalf("%v", fed)
		}
		for _, p := range static {
			if !slices.Contains(fed, p) {
				t.Fatalf("probe %d of %v is not in %v", p, static, fed)
			}
		}
		if r.X == 1 && len(fed) != len(static) {
			t.Fatalf("X = 1: %v, SUP has %v", fed, static)
		}
		if right := update.Feedback(r, truth, truth, n); len(right) != len(update.SUP(r.Spans(truth, n))) {
			t.Fatalf("the model is right, and yet probes were added: %v", right)
		}
	})
}

// The schedule equals algorithm 2 computed by full search, for both lives.
func TestLawFeedbackByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 40
		r := update.Rule{X: rapid.IntRange(1, 4).Draw(t, "X")}
		if rapid.Bool().Draw(t, "windowed") {
			r.Life = update.Within(rapid.IntRange(0, 9).Draw(t, "Y"))
		}
		truth, model := drawUpdates(t, "truth", n), drawUpdates(t, "model", n)
		probes := map[int]bool{}
		for _, at := range update.SUP(r.Spans(model, n)) {
			probes[at] = true
		}
		for at := 1; at <= n; at++ {
			inside := func(s update.Span) bool { return s.Holds(at) }
			if !probes[at] || slices.ContainsFunc(r.Spans(truth, n), inside) {
				continue
			}
			missing, end := r.X, n // decreases with the updates so far, then with those of the model
			for _, u := range truth {
				if u <= at {
					missing--
				}
			}
			for missing <= 0 {
				missing += r.X
			}
			for i, u := range model {
				if u <= at {
					continue
				}
				if missing--; missing > 0 {
					continue
				}
				if next := model[i:]; len(next) > 1 {
					end = next[1] - 1
				}
				if r.Life.Windowed {
					end = min(n, u+r.Life.Window)
				}
				met := u > end
				for p := u; p <= end; p++ {
					met = met || probes[p]
				}
				if !met {
					probes[end] = true
				}
				break
			}
		}
		want := slices.Sorted(maps.Keys(probes))
		if got := update.Feedback(r, model, truth, n); !slices.Equal(got, want) {
			t.Fatalf("%+v, model %v, truth %v: %v, want %v", r, model, truth, got, want)
		}
	})
}

func TestNoisy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var updates []int
	for i := range 500 {
		updates = append(updates, 10*i+1)
	}
	if got := update.Noisy(rng, updates, 5000, 1); !slices.Equal(got, updates) {
		t.Error("FPN(1) has noise")
	}
	got := update.Noisy(rng, updates, 5000, 0.6)
	kept := 0
	for _, u := range got {
		if u < 1 || u > 5000 {
			t.Fatal(u)
		}
		if u%10 == 1 {
			kept++
		}
	}
	// 0.6·500 are kept, and a tenth of the others land on an occupied chronon.
	if len(got) != 500 || !slices.IsSorted(got) || math.Abs(float64(kept)-320) > 45 {
		t.Errorf("%d of %d in their place, want about 320", kept, len(got))
	}
}

// The rate is half an update per chronon, then zero, then two. Updates are expected
// at 2 and 4, and twice in each of 7 and 8.
func TestExpected(t *testing.T) {
	r := update.Rates{0.5, 0.5, 0.5, 0.5, 0, 0, 2, 2}
	if got := r.Expected(); !slices.Equal(got, []int{2, 4, 7, 7, 8, 8}) {
		t.Errorf("%v", got)
	}
	rng, total := rand.New(rand.NewPCG(3, 4)), 0
	for range 4000 {
		for _, c := range r.Sample(rng) {
			if total++; c == 5 || c == 6 {
				t.Fatal("an update where there are none")
			}
		}
	}
	if want := 4000 * (4*(1-math.Exp(-0.5)) + 2*(1-math.Exp(-2))); math.Abs(float64(total)-want) > 300 {
		t.Errorf("%d updates, want about %.0f", total, want)
	}
}

// A Week that learns from probes every two hours approximates the true rates:
// working hours of working days are eight times as busy as the rest.
func TestWeek(t *testing.T) {
	truth := func(at time.Time) float64 {
		if h, d := at.Hour(), at.Weekday(); h >= 8 && h < 18 && d != time.Saturday && d != time.Sunday {
			return 0.4
		}
		return 0.05
	}
	var w update.Week
	rng := rand.New(rand.NewPCG(5, 6))
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	at := start
	for range 26 * 7 * 12 {
		next := at.Add(2 * time.Hour)
		w.Learn(at, next, rng.Float64() < 1-math.Exp(-2*truth(at.Add(30*time.Minute))))
		at = next
	}
	mean := 0.0
	for h := range 7 * 24 {
		mean += truth(start.Add(time.Duration(h)*time.Hour)) / (7 * 24)
	}
	t.Logf("seed 5, 6: mean %.4f", w.Mean())
	if r := w.Mean() / mean; r < 0.85 || r > 1.15 {
		t.Errorf("mean rate %.3f, true %.3f", w.Mean(), mean)
	}
	noon, night, sunday := w.At(at.Add(36*time.Hour)), w.At(at.Add(26*time.Hour)), w.At(at.Add(6*24*time.Hour+12*time.Hour))
	if noon < 3*night || noon < 2*sunday {
		t.Errorf("Tuesday noon %.3f, Tuesday night %.3f, Sunday noon %.3f", noon, night, sunday)
	}
	rates := w.Rates(at, time.Hour, 7*24)
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	if r := sum / (mean * 7 * 24); r < 0.8 || r > 1.2 {
		t.Errorf("%.1f updates expected a week, true %.1f", sum, mean*7*24)
	}
}

// Λ is the sum of the rates of small steps, and When is its inverse, over weeks.
func TestLawWhen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := update.Week{Unit: time.Duration(rapid.SampledFrom([]int{0, 10, 600}).Draw(t, "unit")) * time.Second}
		start := time.Date(2024, 2, 28, 22, 17, 3, 0, time.UTC)
		at := start
		for range rapid.IntRange(0, 200).Draw(t, "probes") {
			next := at.Add(time.Duration(rapid.IntRange(1, 500).Draw(t, "gap")) * time.Minute)
			w.Learn(at, next, rapid.IntRange(0, 3).Draw(t, "updated") == 0)
			at = next
		}
		span := time.Duration(rapid.IntRange(0, 3000).Draw(t, "span")) * 17 * time.Minute
		got, want := w.Expected(at, at.Add(span)), 0.0
		rates := w.Rates(at, time.Minute, int(span/time.Minute))
		for _, r := range rates {
			want += r
		}
		if math.Abs(got-want) > 0.01*max(1, want) {
			t.Fatalf("%v updates to expect in %s, by minutes %v", got, span, want)
		}
		if back := w.When(at, got); back.Sub(at.Add(span)).Abs() > 2*time.Second {
			t.Fatalf("%v updates are to be expected by %s, not by %s", got, at.Add(span), back)
		}
	})
}
