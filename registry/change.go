package registry

import (
	"time"

	"github.com/freshet/freshet/diff"
)

// An Outcome says how one execution ended.
type Outcome string

const (
	Unchanged Outcome = "unchanged"
	Changed   Outcome = "changed"
	Partial   Outcome = "partial"   // completeness is in doubt: never compared
	Failed    Outcome = "error"     // the endpoint, or what it sent, is in error
	Timeout   Outcome = "timeout"   // the endpoint's time limit for one execution ran out
	Throttled Outcome = "throttled" // the endpoint asked us to wait
	Rejected  Outcome = "rejected"  // the endpoint refuses this query
	Cut       Outcome = "cut"       // the slot's budget ended: neither a failure nor a sample
	Outdated  Outcome = "outdated"  // the answer is older, by its Age, than the result that is known: not taken
	Dropped   Outcome = "dropped"   // the endpoint's settings were edited during the execution: the answer is not taken
)

// Complete says whether the execution brought a complete result.
func (o Outcome) Complete() bool { return o == Unchanged || o == Changed }

// A Change is one step of a query's result. It is immutable once committed.
type Change struct {
	Query     string
	Endpoint  string
	Epoch     string
	Prev, Seq uint64 // the step leads from Prev to Seq; Prev = Seq-1 in the log, less when folded
	Offset    uint64 // place among all changes of the store, counted from 1
	Time      time.Time
	CheckedAt time.Time // when the endpoint's answer was true
	Slot      uint64
	Baseline  bool // the first complete result: Delta leads from the empty result
	Delta     *diff.Delta
}

// Position is the position after the change.
func (c *Change) Position() Position { return Position{c.Epoch, c.Seq} }
