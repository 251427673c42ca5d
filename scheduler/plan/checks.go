package plan

// This file asks queries again for which a merged answer has left something open.

import (
	"slices"
	"time"
)

func (s *SlotBudget) recheck(c *item, why check) {
	m := c.member
	if m == nil || !c.planned {
		return
	}
	if m.check = why; !m.queued {
		m.queued = true
		s.p.checks = append(s.p.checks, c)
	}
}

// recheckable reports whether a query that is to be checked may start now. It runs once
// a slot at most.
func (p *Planner) recheckable(c *item) bool {
	m := c.member
	if !c.planned || m == nil || m.check == unchecked || m.asked {
		return false
	}
	if c.in == nil {
		return c.ran && m.check != checkAgain && c.Stats.LastRun.Slot != p.slot && c.Stats.Executions > 0
	}
	return c.in == &p.ranked && c.tier == TierRanked
}

// anyChecks reports whether a query that is to be checked may start.
func (p *Planner) anyChecks() bool { return slices.ContainsFunc(p.checks, p.recheckable) }

// startCheck starts the next query that is to be checked.
func (s *SlotBudget) startCheck(now time.Time, room time.Duration) *Execution {
	p := s.p
	room = min(room, s.budget/checkShare-s.onChecks)
	for i, c := range p.checks {
		if !p.recheckable(c) || c.Estimate > room {
			continue
		}
		p.checks = slices.Delete(p.checks, i, i+1)
		c.member.queued = false
		again := c.member.check == checkAgain
		left, _ := s.left(now)
		if c.open() {
			left = room
		}
		r := s.begin(c, now, left, false)
		r.tier, r.again, r.checks = TierRanked, again, true
		return r
	}
	return nil
}

// endChecks forgets the checks that are no longer wanted. The second look of an audit
// waits until the query may run again.
func (p *Planner) endChecks() {
	p.checks = slices.DeleteFunc(p.checks, func(c *item) bool {
		m := c.member
		gone := !c.planned || m == nil || m.check == unchecked || c.in == nil && m.check != checkAgain
		if gone && m != nil {
			m.queued = false
			if m.check != checkAlone {
				m.check = unchecked
			}
		}
		return gone
	})
}

// checkShare is the part of the budget for asking again what a merged answer left open,
// as a divisor.
const checkShare = 2
