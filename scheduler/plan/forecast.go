package plan

import "time"

// A Forecast says when a query is expected to run.
type Forecast struct {
	Ran      bool // it runs, or has run, in the slot in progress
	Eligible bool // it waits for its turn
	// Slots counts the slots from now to the one in which it runs, or in which it may
	// run if it is not eligible; 0 = unknown.
	Slots uint64
	At    time.Time // not eligible: the time at which it may run, zero = it waits for none
}

// Forecast predicts when a query runs. ok is false if there is no such query. The
// plan must be in order, see Refresh.
func (p *Planner) Forecast(query string) (f Forecast, ok bool) {
	c := p.all[query]
	if c == nil {
		return f, false
	}
	return p.forecast(c), true
}

func (p *Planner) forecast(c *item) (f Forecast) {
	switch {
	case c.ran:
		f.Ran = true
		f.Slots = c.Stats.NotBefore - min(c.Stats.NotBefore, p.slot)
	case c.in != nil:
		_, cost := c.in.place(c)
		f.Eligible, f.Slots = true, p.covers(cost, c)
	default:
		if c.slot > 0 {
			f.Slots = c.slot - min(c.slot, p.slot) + 1
		}
		if c.timed {
			f.At = time.Unix(0, c.time)
		}
	}
	return f
}

// covers counts the slots from now to the one in which the budgets, less
// repayments, have covered what is before a query, so that it may start. Its cost
// does not grow with the debt.
func (p *Planner) covers(cost time.Duration, c *item) (n uint64) {
	n = 1
	if p.debt > 0 {
		part := func(of time.Duration) time.Duration {
			if c.in != &p.ranked {
				of /= 2
			}
			return of
		}
		r := repayment(p.debt, p.budget)
		slots, have := (p.debt-1)/r, part(p.budget-r) // that many leave some of it, with so much each
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
	if c.in != &p.ranked {
		share = p.share
	}
	return n + uint64(cost/max(1, share))
}
