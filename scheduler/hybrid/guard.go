package hybrid

import (
	"cmp"
	"time"
)

// Classes of hybrid's keys.
const (
	classProbe = iota
	classGuard
	classIndex
)

// Default deadlines: the first execution after the baseline within eight slots,
// later ones within 32, or within 256 if 32 would take more than 60 % of the
// budget.
const (
	firstD                 = 8
	roomyD, roomyH         = 32, 8
	scarceD, scarceH       = 256, 4
	dear                   = 0.24 // fraction of the budget: a query that takes more waits h times as long
	margin                 = 1.15 // factor on what the deadlines need, so that they are met before the last moment
	guardShare             = 0.6  // largest fraction of the budget for deadlines that no holder asked for
	farthest               = 1 << 16
	loadUnit         int64 = 1 << 10
)

// A guard gives every query a deadline, in slots, and finds the queries that have
// to run now so that all deadlines can be met.
type guard struct {
	slot    uint64
	budget  time.Duration
	lead    time.Duration
	d, h    uint64
	share   float64 // fraction of the budget that it may take
	stretch float64 // factor on all deadlines, 1 = not stretched
	reserve time.Duration
	lack    float64 // what the deadlines need as a multiple of the whole budget, at least 1
	spare   float64 // mean fraction of the budget that empty slots leave for deadlines
}

// roomy and scarce set the defaults of d and h for an ample and a tight budget.
func (g *guard) roomy(p Policy)  { g.d, g.h = cmp.Or(p.d, roomyD), cmp.Or(p.h, roomyH) }
func (g *guard) scarce(p Policy) { g.d, g.h = cmp.Or(p.d, scarceD), cmp.Or(p.h, scarceH) }

// cost is what a query takes of a slot. It is never 0: once the budget is used up
// nothing else starts.
func (g *guard) cost(estimate time.Duration) time.Duration {
	return min(max(estimate, quick), g.budget)
}

// period is how many slots a query may wait, before stretching: its max_staleness
// if it has one, else d, or h·d for an expensive query.
func (g *guard) period(staleness, estimate time.Duration) uint64 {
	if staleness > 0 && g.lead > 0 {
		return max(1, uint64(staleness/g.lead))
	}
	if float64(estimate) > dear*float64(g.budget) {
		return g.d * g.h
	}
	return g.d
}

// deadline is the last slot in which a query should run.
func (g *guard) deadline(r *row) uint64 {
	if r.overdue > 0 {
		return r.overdue
	}
	wait := g.period(r.staleness, r.cost)
	if r.once {
		wait = min(wait, firstD)
	}
	if g.stretch != 1 {
		wait = uint64(float64(wait) * g.stretch)
	}
	return r.last + wait
}

// left is the number of slots until a deadline, including the current one.
func (g *guard) left(deadline uint64) int {
	if deadline <= g.slot {
		return 1
	}
	return int(min(deadline-g.slot+1, farthest))
}

// big reports whether two such queries do not fit into one slot.
func (g *guard) big(estimate time.Duration) bool { return estimate > g.budget/2 }

// near is the number of slots before its deadline from which a query no longer
// waits for an empty slot.
const near = 16

// credit is how much of each later slot is expected to be covered by empty slots.
// If these do not come, postponed work has to be done in the last slots: their need
// rises by at most credit·(ln(left/near) − 1). So the credit shrinks as the need
// approaches the whole budget.
func (g *guard) credit(need time.Duration) time.Duration {
	free := 1 - 2*margin*float64(need)/float64(g.budget)
	return time.Duration(g.spare * max(0, free) * float64(g.budget))
}
