package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
)

// A Simulator runs policies over a trace. Its methods may be called concurrently.
type Simulator struct {
	t       *trace.Trace
	series  []int32 // by query: the index in t.Series, -1 if it never changes
	gaps    map[[2]int]registry.Outcome
	totals  []slotTotal
	queries []registry.Query
	changes int
	rates   []float64 // by series: changes a slot
}

// slotTotal is the cost of executing all queries in a slot.
type slotTotal struct {
	cost, longest time.Duration
	gaps          bool
}

// NewSimulator prepares a trace for simulations.
func NewSimulator(t *trace.Trace) *Simulator {
	w := &Simulator{
		t: t, series: make([]int32, t.Queries), gaps: map[[2]int]registry.Outcome{},
		totals: make([]slotTotal, t.Revisions+1), queries: make([]registry.Query, t.Queries), changes: t.Changes(),
	}
	for q := range w.queries {
		w.series[q] = -1
		w.queries[q] = registry.Query{ID: name(q), Constants: constants(t, q)}
	}
	for i, s := range t.Series {
		w.series[s.Query] = int32(i)
		n := len(s.Versions) - 1
		// Of r revisions at random times, the share e^(−λ) is without a change.
		w.rates = append(w.rates, -math.Log1p(-min(float64(n)/float64(max(1, t.Revisions)), 1-1e-9)))
	}
	for _, g := range t.Gaps {
		w.gaps[[2]int{g.Rev, g.Query}] = registry.Outcome(g.Outcome)
	}
	for i := range w.totals {
		w.totals[i] = w.total(t.Times[i])
	}
	for _, g := range t.Gaps {
		w.totals[g.Rev].gaps = true
	}
	return w
}

// name returns the id of a query for the scheduler. The order of ids is that of the
// numbers.
func name(q int) string { return fmt.Sprintf("%08d", q) }

func constants(t *trace.Trace, q int) []string {
	if t.Features == nil {
		return nil
	}
	var out []string
	for _, f := range t.Features[q] {
		out = append(out, fmt.Sprintf("urn:feature:%d", f))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w *Simulator) total(row []int32) slotTotal {
	sum, longest := int64(0), int32(0)
	for _, ms := range row {
		sum += int64(ms)
		longest = max(longest, ms)
	}
	return slotTotal{cost: milliseconds(sum), longest: milliseconds(longest)}
}

func milliseconds[T int32 | int64](ms T) time.Duration { return time.Duration(ms) * time.Millisecond }

// Execute implements plan.World.
func (w *Simulator) Execute(q int, slot, last uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: milliseconds(w.t.Times[slot][q])}
	if len(w.gaps) > 0 {
		if o, gap := w.gaps[[2]int{int(slot), q}]; gap && slot > 0 {
			k.Outcome = o
			return k
		}
	}
	if i := w.series[q]; i >= 0 {
		was, now := w.t.Series[i].Between(int(last), int(slot))
		if !was.Same(*now) {
			k.Outcome, k.Jaccard = registry.Changed, jaccard(was.Rows, now.Rows)
		}
	}
	return k
}

// Total implements plan.World.
func (w *Simulator) Total(slot uint64) (cost, longest time.Duration, ok bool) {
	s := &w.totals[slot]
	return s.cost, s.longest, !s.gaps
}

var _ plan.World = (*Simulator)(nil)

// merged says what merged requests cost. A trace does not have all results, so the rows
// that the planner expects are in proportion to the time at t0.
func (w *Simulator) merged(mode string) *plan.MergedWorld {
	const rowMS = 10
	cost := w.t.MergeCost
	if cost == (trace.MergeCost{}) {
		cost = trace.DefaultMergeCost()
	}
	return &plan.MergedWorld{
		Mode: mode,
		Template: func(q int) string {
			if w.t.Templates[q] == 0 {
				return ""
			}
			return strconv.Itoa(w.t.Templates[q])
		},
		Rows: func(q int) int { return 1 + int(w.t.Times[0][q])/rowMS },
		Cost: func(slot uint64, kind cohort.Kind, queries []int) time.Duration {
			part, ms := cost.Values, cost.Request
			if kind == cohort.Probe {
				part = cost.Probe
			}
			for _, q := range queries {
				ms += part * float64(w.t.Times[slot][q])
			}
			return time.Duration(ms * float64(time.Millisecond))
		},
	}
}

// jaccard returns the distance between two bags of rows: one minus the size of their
// intersection over that of their union, 0 if both are empty.
func jaccard(a, b []int64) float64 {
	if !slices.IsSorted(a) {
		a = slices.Sorted(slices.Values(a))
	}
	if !slices.IsSorted(b) {
		b = slices.Sorted(slices.Values(b))
	}
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			both, i, j = both+1, i+1, j+1
		}
	}
	union := len(a) + len(b) - both
	if union == 0 {
		return 0
	}
	return 1 - float64(both)/float64(union)
}
