package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// The tiers of a slot, in the order in which they are planned.
const (
	TierRefresh  = "refresh"
	TierNew      = "new"
	TierHinted   = "hinted"
	TierInterval = "interval"
	TierRanked   = "ranked"
)

// Classes of keys that the planner itself gives.
const (
	classRefresh = -16 // before whatever a policy says
	classNew     = classRefresh + 1
)

// An item is a query in the planner. Hot fields come first so that a slot touches
// few cache lines.
type item struct {
	in       *waitList // nil = not eligible, or has run in this slot
	prefix   uint64    // of the id
	key      policy.Key
	since    uint64 // slot since which it has been in that list
	why      reason
	planned     bool      // by the planner
	plain    bool      // nothing but its statistics decides when it may run
	ran      bool      // in the current slot
	listed   bool      // in the policy's table
	returned uint32    // plan in which that table returned it
	rests    bool      // its policy, which sees all, left it out of this slot
	short    bool      // and was cut there with less than the whole budget as its limit
	timed    bool      // it waits for a time
	counted    tallied   // what the tally holds of it
	seat     int32     // on the page of that slot
	slot     uint64    // it waits for, 0 = none
	time     int64     // it waits for, in nanoseconds since the epoch
	tier     string    // "" = not eligible
	number   int32     // in a replay
	asked    uint64    // Query.Refreshes
	past     *timeline // there, or nil
	policy.Candidate
	start time.Time

	checked int64 // the second that counts for the oldest result, 0 for none
	halted  bool  // paused
}

// A reason is why a query is not eligible.
type reason uint8

const (
	eligible reason = iota
	paused
	inactive
	backingOff
	cutOut
	tooSoon
	notDue
)

// A tallied is what a tally holds of one query. The zero value counts nothing.
type tallied struct {
	state  uint8 // from 1
	result bool
}

// ask says what the query is and who wants it.
func (c *item) ask(q registry.Query) {
	c.Query, c.asked, c.halted = q, q.Refreshes, q.Paused() != nil
	c.MaxStaleness = q.MaxStaleness()
	c.plain = q.Paused() == nil && len(q.Holders) > 0 && q.MinInterval() == 0 && c.MaxStaleness == 0 &&
		!slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return h.Pause != nil || h.From != nil || h.Until != nil })
}
