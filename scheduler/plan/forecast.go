package plan

import "time"

// A Forecast says when a query is expected to run.
type Forecast struct {
	Ran      bool // started in the running slot
	Eligible bool
	// Slots counts the slots up to the one in which the query runs, or, if it is not
	// eligible, in which it may run; 0 = unknown.
	Slots uint64
	// At is when a query that is not eligible may run, zero = it waits for no time. One that
	// has started in the running slot also waits for Slots.
	At    time.Time
	Armed Armed
}

// Armed says when a query is asked outside of slots because of an event or a hint.
type Armed struct {
	At    time.Time     // zero = not
	Vain  time.Time     // not before the next slot or this time, because it was asked in vain
	Every time.Duration // what is added to At in the meantime
}

// Forecast predicts when a query runs. ok is false if there is no such query. The plan
// must be sorted, see RefreshFor.
func (p *queues) Forecast(query string) (f Forecast, ok bool) {
	c := p.all[query]
	if c == nil {
		return f, false
	}
	return p.forecast(c), true
}

func (p *queues) forecast(c *item) (f Forecast) {
	switch {
	case c.ran:
		f.Ran = true
		f.Slots, f.At = p.again(c)
	case c.in != nil:
		_, cost := p.standing(c)
		f.Eligible, f.Slots = true, p.covers(cost, c, c.in)
	default:
		if at := uint64(c.slot.number); c.slot.at > 0 {
			f.Slots = at - min(at, p.slot) + 1
		}
		if c.waits.at > 0 {
			f.At = time.Unix(0, c.waits.number)
		}
	}
	if at, armed := p.armed[c]; armed && p.follows(c) && p.repeatable(c) {
		f.Armed = Armed{At: at, Every: p.wakeAgain()}
		if p.askedInVain(c) {
			f.Armed.Vain = c.Stats.LastRun.At.Add(p.vainFor())
		}
	}
	return f
}

// again predicts when a query runs that has started in the running slot: after what waits,
// and not before its policy and its min_interval allow it. What it finds, and what comes
// back with it at the end of the slot, may move it forward or back.
func (p *queues) again(c *item) (slots uint64, at time.Time) {
	if n := c.Stats.NotBefore; n > p.slot {
		return n - p.slot, at
	}
	if c.asked > c.Stats.Served {
		return 1, at
	}
	slots = p.covers(p.backlog(), c, &p.ranked)
	if due := p.policy.Key(&c.Candidate).Due; due > p.slot {
		slots = max(slots, due-p.slot)
	}
	return slots, c.free(p.now)
}

// backlog is the cost of the ranked queries that wait. It is added up again in each slot, and
// when their number has changed.
func (p *queues) backlog() time.Duration {
	t := &p.ranked
	if p.summed == t.n {
		return p.cost
	}
	p.summed, p.cost = t.n, 0
	for _, list := range [2][]entry{t.entries[t.from:], t.added} {
		for i := range list {
			if !t.left(list[i]) {
				p.cost += list[i].c.Estimate
			}
		}
	}
	return p.cost
}

// covers counts the slots until the budgets, less repayments, have covered the cost
// before a query in an order, so that it may start. Its own cost does not grow with the debt.
func (p *queues) covers(cost time.Duration, c *item, in *order) (n uint64) {
	n = 1
	if p.debt > 0 {
		part := func(of time.Duration) time.Duration {
			if in != &p.ranked {
				of /= 2
			}
			return of
		}
		r := repayment(p.debt, p.budget)
		slots, have := (p.debt-1)/r, part(p.budget-r) // slots after which debt remains, and what each has
		room := have - max(c.Estimate, 1)
		if k := (max(0, cost-room) + have - 1) / max(1, have); room >= 0 && k < slots {
			return n + uint64(k)
		}
		n += uint64(slots)
		cost = max(0, cost-slots*have)
		last := part(p.budget - (p.debt - slots*r))
		if cost < last {
			return n
		}
		n++
		cost -= last
	}
	share := p.budget
	if in != &p.ranked {
		share = p.share
	}
	return n + uint64(cost/max(1, share))
}
