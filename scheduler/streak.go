package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// When executions say that an endpoint is failing although it answers: a page of
// HTML with status 200, answers that are cut off, a refusal of whatever is sent.
//
// None of the last fruitless executions was complete, and they were of several
// queries; or none of the last noneLive was, and no query of the endpoint is live.
// So a bad query among good ones makes no endpoint failing, however rarely the
// good ones run; an endpoint without any good one is failing, be it with a single
// query, which backs off: a fifth try would come after 16 slots. Only what may be
// the endpoint's doing counts as of several queries: refusals are about a text,
// and cuts are about our budget.
const (
	fruitless   = 5
	noneLive    = 3
	fromSeveral = 3
)

// A streak is the row of an endpoint's last executions that were not complete.
type streak struct {
	n       int
	since   time.Time
	why     string // in words, of the last one
	queries []string
	wide    bool // they were of several queries
}

// streakOf is the streak that a recorded health tells of.
func streakOf(h registry.Health) streak {
	if h.Incomplete == 0 {
		return streak{}
	}
	return streak{n: h.Incomplete, since: h.Since, why: h.Error, wide: h.State == registry.HealthFailing}
}

// observe takes in an execution of a query.
func (s *streak) observe(query string, x Run) {
	switch x.Outcome {
	case registry.Throttled, registry.Dropped:
		return
	case registry.Changed, registry.Unchanged:
		*s = streak{}
		return
	}
	if s.n++; s.n == 1 {
		s.since = x.At
	}
	s.why = x.Error
	switch x.Outcome {
	case registry.Rejected, registry.Cut, registry.Outdated:
		return
	}
	for _, q := range s.queries {
		if q == query {
			return
		}
	}
	if !s.wide {
		s.queries = append(s.queries, query)
		s.wide = len(s.queries) >= fromSeveral
	}
}

// currentHealth is the endpoint's health as its client and the last executions have it.
// It is called with the lock held.
func (l *Loop) currentHealth() registry.Health { return l.healthFrom(l.executor) }

func (l *Loop) healthFrom(x Executor) registry.Health {
	h, s := x.Health(), &l.streak
	h.Incomplete = s.n
	fails := s.n >= fruitless && s.wide || s.n >= noneLive && l.planner.tally.of(registry.Live) == 0
	switch {
	case h.State == registry.HealthFailing && s.n > 0 && s.since.Before(h.Since):
		h.Since = s.since
	case fails && !restricted(h):
		h.State, h.Since, h.Error = registry.HealthFailing, s.since, s.why
	}
	return h
}

// nextTry is when the endpoint is asked again while its health forbids it, zero
// when it does not.
func (l *Loop) nextTry(now time.Time) time.Time {
	h := l.executor.Health()
	if !restricted(h) || !h.Until.After(now) {
		return time.Time{}
	}
	if slot := l.gridAfter(h.Until.Add(-1)); !slot.IsZero() {
		return slot
	}
	return h.Until
}
