package plan

// This file starts the queries that hints have marked, in a slot.

import "time"

// nextHinted returns the next hinted query that fits the rest of the hinted queries'
// share. A query that does not fit keeps its place in the policy's order, and its mark
// for the next slot.
func (s *SlotBudget) nextHinted(now time.Time, room time.Duration) *item {
	t := s.p.hints
	if t == nil || len(t.order) == 0 {
		return nil
	}
	left := s.budget/hintShare - s.onHints
	for _, r := range s.runs {
		if r.tier == TierHinted {
			left -= r.reserve(now)
		}
	}
	if left = min(left, room); left <= 0 {
		return nil
	}
	for len(t.order) > 0 {
		c := t.order[0]
		t.order[0], t.order = nil, t.order[1:]
		if s.p.follows(c) && c.Estimate <= left {
			return c
		}
	}
	return nil
}

// startHinted starts a hinted query with the limit of a ranked one.
func (s *SlotBudget) startHinted(c *item, now time.Time, room time.Duration) *Execution {
	left, _ := s.left(now)
	if c.open() {
		left = room
	}
	r := s.begin(c, now, left, false)
	r.tier = TierHinted
	return r
}

// earlyHinted lists the hinted queries that fit the share of hinted queries and that
// their policy does not have due yet.
func (p *Planner) earlyHinted() (list []*item) {
	if p.hints == nil {
		return nil
	}
	left := p.budget / hintShare
	for _, c := range p.hints.order {
		if c.Estimate > left {
			continue
		}
		left -= c.Estimate
		if c.in == nil {
			list = append(list, c)
		}
	}
	return list
}
