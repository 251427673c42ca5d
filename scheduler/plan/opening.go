package plan

import (
	"fmt"
	"time"
)

// An Opening is what a slot has left for another execution. Next decides by it whether a
// query may start. That of the slot's end explains why a query did not.
type Opening struct {
	ranked, front time.Duration // for ranked queries, and for refresh requests and new ones
	least         time.Duration // a smaller rest is not granted
	budget        time.Duration // of the endpoint
	repaid        time.Duration // the part of it that repaid debt
	used          time.Duration
	alone         bool // one execution has the slot for itself
}

// minShare is the smallest rest of a budget that is granted while several executions
// may run.
const minShare = time.Millisecond

// Opening returns what is left when nothing runs.
func (s *SlotBudget) Opening() Opening {
	o := s.opening(s.start)
	o.alone = s.alone
	return o
}

func (s *account) opening(now time.Time) Opening {
	o := Opening{budget: s.budget + s.repaid, repaid: s.repaid, used: s.used}
	o.ranked, o.front = s.room(now)
	if !s.serial {
		o.least = minShare
	}
	return o
}

// grants reports whether a query may start with the rest.
func (o *Opening) grants(rest time.Duration) bool { return rest > o.least }

// leads reports whether the first query in order may start. While a debt remains, its
// estimate has to fit.
func leads(owes, estimate, room time.Duration) bool { return owes == 0 || estimate <= room }

// Refusal explains why Next did not start an eligible query of this tier and estimate; ""
// if Next could have started it. cut says that the estimate is what the query had taken
// when it was cut.
func (o *Opening) Refusal(tier string, estimate time.Duration, cut bool) string {
	front := tier == TierNew || tier == TierRefresh
	room := o.ranked
	if front {
		room = o.front
	}
	own := o.budget - o.repaid
	switch {
	case o.repaid > 0 && estimate > own:
		return fmt.Sprintf("%s; the slot had %s of its %s, the rest repaid what earlier ones had taken beyond theirs",
			need(estimate, cut), own, o.budget)
	case o.used > own:
		return "an execution that took longer than expected used up the slot, and more"
	case estimate > o.budget:
		return need(estimate, cut) + ", more than the budget: it runs alone once it is first"
	case o.alone:
		return "a query that needs more than was left ran alone"
	case estimate > 0 && (estimate > room || !o.grants(room)):
		return need(estimate, cut) + ", more than was left when its turn came"
	case front && !o.grants(o.front) && o.grants(o.ranked):
		return fmt.Sprintf("the half of the budget that %s may use was used up before its turn",
			map[string]string{TierNew: "new queries", TierRefresh: "refreshes"}[tier])
	case !o.grants(room):
		return "the budget was used up before its turn"
	}
	return ""
}

// need says how long a query takes. cut is that of Refusal.
func need(estimate time.Duration, cut bool) string {
	if cut {
		return fmt.Sprintf("it was cut after %s and needs longer", estimate)
	}
	return fmt.Sprintf("it needs about %s", estimate)
}
