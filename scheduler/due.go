package scheduler

import (
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

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
		if f, ok := l.planner.Forecast(id); ok {
			due[i] = l.expected(f, now)
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
	l.planner.Refresh(now)
	return nil
}

// expected predicts when a query runs. A waiting query runs as soon as it may; a
// query in the order runs when the budgets of the coming slots cover the queries
// before it. One that has run in the current slot is unknown before its end, except
// after a failure.
func (l *Loop) expected(f plan.Forecast, now time.Time) time.Time {
	switch {
	case f.Ran && f.Slots == 0:
		return time.Time{}
	case f.Ran:
		return l.slotTime(now, f.Slots)
	case f.Eligible:
		return l.slotTime(l.asksFrom(now), f.Slots)
	}
	return l.askingSlot(l.eligibleAt(f, now), now)
}

// asksFrom returns the time after which slots send requests: now, unless the endpoint's
// health forbids them.
func (l *Loop) asksFrom(now time.Time) time.Time {
	if h := l.executor.Health(); restricted(h) && h.Until.After(now) {
		return h.Until.Add(-1) // a slot at that exact time sends requests
	}
	return now
}

// askingSlot returns the given slot time, or the first one after it at which requests
// are sent.
func (l *Loop) askingSlot(slot, now time.Time) time.Time {
	if from := l.asksFrom(now); !slot.IsZero() && !slot.After(from) {
		return l.gridAfter(from)
	}
	return slot
}

// eligibleAt predicts when a waiting query becomes eligible; zero if that depends on
// what users do.
func (l *Loop) eligibleAt(f plan.Forecast, now time.Time) time.Time {
	var next time.Time
	if f.Slots > 0 {
		next = l.slotTime(now, f.Slots)
	}
	if !f.At.IsZero() {
		at := l.gridAfter(f.At.Add(-1))
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// slotTime returns the grid time of the n-th slot from now. It extrapolates beyond the
// 32nd.
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
