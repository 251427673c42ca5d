package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A placement says which list a query belongs to and when to settle it again.
type placement struct {
	list *order
	slot uint64
	at   time.Time
}

func (v *placement) lookAgain(at time.Time) {
	if v.at.IsZero() || at.Before(v.at) {
		v.at = at
	}
}

// place decides where a query belongs: eligibility first, then the policy's order. It
// sets the query's tier, key and why.
//
// A query is left out while it is paused, while no holder wants executions (from,
// until), while it backs off from failures or cuts, and until min_interval has passed
// since the start of the slot of its last complete execution. A refresh request
// overrides failures and min_interval only, and a proof that the result is true.
//
// A new query that was cut is ranked from then on, and the time that it used is its
// estimate. max_staleness does not change the order: it makes a query of a selective
// policy due in the last slot that can keep it.
func (p *queues) place(c *item) (v placement) {
	c.tier, c.why = "", eligible
	c.key = policy.Key{}
	if !c.plain {
		if c.Query.Paused() != nil {
			c.why = paused
			return v
		}
		if b := boundary(&c.Query, p.now); !b.IsZero() {
			v.lookAgain(b)
		}
		if !c.Query.Active(p.now) {
			c.why = inactive
			return v
		}
	}
	wanted := c.asked > c.Stats.Served
	if c.Stats.NotBefore > p.slot && (!wanted || c.Stats.Cuts > 0) {
		v.slot, c.why = c.Stats.NotBefore, backingOff
		if c.Stats.Cuts > 0 {
			c.why = cutOut
		}
		return v
	}
	if wanted {
		c.tier, v.list = TierRefresh, &p.asked
		if c.Estimate > p.share || c.Stats.Floor >= p.share {
			v.list = &p.ranked
		}
		c.key = policy.Key{Class: classRefresh, Value: float64(c.Stats.Last)}
		return v
	}
	if p.proves(c) {
		if _, from := p.stale(c); !from.IsZero() {
			v.lookAgain(from)
		}
		c.why = proved
		return v
	}
	if !c.plain {
		if free := c.free(p.now); free.After(p.now) {
			v.lookAgain(free)
			c.why = tooSoon
			return v
		}
	}
	if c.Stats.Executions == 0 && c.Stats.Floor == 0 {
		c.tier, v.list = TierNew, &p.fresh
		// Queries that failed go behind those that were never tried.
		c.key = policy.Key{Class: classNew, Value: float64(c.Stats.NotBefore), Low: float64(c.Query.CreatedAt.UnixNano()) / 1e9}
		return v
	}
	p.placeRanked(c, &v)
	return v
}

// checkStaleness applies max_staleness: a query whose result would become too old
// before the next slot is overdue, which makes it due.
func (p *queues) checkStaleness(c *item, v *placement) {
	d := c.Query.MaxStaleness()
	if d == 0 || c.Stats.Executions == 0 || c.Overdue > 0 {
		return
	}
	if at := c.Stats.CheckedAt.Add(d - p.lead); at.After(p.now) && !inFuture(c.Stats.CheckedAt, p.now) {
		v.lookAgain(at)
	} else {
		c.Overdue = p.slot
	}
}

// placeRanked asks the policy.
func (p *queues) placeRanked(c *item, v *placement) {
	if !c.plain {
		p.checkStaleness(c, v)
	}
	c.key = p.policy.Key(&c.Candidate)
	if c.key.Due > p.slot {
		v.slot, c.why = c.key.Due, notDue
		return
	}
	c.tier, v.list = TierRanked, &p.ranked
	if c.Stats.Executions == 0 && !c.without {
		c.without = true
		p.without = append(p.without, c)
	}
}

// firstWithout returns the ranked query without a result that was cut the least often, nil if there is none. Its place in the order
// of a policy may be the last for ever, since nothing is known about it.
func (p *queues) firstWithout() (first *item) {
	p.without = slices.DeleteFunc(p.without, func(c *item) bool {
		c.without = c.planned && c.Stats.Executions == 0
		return !c.without
	})
	for _, c := range p.without {
		if c.tier == TierRanked && c.in == &p.ranked && (first == nil || cmp.Or(cmp.Compare(c.Stats.NotBefore, first.Stats.NotBefore),
			cmp.Compare(c.Query.ID, first.Query.ID)) < 0) {
			first = c
		}
	}
	return first
}

// boundary returns the next time at which a holder's interest begins or ends.
func boundary(q *registry.Query, now time.Time) time.Time {
	var next time.Time
	for _, h := range q.Holders {
		for _, t := range [2]*time.Time{h.From, h.Until} {
			if t != nil && t.After(now) && (next.IsZero() || t.Before(next)) {
				next = *t
			}
		}
	}
	return next
}

// free returns the time from which min_interval allows the next execution. It counts
// from slot start to slot start: otherwise a query would miss the slot that comes
// exactly one interval later. After a restart it counts from the start of the
// execution. A start in the future is from before the clock was set back, and is
// ignored.
func (c *item) free(now time.Time) time.Time {
	d := c.Query.MinInterval()
	if d == 0 || c.Stats.Executions == 0 {
		return time.Time{}
	}
	from := c.start
	if from.IsZero() {
		from = c.Stats.CheckedAt
		if r := c.Stats.LastRun; r.Outcome.Complete() {
			from = r.At.Add(-r.Elapsed)
		}
	}
	if inFuture(from, now) {
		return time.Time{}
	}
	return from.Add(d - min(d/20, TimerSlack))
}

// inFuture reports whether a recorded time is so far in the future that the clock must
// have been set back since.
func inFuture(t, now time.Time) bool { return t.Sub(now) > ClockCheck }

// ClockCheck is the longest time between two clock readings of a plan's user. Timers
// do not notice that the clock is set or that the machine is suspended.
const ClockCheck = time.Minute

// TimerSlack is how late a slot may start after its grid time. Without it an interval
// of three slots that is counted from a late start would take four.
const TimerSlack = 50 * time.Millisecond
