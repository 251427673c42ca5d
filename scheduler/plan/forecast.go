package plan

import "time"

// A Forecast says when a query is expected to run.
type Forecast struct {
	Ran      bool // started in the running slot
	Eligible bool
	// Slots counts the slots up to the one in which the query runs, or, if it is not
	// eligible, in which it may run; 0 = unknown.
	Slots uint64
	At    time.Time // when a query that is not eligible may run, zero = it waits for no time
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
		f.Slots = c.Stats.NotBefore - min(c.Stats.NotBefore, p.slot)
	case c.in != nil:
		_, cost := p.standing(c)
		f.Eligible, f.Slots = true, p.covers(cost, c)
	default:
		if c.slot > 0 {
			f.Slots = c.slot - min(c.slot, p.slot) + 1
		}
		if c.waits.at > 0 {
			f.At = time.Unix(0, c.waits.number)
		}
	}
	return f
}

// covers counts the slots until the budgets, less repayments, have covered the cost
// before a query, so that it may start. Its own cost does not grow with the debt.
func (p *queues) covers(cost time.Duration, c *item) (n uint64) {
	n = 1
	if p.debt > 0 {
		part := func(of time.Duration) time.Duration {
			if c.in != &p.ranked {
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
	if c.in != &p.ranked {
		share = p.share
	}
	return n + uint64(cost/max(1, share))
}
