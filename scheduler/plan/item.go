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
	TierOffGrid  = "off_grid" // hinted, and executed between two slots
	TierInterval = "interval"
	TierRanked   = "ranked"
)

// The classes of the keys that the planner assigns.
const (
	classRefresh = -16 // before all classes of policies
	classNew     = classRefresh + 1
)

// An item is a query in the planner. The fields up to the first ones of Stats are those
// that an execution reads or writes. They fill five cache lines.
type item struct {
	in      *waitList    // nil = not eligible, or started in this slot
	cohort  *cohortOf    // nil if it is unknown or the query must be asked alone
	member  *cohortState // nil likewise
	key     policy.Key
	since   uint64  // slot in which it entered the list
	number  int32   // its number in a replay
	counted tallied // what the tally holds of it
	halted  bool    // paused
	single  bool    // its holders want it to be asked alone
	why     reason
	planned bool // in the planner
	plain   bool // only its statistics decide when it may run
	ran     bool // started in the current slot
	listed  bool // in the policy's table
	rests   bool // its policy, a Ranker, left it out of this slot
	short   bool // cut in the current slot with a limit below the whole budget
	timed   bool // waits for a time

	tier     string    // "" = not eligible
	asked    uint64    // Query.Refreshes
	slot     uint64    // slot for which it waits, 0 = none
	past     *timeline // its durations in a replay, or nil
	returned uint32    // plan in which the table returned it
	seat     int32     // position on the page of its slot

	policy.Candidate

	start   time.Time
	checked int64 // the second that oldest counts, 0 = none
	time    int64 // time for which it waits, in nanoseconds since the epoch
	known   bool  // the membership was looked for
	ring    *ring // the room of its samples once they are many, or nil
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

// ask sets the query and its holders.
func (c *item) ask(q registry.Query) {
	c.SetQuery(q)
	c.asked, c.halted, c.single = q.Refreshes, q.Paused() != nil, q.Alone()
	c.plain = q.Paused() == nil && len(q.Holders) > 0 && q.MinInterval() == 0 && c.MaxStaleness == 0 &&
		!slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return h.Pause != nil || h.From != nil || h.Until != nil })
}
