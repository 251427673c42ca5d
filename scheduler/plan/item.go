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

// An item is a query in the planner. What an execution reads comes first, and together.
type item struct {
	in       *order  // nil = not eligible, or started in this slot
	exits    uint32  // how often it has left an order
	place    int32   // in the roster, from 1, 0 = not there; a query that is there but not in an order rests
	provedAt int32   // in the list of proved queries, from 1, 0 = not there
	number   int32   // its number in a replay
	counted  tallied // what the tally holds of it
	why      reason
	halted   bool         // paused
	planned  bool         // in the planner
	plain    bool         // only its statistics decide when it may run
	ran      bool         // started in the current slot
	short    bool         // cut in the current slot with a limit below the whole budget
	without  bool         // it was cut before it had a result, and is in queues.without
	single   bool         // its holders want it to be asked alone
	known    bool         // the membership was looked for
	audit    bool         // it is asked although it is proved
	doubted  bool         // a hint by hand about everything came after its last answer, while it was proved
	heard    bool         // a slot has counted an answer since unsettled, see policy.Shown
	shown    bool         // an answer has changed since then
	vain     bool         // when it was asked last, an event had matched it, and it had not changed
	slot     placed       // for which it waits
	waits    placed       // for a time, in nanoseconds since the epoch
	checked  placed       // the second in which its result was last known to be true
	member   *cohortState // nil if it is unknown or the query must be asked alone
	cohort   *cohortOf    // nil likewise
	touch    *proof.Touch // which events reached it last, nil if it is compared with no feed
	asked    uint64       // Query.Refreshes
	since    uint64       // slot in which it entered the list
	tier     string       // "" = not eligible
	key      policy.Key

	hinted    time.Time // when a hint by hand came that no answer is known to include
	unsettled time.Time // of the first event or hint that no answer is known to include, zero if there is none
	start     time.Time // of the slot of its last complete execution

	policy.Candidate
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
