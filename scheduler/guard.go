package scheduler

import (
	"cmp"
	"slices"
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
	guardShare             = 0.6  // of the budget at most, for deadlines that nobody asked for
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

// guard chooses deadlines for the budget at hand. When all cannot be met they
// are stretched.
func (p hybrid) guard(m Moment, all []*Candidate) *guard {
	g := &guard{slot: m.Slot, budget: m.Budget, lead: m.Lead, stretch: 1, lack: 1, share: 1}
	try := func(d, h uint64) float64 {
		g.d, g.h = cmp.Or(p.d, d), cmp.Or(p.h, h)
		return g.load(all)
	}
	load := try(roomyD, roomyH)
	if p.d == 0 {
		g.share = guardShare
		if load > g.share {
			load = try(scarceD, scarceH)
		}
	}
	g.stretch = max(1, load/g.share)
	return g
}

// load is the part of the budget that meeting all deadlines for ever takes, with
// the margin.
func (g *guard) load(all []*Candidate) float64 {
	var sum int64 // whole numbers, so that the order of all means nothing
	for _, c := range all {
		sum += int64(g.cost(c)) * loadUnit / int64(g.period(c))
	}
	return margin * float64(sum) / float64(loadUnit) / float64(max(1, g.budget))
}

// cost is what a query takes of a slot. None is free: when the budget is used up
// to the last, nothing else starts.
func (g *guard) cost(c *Candidate) time.Duration { return min(max(c.Estimate, quick), g.budget) }

// period is how many slots a query may wait, before stretching: what its
// max_staleness asks for, else d, and h times that when it is dear.
func (g *guard) period(c *Candidate) uint64 {
	if s := c.maxStaleness(); s > 0 && g.lead > 0 {
		return max(1, uint64(s/g.lead))
	}
	if float64(c.Estimate) > dear*float64(g.budget) {
		return g.d * g.h
	}
	return g.d
}

// deadline is the last slot in which a query should run.
func (g *guard) deadline(c *Candidate) uint64 {
	if c.Overdue > 0 {
		return c.Overdue
	}
	wait := g.period(c)
	if c.Stats.Executions <= 1 {
		wait = min(wait, firstD)
	}
	return c.Stats.Last + uint64(float64(wait)*g.stretch)
}

// left is how many slots there are until a deadline, the current one included.
func (g *guard) left(deadline uint64) int {
	if deadline <= g.slot {
		return 1
	}
	return int(min(deadline-g.slot+1, farthest))
}

// choose marks those who run before all others: in the order of deadlines, as
// many as the deadlines need of this slot, which is the largest density of a
// prefix, its cost by the slots left, with a margin. Of the queries that take
// more than half the budget one goes a slot.
func (g *guard) choose(all []*Candidate, deadlines []uint64, worth []float64) []bool {
	need, lazy, pressed := g.need(all, deadlines)
	limit := time.Duration(g.share * float64(g.budget))
	g.reserve = time.Duration(margin * float64(need))
	if g.share == 1 {
		g.lack = max(1, float64(need)/float64(g.budget))
	} else {
		g.lack = max(1, float64(g.reserve)/float64(limit))
	}
	g.reserve = min(time.Duration(margin*float64(lazy)), limit)
	before := func(i, j int) int {
		a, b := all[i], all[j]
		return cmp.Or(cmp.Compare(deadlines[i], deadlines[j]), -cmp.Compare(worth[i], worth[j]),
			cmp.Compare(a.Stats.Last, b.Stats.Last), cmp.Compare(a.Query.ID, b.Query.ID))
	}
	chosen := make([]bool, len(all))
	var bigs []int
	for _, i := range g.prefix(all, deadlines, before) {
		chosen[i] = !g.big(all[i])
		if !chosen[i] {
			bigs = append(bigs, i)
		}
	}
	if pressed && len(bigs) == 0 {
		for i, c := range all {
			if g.big(c) {
				bigs = append(bigs, i)
			}
		}
	}
	if len(bigs) > 0 {
		chosen[slices.MinFunc(bigs, before)] = true
	}
	return chosen
}

// big queries do not fit a slot two at a time.
func (g *guard) big(c *Candidate) bool { return c.Estimate > g.budget/2 }

// need is what the deadlines need of every slot from now on, and lazy what they
// need of this one, because empty slots will serve the rest; pressed says that
// the big ones need one in almost each.
func (g *guard) need(all []*Candidate, deadlines []uint64) (need, lazy time.Duration, pressed bool) {
	var far int
	for _, d := range deadlines {
		far = max(far, g.left(d))
	}
	costs, bigs := make([]time.Duration, far+1), make([]int, far+1)
	for i, c := range all {
		l := g.left(deadlines[i])
		costs[l] += g.cost(c)
		if g.big(c) {
			bigs[l]++
		}
	}
	var cost time.Duration
	big := 0
	for l := 1; l <= far; l++ {
		cost += costs[l]
		big += bigs[l]
		costs[l] = cost
		need = max(need, (cost+time.Duration(l)-1)/time.Duration(l))
		pressed = pressed || big > 0 && margin*float64(big) >= float64(l)
	}
	credit := g.credit(need)
	for l := 1; l <= far; l++ {
		cost := costs[l] - credit*time.Duration(max(0, l-near))
		lazy = max(lazy, (cost+time.Duration(l)-1)/time.Duration(l))
	}
	return need, lazy, pressed
}

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

// prefix lists, in no order, the first candidates by deadline whose cost reaches
// the reserve.
func (g *guard) prefix(all []*Candidate, deadlines []uint64, before func(i, j int) int) []int {
	if g.reserve <= 0 {
		return nil
	}
	far := 0
	for _, d := range deadlines {
		far = max(far, g.left(d))
	}
	costs := make([]time.Duration, far+1)
	for i, c := range all {
		costs[g.left(deadlines[i])] += g.cost(c)
	}
	var sum time.Duration
	last := 1
	for ; last < far && sum+costs[last] < g.reserve; last++ {
		sum += costs[last]
	}
	var in, edge []int
	for i := range all {
		switch l := g.left(deadlines[i]); {
		case l < last:
			in = append(in, i)
		case l == last:
			edge = append(edge, i)
		}
	}
	slices.SortFunc(edge, before)
	for _, i := range edge {
		if sum >= g.reserve {
			break
		}
		sum += g.cost(all[i])
		in = append(in, i)
	}
	return in
}
