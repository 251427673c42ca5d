package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// Terms are the conditions of a slot.
type Terms struct {
	Lead    time.Duration // from its grid time to the next, 0 = no grid
	Width   int           // executions at a time
	Timeout time.Duration // of one execution
	Charged time.Duration // for trial runs before it, at most a whole budget is taken from it
}

// Begin begins the next slot.
func (p *Planner) Begin(now time.Time, t Terms) *SlotBudget {
	p.begin(p.slot, now, t.Lead)
	p.openRounds(now)
	return newSlotBudget(p, t.Width, t.Timeout, t.Charged)
}

// begin brings everything up to the slot that starts now.
func (p *Planner) begin(slot uint64, now time.Time, lead time.Duration) {
	p.slot, p.begun, p.lead = slot, now, lead
	p.advance(now)
	p.rank()
	p.applyHints()
	p.heads = p.heads[:0]
	if c := p.ranked.first(); c != nil {
		p.heads = append(p.heads, c)
		if c.tier == TierRefresh {
			if c := p.ranked.after(classRefresh); c != nil {
				p.heads = append(p.heads, c)
			}
		}
	}
}

// An Ending is what a slot leaves behind.
type Ending struct {
	Waiting int                 // eligible queries that did not run
	Stretch float64             // see Ranking
	Taught  []*policy.Candidate // queries whose state is new although they did not run, until the next slot
	Shared  []float64           // state of the policy, if it is a Collective
}

// End ends the slot. stopped is why nothing more could start, empty when the budget
// decided. The debt stays as it is until Owe.
func (p *Planner) End(now time.Time, stopped string) Ending {
	waiting := p.waiting()
	p.closeRounds(now, stopped)
	p.end(now)
	return Ending{Waiting: waiting, Stretch: p.ranking.Stretch, Taught: p.taught, Shared: slices.Clone(p.shared)}
}

// end closes the slot: what ran is settled again for the next one.
func (p *Planner) end(now time.Time) {
	p.owed = slices.DeleteFunc(p.owed, func(c *item) bool { return c.ran })
	for _, c := range p.heads {
		if len(p.ran) > 0 && (c.in == &p.ranked || c.ran && c.short) && !slices.Contains(p.owed, c) {
			p.owed = append(p.owed, c)
		}
	}
	p.heads = p.heads[:0]
	p.freshFirst = p.servedOld && !p.servedNew && p.fresh.len() > 0
	p.servedNew, p.servedOld = false, false
	p.absorb()
	p.slot, p.now, p.ordered = p.slot+1, now.Round(0), false
	for i, c := range p.ran {
		p.pause(i)
		c.ran = false
		if c.planned {
			p.settle(c)
		}
	}
	p.ran = p.ran[:0]
}

// Advance looks again at whatever waited for the next slot or this moment. No slot
// may be running.
func (p *Planner) Advance(now time.Time) { p.advance(now) }

// Refresh is Advance, and puts the queries in order unless they are: one look at all
// of them serves every question until something moves.
func (p *Planner) Refresh(now time.Time) {
	p.advance(now)
	if !p.ordered {
		p.rank()
		p.sort()
	}
}

// advance looks again at whatever waited for this slot or this moment.
func (p *Planner) advance(now time.Time) {
	// Without the monotonic clock reading, which stops while the machine is
	// suspended.
	now = now.Round(0)
	p.now = now
	if inFuture(p.looked, now) { // the clock was set back, and those moments with it
		for i, c := range p.order {
			p.pause(i)
			if c.timed {
				p.lift(c)
				p.settle(c)
			}
		}
	}
	p.looked = now
	n := 0
	again := func(c *item) {
		p.pause(n)
		p.lift(c)
		p.settle(c)
		n++
	}
	p.slots.due(p.slot, again)
	for c := p.times.due(now.UnixNano()); c != nil; c = p.times.due(now.UnixNano()) {
		again(c)
	}
}
