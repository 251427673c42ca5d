package scheduler

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// A calendar predicts slots from the settings of an endpoint, the health of its
// client and whether the ledger takes writes. It is a value: it needs no lock.
type calendar struct {
	set    settings
	health registry.Health
	shut   error // why nothing can be recorded, so that no slot begins
}

// after returns the first grid time after t; zero if there is none.
func (c *calendar) after(t time.Time) time.Time {
	if c.set.endpoint.Pause != nil || c.shut != nil {
		return time.Time{}
	}
	return c.set.blackouts.next(c.set.schedule, t)
}

// nth returns the grid time of the n-th slot from now. It extrapolates beyond the 32nd.
func (c *calendar) nth(now time.Time, n uint64) time.Time {
	t := now
	for i := range min(n, 32) {
		next := c.after(t)
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

// expected predicts when a query runs. A waiting query runs as soon as it may; a
// query in the order runs when the budgets of the coming slots cover the queries
// before it, and one that has started in the current slot after all that wait.
func (c *calendar) expected(f plan.Forecast, now time.Time) time.Time {
	switch {
	case f.Ran:
		next := c.nth(now, f.Slots)
		if !next.IsZero() && next.Before(f.At) {
			return c.after(f.At.Add(-1))
		}
		return next
	case f.Eligible:
		return c.nth(c.asksFrom(now), f.Slots)
	}
	return c.askingSlot(c.eligibleAt(f, now), now)
}

// first predicts when a query runs that was registered while a slot runs: the next slot looks
// at it.
func (c *calendar) first(q *registry.Query, now time.Time) time.Time {
	if q.Paused() != nil || !q.Active(now) {
		return time.Time{}
	}
	return c.expected(plan.Forecast{Eligible: true, Slots: 1}, now)
}

// asksFrom returns the time after which slots send requests: now, unless the endpoint's
// health forbids them.
func (c *calendar) asksFrom(now time.Time) time.Time {
	if restricted(c.health) && c.health.Until.After(now) {
		return c.health.Until.Add(-1) // a slot at that exact time sends requests
	}
	return now
}

// askingSlot returns the given slot time, or the first one after it at which requests
// are sent.
func (c *calendar) askingSlot(slot, now time.Time) time.Time {
	if from := c.asksFrom(now); !slot.IsZero() && !slot.After(from) {
		return c.after(from)
	}
	return slot
}

// eligibleAt predicts when a waiting query becomes eligible; zero if that depends on
// what users do.
func (c *calendar) eligibleAt(f plan.Forecast, now time.Time) time.Time {
	var next time.Time
	if f.Slots > 0 {
		next = c.nth(now, f.Slots)
	}
	if !f.At.IsZero() {
		at := c.after(f.At.Add(-1))
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// nextTry returns when requests are sent to the endpoint again; zero if its health
// allows them now.
func (c *calendar) nextTry(now time.Time) time.Time {
	if !restricted(c.health) || !c.health.Until.After(now) {
		return time.Time{}
	}
	if slot := c.after(c.asksFrom(now)); !slot.IsZero() {
		return slot
	}
	return c.health.Until
}

// pausedReason returns why no slot comes until somebody resumes the endpoint; "" if it is not paused.
func (c *calendar) pausedReason() string {
	if p := c.set.endpoint.Pause; p != nil {
		return fmt.Sprintf("the endpoint is paused since %s by %s", p.At.UTC().Format(time.RFC3339), p.By)
	}
	return ""
}

// readOnlyReason is why no slot runs while nothing can be recorded.
var readOnlyReason = "no slot runs: " + registry.ErrReadOnly.Error()

// closedReason returns why the next slot sends no requests; "" if it sends some.
func (c *calendar) closedReason(now time.Time) string {
	if c.shut != nil {
		return readOnlyReason
	}
	if why := c.pausedReason(); why != "" {
		return why
	}
	next := c.after(now)
	if next.IsZero() { // slots run on request, which may come now
		next = now
	}
	if restricted(c.health) && c.health.Until.After(next) {
		return healthReason(c.health)
	}
	return ""
}
