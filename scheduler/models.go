package scheduler

import (
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/update"
)

// A predictor is what was learnt of when a query changes, by hour of the day and day
// of the week, for the profiles that predict it.
type predictor struct {
	update.Week
	dirty bool
	// What follows from it until the next execution, for all profiles alike.
	whens    map[time.Time]time.Time
	prospect *forecast
}

// maxWhens bounds what a model remembers.
const maxWhens = 4096

// next is when the next change is as likely as not, counted from a time on.
func (m *predictor) next(from time.Time) time.Time {
	at, ok := m.whens[from]
	if !ok {
		if m.whens == nil || len(m.whens) >= maxWhens {
			m.whens = map[time.Time]time.Time{}
		}
		at = m.When(from, evens)
		m.whens[from] = at
	}
	return at
}

// slot is the slot by which it is.
func (m *predictor) slot(samples []Sample, from uint64) (slot uint64, ok bool) {
	if m.prospect == nil {
		p := prospectOf(samples)
		m.prospect = &p
	}
	return m.prospect.due(from), m.prospect.known
}

// learn takes in a complete execution of a query. was is when it was checked
// before, zero before its first result.
func (n *tracker) learn(query string, was time.Time, out Outcome) {
	m := n.models[query]
	if m == nil {
		return
	}
	m.whens, m.prospect = nil, nil
	if !was.IsZero() {
		m.Learn(was, out.Checked, out.Delta != nil && !out.Delta.Baseline)
		m.dirty = true
	}
}

// learnt hands out the models that are to be recorded.
func (n *tracker) learnt() (list []Model) {
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
// where slots run on request only, or too little is known of hours, it is the slot that
// forecast says.
func (p *planner) foreseen(k *need, item int, c *candidate, now time.Time) bool {
	m := p.needs.models[c.Query.ID]
	if p.lead > 0 && m.All.Updates >= enoughChanges {
		return !m.next(base(k, item, c)).After(now)
	}
	at, ok := m.slot(c.Stats.Samples, k.fired[item])
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
		if t := m.next(base(k, i, c)); t.Before(now.Add(horizon)) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if next.Before(now) && !next.IsZero() {
		return now
	}
	return next
}
