package scheduler

import (
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/update"
)

// A model is what was learnt of when a query changes, by hour of the day and day
// of the week, for the profiles that predict it.
type model struct {
	update.Week
	dirty bool
}

// learn takes in a complete execution of a query. was is when it was checked
// before, zero before its first result.
func (n *needs) learn(query string, was time.Time, out Outcome) {
	if m := n.models[query]; m != nil && !was.IsZero() {
		m.Learn(was, out.Checked, out.Delta != nil && !out.Delta.Baseline)
		m.dirty = true
	}
}

// learnt hands out the models that are to be recorded.
func (n *needs) learnt() (list []Model) {
	if n == nil {
		return nil
	}
	for id, m := range n.models {
		if m.dirty {
			m.dirty = false
			list = append(list, Model{Query: id, Week: m.Week})
		}
	}
	return list
}

// foreseen says whether the next change of an item's query is to be expected by
// now: when there has been one as likely as not since the last one, or since the
// last time that one was expected. On a grid the model of hours and days tells;
// where
// slots run on request only, or too little is known of hours, it is the slot that
// forecast says.
func (p *planner) foreseen(k *need, item int, c *candidate, now time.Time) bool {
	if m := p.needs.models[c.Query.ID]; p.lead > 0 && m != nil && m.All.Updates >= enoughChanges {
		return !m.When(base(k, item, c), evens).After(now)
	}
	at, ok := forecast(&c.Stats, k.fired[item])
	return ok && at <= p.slot
}

// base is from when on changes are counted.
func base(k *need, item int, c *candidate) time.Time {
	if t := k.since[item]; t.After(c.Stats.ChangedAt) {
		return t
	}
	return c.Stats.ChangedAt
}

// evens is how many changes of a Poisson process have to be expected for at least
// one to be as likely as not.
const evens = math.Ln2

// horizon is how far ahead rounds are announced.
const horizon = 31 * 24 * time.Hour

// nextPredicted is when the first item of a profile that goes by predictions
// expects a change, zero when that is too far ahead or cannot be told.
func (p *planner) nextPredicted(k *need, now time.Time) (next time.Time) {
	for i, item := range k.Items {
		c, m := p.all[item.Query], p.needs.models[item.Query]
		if c == nil || m == nil || p.lead <= 0 || m.All.Updates < enoughChanges {
			continue
		}
		if t := m.When(base(k, i, c), evens); t.Before(now.Add(horizon)) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if next.Before(now) && !next.IsZero() {
		return now
	}
	return next
}
