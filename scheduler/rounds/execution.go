package rounds

import (
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// An Execution is one complete execution of a query.
type Execution struct {
	Start time.Time // or the time at which its answer was true, if earlier
	End   time.Time
	Slot  uint64
	Tier  string // the tier that chose it
}

// An Observation is a complete execution with its result.
type Observation struct {
	Execution
	Query   string
	Delta   *diff.Delta // nil if nothing changed
	Before  time.Time   // previous check of the query, zero for its first result
	Checked time.Time   // time at which the answer was true
}

// lastOf is the last execution of a query with these statistics. ok is false if it was
// incomplete or there was none.
func lastOf(s *policy.Stats) (e Execution, ok bool) {
	if s == nil || !s.LastRun.Outcome.Complete() {
		return e, false
	}
	r := s.LastRun
	return Execution{Start: r.At.Add(-r.Elapsed), End: r.At, Slot: r.Slot, Tier: r.Why}, true
}

func (x *Observation) changed() bool { return x.Delta != nil && !x.Delta.Baseline }

// inside reports whether an execution lies within an interval: it began no earlier
// and ended no later than the interval. Intervals in slots include both end slots.
func (e *Execution) inside(x *registry.Interval) bool {
	return x.HasBounds() && !e.Start.Before(x.From) && (x.Until.IsZero() || !e.End.After(x.Until)) &&
		e.Slot >= x.First && (x.Last == 0 || e.Slot <= x.Last)
}

// capture marks an interval as captured by the execution.
func (e *Execution) capture(x *registry.Interval) {
	x.Done = &registry.Execution{At: e.End.UTC(), Slot: e.Slot, Why: e.Tier}
}
