package rounds

import (
	"iter"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// An Execution is one complete execution of a query.
type Execution struct {
	Start time.Time // or when its answer was true, if that is earlier
	End   time.Time
	Slot  uint64
	Tier  string // that chose it
}

// An Observation is a complete execution with its result.
type Observation struct {
	Execution
	Query   string
	Delta   *diff.Delta // nil when nothing changed
	Before  time.Time   // when the query was checked before, zero for its first result
	Checked time.Time   // when the answer was true
}

// Queries gives a Tracker what is known of the endpoint's queries.
type Queries interface {
	// Last is a query's last execution; ok is false when that was not complete
	// or there was none.
	Last(query string) (e Execution, ok bool)
	// Changed is when the result changed last; ok is false when the query is
	// not registered.
	Changed(query string) (at time.Time, ok bool)
	// History yields the slots of the remembered complete executions, oldest
	// first, and whether each found a change.
	History(query string) iter.Seq2[uint64, bool]
}

func (x *Observation) changed() bool { return x.Delta != nil && !x.Delta.Baseline }

// inside reports whether an execution captures an interval: it began no earlier
// and ended no later than the interval. The slots of an interval count whole.
func (e *Execution) inside(x *registry.Interval) bool {
	return x.HasBounds() && !e.Start.Before(x.From) && (x.Until.IsZero() || !e.End.After(x.Until)) &&
		e.Slot >= x.First && (x.Last == 0 || e.Slot <= x.Last)
}

// capture marks an interval as captured by the execution.
func (e *Execution) capture(x *registry.Interval) {
	x.Done = &registry.Execution{At: e.End.UTC(), Slot: e.Slot, Why: e.Tier}
}
