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

// Deadlines where none are given: the first execution after the baseline within
// eight slots, then one within 32, or 256 where that would take more than 60 % of
// the budget.
const (
	firstD                 = 8
	roomyD, roomyH         = 32, 8
	scarceD, scarceH       = 256, 4
	dear                   = 0.24 // of the budget: from there on a query waits h times as long
	margin                 = 1.15 // of what the deadlines need, so that they are met before the last moment
	guardShare             = 0.6  // of the budget at most, for deadlines that no holder asked for
	farthest               = 1 << 16
	loadUnit         int64 = 1 << 10
)

// A guard gives every query a deadline, in slots, and finds who has to run now
// so that all of them can be met.
type guard struct {
	slot    uint64
	budget  time.Duration
	lead    time.Duration
	d, h    uint64
	share   float64 // of the budget that it may take
	stretch float64 // what all deadlines are multiplied with, 1 = nothing
	reserve time.Duration
	lack    float64 // by how much the deadlines need more than the whole budget, 1 = they do not
	spare   float64 // part of the budget that empty slots leave for deadlines, in the mean of all
}

// roomy and scarce set d and h where none are given.
func (g *guard) roomy(p Policy)  { g.d, g.h = cmp.Or(p.d, roomyD), cmp.Or(p.h, roomyH) }
func (g *guard) scarce(p Policy) { g.d, g.h = cmp.Or(p.d, scarceD), cmp.Or(p.h, scarceH) }

// cost is what a query takes of a slot. None is free: when the budget is used up
// to the last, nothing else starts.
func (g *guard) cost(estimate time.Duration) time.Duration {
	return min(max(estimate, quick), g.budget)
}

// period is how many slots a query may wait, before stretching: what its
// max_staleness asks for, else d, and h times that when it is dear.
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

// left is how many slots there are until a deadline, the current one included.
func (g *guard) left(deadline uint64) int {
	if deadline <= g.slot {
		return 1
	}
	return int(min(deadline-g.slot+1, farthest))
}

// big queries do not fit a slot two at a time.
func (g *guard) big(estimate time.Duration) bool { return estimate > g.budget/2 }

// near is how many slots before its deadline a query is no longer left to empty
// slots that may come.
const near = 16

// credit is how much of each later slot is left to empty ones. When they fail to
// come, what was put off has to be done in the last slots: the slots' need rises
// by at most credit·(ln(left/near) − 1), so the nearer it is to the whole budget,
// the less is left to them.
func (g *guard) credit(need time.Duration) time.Duration {
	free := 1 - 2*margin*float64(need)/float64(g.budget)
	return time.Duration(g.spare * max(0, free) * float64(g.budget))
}
