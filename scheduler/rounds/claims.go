package rounds

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// A Claim is a query that an open interval needs executed in this slot.
type Claim struct {
	Query   string
	profile *profile
}

// Left returns what the profile's own budget still allows in this slot. bounded
// is false if the profile has no budget.
func (c Claim) Left() (left time.Duration, bounded bool) {
	b := time.Duration(c.profile.Budget)
	return b - c.profile.used, b > 0
}

// Affords reports whether the profile's own budget has room for an execution.
func (c Claim) Affords(cost time.Duration) bool {
	left, bounded := c.Left()
	return !bounded || max(cost, 1) <= left
}

// Charge adds the time of an execution to the use of the claim's profile.
func (t *Tracker) Charge(c Claim, took time.Duration) {
	c.profile.used += took
	t.charged[c.profile] = true
}

// Stale reports whether an interval has begun since the last call of Claims.
func (t *Tracker) Stale() bool { return t.stale }

// Claims returns the queries that open intervals need in this slot, in rank order.
func (t *Tracker) Claims(r interval.Ranking) (list []Claim) {
	t.stale = false
	if len(t.busy) == 0 {
		return nil
	}
	open := t.open()
	pool := interval.NewPool[string](r)
	pool.Advance(t.slot)
	for i, r := range open {
		// Resume refuses malformed and expired rounds. They make no claims, and Expire
		// ends them.
		_ = pool.Resume(t.progress(uint64(i+1), r))
	}
	for _, x := range pool.Order() {
		list = append(list, Claim{x.Resource, open[x.CEI-1].profile})
	}
	return list
}

// progress converts a round's intervals to slots. An interval that has not begun is
// assumed to begin in the next slot and to have its full length.
func (t *Tracker) progress(id uint64, r *round) interval.Progress[string] {
	x := interval.Progress[string]{CEI: interval.CEI[string]{ID: id, Profile: r.Profile, Weight: r.profile.Weight,
		EIs: make([]interval.EI[string], len(r.Intervals))}, Captured: make([]uint64, len(r.Intervals))}
	for i := range r.Intervals {
		v := &r.Intervals[i]
		e := &x.EIs[i]
		e.Resource, e.Start, e.Finish = v.Query, t.slot, t.slot
		switch {
		case v.Done != nil:
			x.Captured[i] = max(v.Done.Slot, 1)
		case !v.HasBounds():
			e.Start = t.slot + 1
			e.Finish = e.Start + t.slots(r.profile.IntervalLength(i))
		case v.Last > 0:
			e.Start, e.Finish = max(v.First, 1), max(v.Last, v.First, 1)
		default:
			if v.From.After(t.now) {
				e.Start += 1 + t.slots(registry.Span{Time: v.From.Sub(t.now) - 1})
			}
			e.Finish = max(e.Start, t.slot+t.slots(registry.Span{Time: v.Until.Sub(t.now)}))
		}
	}
	return x
}

// usualLead is the assumed time between slots if there is no grid.
const usualLead = time.Minute

// slots returns the number of slots that begin within a span.
func (t *Tracker) slots(s registry.Span) uint64 {
	if s.Slots > 0 || s.Time <= 0 {
		return s.Slots
	}
	lead := t.lead
	if lead <= 0 {
		lead = usualLead
	}
	return uint64(s.Time / lead)
}
