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

// deadlines are d and h by default, where the budget is roomy or scarce.
func (p hybrid) deadlines(temper int) (d, h uint64) {
	if temper == roomy {
		return cmp.Or(p.d, roomyD), cmp.Or(p.h, roomyH)
	}
	return cmp.Or(p.d, scarceD), cmp.Or(p.h, scarceH)
}

// watch chooses deadlines for the budget at hand. When all cannot be met they
// are stretched.
func (b *book) watch(m Moment) (g guard, temper int) {
	g = guard{slot: m.Slot, budget: m.Budget, lead: m.Lead, stretch: 1, lack: 1, share: 1}
	load := g.load(b.load[roomy])
	if b.policy.d == 0 {
		g.share = guardShare
		if load > g.share {
			temper, load = scarce, g.load(b.load[scarce])
		}
	}
	g.d, g.h = b.policy.deadlines(temper)
	g.stretch = max(1, load/g.share)
	return g, temper
}

// load is the part of the budget that meeting all deadlines for ever takes, with
// the margin. The sum is one of whole numbers, so that the order of all means
// nothing.
func (g *guard) load(sum int64) float64 {
	return margin * float64(sum) / float64(loadUnit) / float64(max(1, g.budget))
}

// cost is what a query takes of a slot. None is free: when the budget is used up
// to the last, nothing else starts.
func (g *guard) cost(estimate time.Duration) time.Duration {
	return min(max(estimate, quick), g.budget)
}

// period is how many slots a query may wait, before stretching: what its
// max_staleness asks for, else d, and h times that when it is dear.
func (g *guard) period(c *Candidate) uint64 {
	if s := c.MaxStaleness; s > 0 && g.lead > 0 {
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

// schedule works out when the deadline of each query is, and what the deadlines
// need, by the slots that are left.
func (b *book) schedule(wait []uint64) {
	g := &b.guard
	clear(b.costs)
	clear(b.bigs)
	b.costs, b.bigs = b.costs[:0], b.bigs[:0] // as far as somebody has to wait
	for i, s := range b.state {
		if s == vacant {
			continue
		}
		w := wait[i]
		if g.stretch != 1 {
			w = uint64(float64(w) * g.stretch)
		}
		d := b.last[i] + w
		if b.late[i] > 0 {
			d = b.late[i]
		}
		l := g.left(d)
		b.due[i], b.left[i] = d, int32(l)
		if l >= len(b.costs) {
			b.costs = slices.Grow(b.costs, l+1-len(b.costs))[:l+1] // what is behind the end is zero
			b.bigs = slices.Grow(b.bigs, l+1-len(b.bigs))[:l+1]
		}
		b.costs[l] += g.cost(b.cost[i])
		if g.big(b.cost[i]) {
			b.bigs[l]++
		}
	}
}

// choose finds those who run before all others: in the order of deadlines, as
// many as the deadlines need of this slot, which is the largest density of a
// prefix, its cost by the slots left, with a margin. Of the queries that take
// more than half the budget one goes a slot.
func (b *book) choose() {
	g := &b.guard
	need, lazy, pressed := b.need()
	limit := max(1, time.Duration(g.share*float64(g.budget)))
	g.reserve = time.Duration(margin * float64(need))
	if g.share == 1 {
		g.lack = max(1, float64(need)/float64(g.budget))
	} else {
		g.lack = max(1, float64(g.reserve)/float64(limit))
	}
	g.reserve = min(time.Duration(margin*float64(lazy)), limit)
	var bigs []int32
	for _, i := range b.prefix() {
		if g.big(b.cost[i]) {
			bigs = append(bigs, i)
		} else {
			b.prefer(i, classGuard)
		}
	}
	if pressed && len(bigs) == 0 {
		for i, s := range b.state {
			if s != vacant && g.big(b.cost[i]) {
				bigs = append(bigs, int32(i))
			}
		}
	}
	if len(bigs) > 0 {
		b.evaluate(bigs)
		b.prefer(slices.MinFunc(bigs, b.earlier), classGuard)
	}
	b.evaluate(b.special)
}

// prefer lets a query go before those of the index.
func (b *book) prefer(i int32, class int32) {
	b.state[i], b.rows[i].class = chosen, class
	b.special = append(b.special, i)
}

// earlier is the order of deadlines, of queries whose worth has been evaluated.
func (b *book) earlier(i, j int32) int {
	return cmp.Or(cmp.Compare(b.due[i], b.due[j]), -cmp.Compare(b.worth[i], b.worth[j]),
		cmp.Compare(b.last[i], b.last[j]), cmp.Compare(b.rows[i].c.Query.ID, b.rows[j].c.Query.ID))
}

// big queries do not fit a slot two at a time.
func (g *guard) big(estimate time.Duration) bool { return estimate > g.budget/2 }

// need is what the deadlines need of every slot from now on, and lazy what they
// need of this one, because empty slots will serve the rest; pressed says that
// the big ones need one in almost each.
func (b *book) need() (need, lazy time.Duration, pressed bool) {
	var cost time.Duration
	big := 0
	for l := 1; l < len(b.costs); l++ {
		cost += b.costs[l]
		big += b.bigs[l]
		need = max(need, (cost+time.Duration(l)-1)/time.Duration(l))
		pressed = pressed || big > 0 && margin*float64(big) >= float64(l)
	}
	credit := b.guard.credit(need)
	cost = 0
	for l := 1; l < len(b.costs); l++ {
		cost += b.costs[l]
		later := cost - credit*time.Duration(max(0, l-near))
		lazy = max(lazy, (later+time.Duration(l)-1)/time.Duration(l))
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

// prefix lists, in no order, the first queries by deadline whose cost reaches
// the reserve.
func (b *book) prefix() (in []int32) {
	g := &b.guard
	if g.reserve <= 0 {
		return nil
	}
	var sum time.Duration
	last := 1
	for far := len(b.costs) - 1; last < far && sum+b.costs[last] < g.reserve; last++ {
		sum += b.costs[last]
	}
	var edge []int32
	for i, s := range b.state {
		switch l := int(b.left[i]); {
		case s == vacant || l > last:
		case l < last:
			in = append(in, int32(i))
		default:
			edge = append(edge, int32(i))
		}
	}
	b.evaluate(edge)
	slices.SortFunc(edge, b.earlier)
	for _, i := range edge {
		if sum >= g.reserve {
			break
		}
		sum += g.cost(b.cost[i])
		in = append(in, i)
	}
	return in
}
