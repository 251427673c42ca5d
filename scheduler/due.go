package scheduler

import "time"

// Due predicts when queries are expected to run next, as Explain does for one. The
// times are in the order of queries; zero means unknown. All are zero while the
// plan stays incomplete for long. Due reads the plan once for all of them.
func (l *Loop) Due(queries []string) ([]time.Time, error) {
	now := l.clock.Now()
	due := make([]time.Time, len(queries))
	if !l.mu.TryLockPlan(readerWait) {
		return due, nil
	}
	defer l.mu.Unlock()
	if err := l.refreshPlan(now); err != nil {
		return nil, err
	}
	for i, id := range queries {
		if c := l.planner.all[id]; c != nil {
			due[i] = l.expected(c, now)
		}
	}
	return due, nil
}

// refreshPlan brings the plan up to date, unless its slot is running.
func (l *Loop) refreshPlan(now time.Time) error {
	if l.running {
		return nil
	}
	if err := l.merge(now); err != nil {
		return err
	}
	l.planner.advance(now)
	if !l.planner.ordered { // one look at all queries serves every question until something moves
		l.planner.rank()
		l.planner.sort()
	}
	return nil
}

// expected predicts when a query runs. A waiting query runs as soon as it may; a
// query in the order runs when the budgets of the coming slots cover the queries
// before it.
func (l *Loop) expected(c *item, now time.Time) time.Time {
	if c.ran {
		return l.afterRun(c, now)
	}
	if c.in == nil {
		return l.askingSlot(l.eligibleAt(c, now), now)
	}
	_, cost := c.in.place(c)
	return l.slotTime(l.asksFrom(now), l.planner.covers(cost, c))
}

// asksFrom is the moment after which slots ask the endpoint: now, unless its health
// forbids it.
func (l *Loop) asksFrom(now time.Time) time.Time {
	if h := l.executor.Health(); restricted(h) && h.Until.After(now) {
		return h.Until.Add(-1) // the slot at that very moment asks
	}
	return now
}

// askingSlot is the slot at the given time, or the first one after it that sends
// requests to the endpoint.
func (l *Loop) askingSlot(slot, now time.Time) time.Time {
	if from := l.asksFrom(now); !slot.IsZero() && !slot.After(from) {
		return l.gridAfter(from)
	}
	return slot
}

// afterRun predicts when a query that has run in the current slot may run next.
// Before the end of the slot that is known only after a failure.
func (l *Loop) afterRun(c *item, now time.Time) time.Time {
	if c.Stats.NotBefore <= l.planner.slot {
		return time.Time{}
	}
	return l.slotTime(now, c.Stats.NotBefore-l.planner.slot)
}

// covers counts the slots from now to the one in which the budgets, less
// repayments, have covered what is before a query, so that it may start. Its cost
// does not grow with the debt.
func (p *planner) covers(cost time.Duration, c *item) (n uint64) {
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

// eligibleAt predicts when a waiting query becomes eligible; zero when that depends
// on what people do.
func (l *Loop) eligibleAt(c *item, now time.Time) time.Time {
	var next time.Time
	if c.slot > 0 {
		next = l.slotTime(now, c.slot-min(c.slot, l.planner.slot)+1)
	}
	if c.timed {
		at := l.gridAfter(time.Unix(0, c.time).Add(-1))
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// slotTime is the grid time of the n-th slot from now. It looks up the first 32 and
// extrapolates the rest.
func (l *Loop) slotTime(now time.Time, n uint64) time.Time {
	t := now
	for i := range min(n, 32) {
		next := l.gridAfter(t)
		if next.IsZero() {
			return next
		}
		if i == 31 && n > 32 {
			return next.Add(time.Duration(min(n-32, 1<<20)) * next.Sub(t))
		}
		t = next
	}
	return t
}

func (l *Loop) gridAfter(t time.Time) time.Time {
	if l.set.endpoint.Pause != nil {
		return time.Time{}
	}
	return l.set.blackouts.next(l.set.schedule, t)
}

// Due is Loop.Due of an endpoint; all zero when it has no loop.
func (m *Manager) Due(endpoint string, queries []string) ([]time.Time, error) {
	m.mu.Lock()
	var l *Loop
	if k := m.members[endpoint]; k != nil {
		l = k.loop
	}
	m.mu.Unlock()
	if l == nil {
		return make([]time.Time, len(queries)), nil
	}
	return l.Due(queries)
}
