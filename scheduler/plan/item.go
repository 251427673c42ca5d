package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
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

// An item is a query in the planner.
type item struct {
	in      *order       // nil = not eligible, or started in this slot
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
	short   bool // cut in the current slot with a limit below the whole budget

	tier    string // "" = not eligible
	asked   uint64 // Query.Refreshes
	slot    placed // for which it waits
	exits   uint32 // how often it has left an order
	place   int32  // in the roster, from 1, 0 = not there; a query that is there but not in an order rests
	waits   placed // for a time, in nanoseconds since the epoch
	checked placed // the second in which its result was last known to be true

	policy.Candidate

	touch     *proof.Touch // which events reached it last, nil if it is compared with no feed
	hinted    time.Time    // when a hint by hand came that no answer is known to include
	provedAt  int32        // in the list of proved queries, from 1, 0 = not there
	audit     bool         // it is asked although it is proved
	doubted   bool         // a hint by hand about everything came after its last answer, while it was proved
	unsettled time.Time    // of the first event or hint that no answer is known to include, zero if there is none
	heard     bool         // a slot has counted an answer since then, see policy.Shown
	shown     bool         // an answer has changed since then
	vain      bool         // when it was asked last, an event had matched it, and it had not changed

	start time.Time
	known bool // the membership was looked for
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
	proved
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
