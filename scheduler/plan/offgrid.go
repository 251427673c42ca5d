package plan

import "time"

// BeginOffGrid begins executions of queries that hints have marked, in the time between
// two slots. They count as executions of the slot that ended last, so the policies see no
// additional slots. budget bounds their time together, and until is the next grid time or
// an earlier end: no execution lasts longer. The rule is strict.
//
// Queries whose last execution in that slot or since is incomplete are left to the next
// slot, so a query that fails is not repeated outside the grid.
func (p *Planner) BeginOffGrid(now, until time.Time, t Terms, budget time.Duration) *SlotBudget {
	return &SlotBudget{p: p, everything: p.offGridAll, account: account{
		rule: p.rule, claims: &p.claims, width: t.Width, serial: t.Width == 1, timeout: t.Timeout, start: now, until: until, budget: budget,
	}}
}

// OffGridCost prepares the marked queries for BeginOffGrid. It returns the sum of their
// estimates; all means that any query may run. ok is false if none can run.
func (p *Planner) OffGridCost(now time.Time) (cost time.Duration, all, ok bool) {
	if p.hints == nil || len(p.hints.marked) == 0 && !p.hints.all && !p.hints.fresh {
		return 0, false, false
	}
	p.Proofs().Watch(now)
	p.Advance(now)
	p.offGridAll = p.hints.all
	if p.offGridAll && !p.ordered {
		p.rank()
	}
	p.applyHints()
	for _, c := range p.hints.order {
		if p.offGridAll { // what does not run now waits for the next slot
			p.hints.marked[c] = struct{}{}
		}
		if p.repeatable(c) {
			cost += c.Estimate
			ok = true
		}
	}
	if p.hints.fresh {
		p.hints.fresh = false
		n := 0
		for c := range p.fresh.all {
			if n++; n > maxEarly {
				break
			}
			if p.repeatable(c) { // what it takes is unknown
				p.hints.order, cost, ok = append(p.hints.order, c), p.budget, true
			}
		}
	}
	return cost, p.offGridAll, ok || p.offGridAll && p.ranked.n > 0
}

// Reaches reports whether an execution may still start at a later time.
func (s *account) Reaches(t time.Time) bool { return !s.offGrid() || t.Before(s.until) }

// offGridHas reports whether a query may be left to start outside the grid.
func (s *SlotBudget) offGridHas() bool {
	return len(s.p.hints.order) > 0 || s.everything && s.p.ranked.n > 0
}

// nextOffGrid starts the next marked query that fits. After a hint about all queries
// the ranked ones follow in their order.
func (s *SlotBudget) nextOffGrid(now time.Time) *Execution {
	room, _ := s.room(now)
	room = min(room, s.until.Sub(now))
	least := time.Duration(0)
	if !s.serial {
		least = minShare
	}
	if room <= least {
		return nil
	}
	t := s.p.hints
	for len(t.order) > 0 {
		c := t.order[0]
		t.order[0], t.order = nil, t.order[1:]
		if (s.p.follows(c) || c.in == &s.p.fresh) && s.p.repeatable(c) && c.Estimate <= room {
			return s.startOffGrid(c, now, room)
		}
	}
	if s.everything {
		c := s.p.ranked.fits(min(room, s.p.budget/hintShare))
		if c != nil && s.p.follows(c) && s.p.repeatable(c) {
			return s.startOffGrid(c, now, room)
		}
		s.everything = false
	}
	return nil
}

func (s *SlotBudget) startOffGrid(c *item, now time.Time, room time.Duration) *Execution {
	why := TierOffGrid
	if c.in == &s.p.fresh {
		why = TierNew
	}
	r := s.startHinted(c, now, room)
	r.tier = why
	r.limit = min(r.limit, s.until.Sub(now))
	return r
}

// EndOffGrid puts the queries that ran back into the order.
func (p *Planner) EndOffGrid(now time.Time) {
	p.now, p.offGridAll = now.Round(0), false
	p.settleRan()
}
