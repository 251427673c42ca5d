package plan

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// settle puts a lifted query where it belongs in the current slot.
func (p *Planner) settle(c *item) {
	v := p.placementOf(c)
	c.tier, c.key, c.why = v.tier, v.key, v.why
	p.ordered = false
	if !c.plain { // the state of a plain query has not changed
		p.count(c)
	}
	if v.slot > 0 {
		p.slots.set(c, v.slot)
	}
	if !v.at.IsZero() {
		// Times in nanoseconds end in 2262, so a longer wait is cut short: the query
		// is then settled again.
		p.times.set(c, p.now.UnixNano()+int64(min(v.at.Sub(p.now), longestWait)))
	}
	if v.tier == "" {
		return
	}
	c.since = p.slot
	v.list.insert(c)
}

// settleRan settles the queries that ran. It first touches a few of them, so that the
// reads from memory overlap.
func (p *Planner) settleRan() {
	const few = 32
	p.ordered = false
	for i, c := range p.ran {
		p.pause(i)
		if i%few == 0 {
			for _, next := range p.ran[i:min(i+few, len(p.ran))] {
				next.ran = false
				p.touched ^= next.Stats.Last
			}
		}
		if c.planned {
			p.settle(c)
		}
	}
	p.ran = p.ran[:0]
}

// longestWait is about seventy years.
const longestWait = time.Duration(1 << 61)

// lift removes a query from all lists.
func (p *Planner) lift(c *item) {
	if c.in != nil {
		c.in.remove(c)
	}
	c.rests, p.ordered = false, false
	p.slots.drop(c)
	p.times.drop(c)
}

// pick removes a query that starts from the order.
func (p *Planner) pick(c *item) {
	p.servedNew = p.servedNew || c.in == &p.fresh
	p.servedOld = p.servedOld || c.in == &p.asked
	if !c.ran { // else a merged answer has said nothing about it in this slot
		p.ran = append(p.ran, c)
	}
	c.ran, c.short = true, false
	p.lift(c)
	p.hints.drop(c)
	if c.member != nil {
		c.member.asked = true
	}
}

// learn replaces the statistics of a query that is in no list.
func (p *Planner) learn(c *item, s policy.Stats) {
	if s.Policy != p.name {
		s.Refold(p.policy)
	}
	if s.Last != c.Stats.Last || s.Executions != c.Stats.Executions {
		c.Overdue = 0
	}
	c.Stats = s
	c.SetState(s.State)
	c.Median = s.Median()
	c.Estimate = max(c.Median, s.Floor)
	p.oldest.set(c)
}

// count updates the tally for a query that the planner holds.
func (p *Planner) count(c *item) {
	s := registry.Idle
	switch {
	case c.plain:
		s = c.Stats.StateWithin(0)
	case c.why != inactive || c.Query.Paused() != nil:
		s = policy.StateOf(&c.Query, &c.Stats, p.now)
	}
	if to := (tallied{uint8(stateIndex(s) + 1), c.Stats.Executions > 0}); to != c.counted {
		p.tally.move(c, to)
	}
}
