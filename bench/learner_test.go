package bench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler/plan"
)

// random makes a trace of queries that take a second each and change at random: the i-th with rates[i] changes a slot.
func random(t *testing.T, seed uint64, slots int, rates []float64) *trace.Trace {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	x := &trace.Trace{Queries: len(rates), Revisions: slots}
	for range slots + 1 {
		row := make([]int32, len(rates))
		for q := range row {
			row[q] = 1000
		}
		x.Times = append(x.Times, row)
	}
	for q, rate := range rates {
		s := trace.Series{Query: q, Versions: []trace.Version{{Rows: []int64{0}}}}
		for rev := 1; rev <= slots; rev++ {
			if r.Float64() < -math.Expm1(-rate) {
				s.Versions = append(s.Versions, trace.Version{Rev: rev, Rows: []int64{int64(rev)}})
			}
		}
		if len(s.Versions) > 1 {
			x.Series = append(x.Series, s)
		}
	}
	if err := x.Seal(); err != nil {
		t.Fatal(err)
	}
	return x
}

// With time for all queries in each slot, both limits are all changes that are expected, and with time
// for none they are 0. If all queries change equally often, there is nothing to learn.
func TestLimits(t *testing.T) {
	limits := func(w *Simulator, budget time.Duration, wait int) Limits {
		t.Helper()
		l, err := w.Limits(t.Context(), budget, wait)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	even := make([]float64, 20)
	for q := range even {
		even[q] = 0.1
	}
	mixed := append(append([]float64(nil), even...), make([]float64, 60)...)
	for name, rates := range map[string][]float64{"even": even, "mixed": mixed} {
		w := NewSimulator(random(t, 3, 100, rates))
		all := 0.0
		kinds, _ := w.kinds()
		for _, k := range kinds {
			for i, rate := range k.rates {
				all -= 100 * k.share[i] * math.Expm1(-rate)
			}
		}
		for _, wait := range []int{0, 50} {
			l := limits(w, 200*time.Second, wait)
			if math.Abs(l.Known/all-1) > 0.01 || math.Abs(l.Learner/all-1) > 0.01 {
				t.Errorf("%s, wait %d, all time: %+v of %g", name, wait, l, all)
			}
			if l := limits(w, time.Microsecond, wait); l.Known > 0.1 || l.Learner > 0.1 {
				t.Errorf("%s, wait %d, no time: %+v", name, wait, l)
			}
		}
		l := limits(w, 4*time.Second, 0)
		bound := limits(w, 4*time.Second, 40)
		if l.Learner > 1.005*l.Known || bound.Known > 1.005*l.Known || bound.Learner > 1.005*l.Learner {
			t.Errorf("%s: %+v without a promise and %+v with one", name, l, bound)
		}
		if name == "mixed" && (l.Learner > 0.97*l.Known || bound.Known > 0.95*l.Known) {
			t.Errorf("nothing is to be learnt or promised: %+v, %+v", l, bound)
		}
	}
}

// A limit that takes minutes can be interrupted.
func TestLimitsEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := NewSimulator(random(t, 3, 100, []float64{0.1})).Limits(ctx, time.Second, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// No policy finds more in the mean of several histories.
func TestLimitsHold(t *testing.T) {
	rates := make([]float64, 120)
	for q := range 30 {
		rates[q] = 0.4 / float64(uint(1)<<(q/6))
	}
	budget := 6 * time.Second
	var known, learner, byRates, byHybrid float64
	const seeds = 12
	for seed := range uint64(seeds) {
		w := NewSimulator(random(t, seed, 150, rates))
		for i, x := range w.t.Series { // not how often they happen to change
			w.rates[i] = rates[x.Query]
		}
		l, err := w.Limits(t.Context(), budget, 0)
		if err != nil {
			t.Fatal(err)
		}
		known, learner = known+l.Known/seeds, learner+l.Learner/seeds
		rows, err := w.RunAll(t.Context(), []Setup{{Policy: "rates", Budget: budget, Rule: plan.RuleStrict},
			{Policy: "hybrid", Budget: budget, Rule: plan.RuleStrict}}, func(Row) {})
		if err != nil {
			t.Fatal(err)
		}
		byRates, byHybrid = byRates+float64(rows[0].Relevant)/seeds, byHybrid+float64(rows[1].Relevant)/seeds
	}
	if byRates > known || byRates < 0.85*known || byHybrid > learner || byHybrid < 0.7*learner || learner > known {
		t.Errorf("known %.1f, found %.1f; learner %.1f, found %.1f", known, byRates, learner, byHybrid)
	}
}

// A policy does better where all queries take less time in some slots, or some queries take less than others of
// their kind. The limit is for it, too.
func TestLongLimitsHoldForUnequalTimes(t *testing.T) {
	for name, ms := range map[string]func(slot, query int) int32{
		"slots":   func(slot, _ int) int32 { return []int32{400, 1600}[slot%2] },
		"queries": func(_, query int) int32 { return []int32{513, 1023}[query%2] },
	} {
		rates := make([]float64, 100)
		for q := range rates {
			rates[q] = 0.05
		}
		var known, found float64
		const seeds = 8
		for seed := range uint64(seeds) {
			tr := random(t, seed, 300, rates)
			for s, row := range tr.Times {
				for q := range row {
					row[q] = ms(s, q)
				}
			}
			w := NewSimulator(tr)
			for i := range w.rates { // not how often they happen to change
				w.rates[i] = 0.05
			}
			s := Setup{Policy: "rates", Budget: 2052 * time.Millisecond, Rule: plan.RuleStrict}
			l, err := w.Limits(t.Context(), s.Budget, 0)
			if err != nil {
				t.Fatal(err)
			}
			row, err := w.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			known, found = known+l.Known/seeds, found+float64(row.Relevant)/seeds
		}
		if found > known || found < 0.85*known {
			t.Errorf("%s: %.1f are found, the limit is %.1f", name, found, known)
		}
	}
}
