package scheduler

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// Executions can show that an endpoint is failing although it answers: with a page
// of HTML and status 200, with truncated answers, or by refusing every text.
//
// None of the last fruitless executions was complete, and they were of several
// queries; or none of the last noneLive was, and no query of the endpoint is live.
// So a bad query among good ones does not make an endpoint failing, however rarely
// the good ones run. An endpoint without any good one is failing, even with a single
// query, which backs off: its fifth try would come after 16 slots. Refusals and cuts
// do not count as of several queries: the text causes refusals, our budget cuts.
const (
	fruitless   = 5
	noneLive    = 3
	fromSeveral = 3
)

// A streak is an endpoint's latest executions in a row that were not complete.
type streak struct {
	n       int
	since   time.Time
	why     string // in words, of the last one
	queries []string
	wide    bool // they were of several queries
}

// streakOf is the streak in a recorded health.
func streakOf(h registry.Health) streak {
	if h.Incomplete == 0 {
		return streak{}
	}
	return streak{n: h.Incomplete, since: h.Since, why: h.Error, wide: h.State == registry.HealthFailing}
}

// observe adds an execution of a query.
func (s *streak) observe(query string, x policy.Run) {
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

// currentHealth is the endpoint's health according to its client and the last
// executions. It is called with the lock held.
func (l *Loop) currentHealth() registry.Health { return l.healthFrom(l.executor) }

func (l *Loop) healthFrom(x Executor) registry.Health {
	h, s := x.Health(), &l.streak
	h.Incomplete = s.n
	fails := s.n >= fruitless && s.wide || s.n >= noneLive && l.planner.Count(registry.Live) == 0
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

// recordHealth records the endpoint's health if that is urgent, or always. It is that
// of the client in use, which no other replaces meanwhile; others have the lock of the
// loop while the ledger writes.
func (l *Loop) recordHealth(always bool) error {
	l.handover.Lock()
	defer l.handover.Unlock()
	l.mu.Lock()
	h, name := l.currentHealth(), l.set.endpoint.Name
	due := always || urgent(h, l.health)
	l.mu.Unlock()
	if !due {
		return nil
	}
	if _, err := l.ledger.Record(name, Batch{Health: &h}); err != nil {
		return fmt.Errorf("record the health of endpoint %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health = h
	return nil
}

// restricted reports whether an endpoint's health allows no request, or one at a
// time. A failing endpoint that is asked as usual is not restricted.
func restricted(h registry.Health) bool {
	return h.State == registry.HealthThrottled || h.State == registry.HealthFailing && !h.Until.IsZero()
}

// urgent reports whether a health change must be persisted at once (a back-off or a
// newly learnt row cap).
func urgent(h, recorded registry.Health) bool {
	waits := restricted(h) && (h.State != recorded.State || !h.Until.Equal(recorded.Until))
	return waits || h.MaxRows > 0 && h.MaxRows != recorded.MaxRows
}

// refusedBy is the answer to a trial run that the endpoint's health forbids.
func refusedBy(h registry.Health) Answer {
	a := Answer{Outcome: registry.Failed, Error: healthReason(h)}
	if h.State == registry.HealthThrottled {
		a.Outcome = registry.Throttled
	}
	return a
}

// healthReason says why an endpoint is not asked.
func healthReason(h registry.Health) string {
	s := "the endpoint fails, the next try is at "
	if h.State == registry.HealthThrottled {
		s = "the endpoint asked us to wait until "
	}
	s += h.Until.UTC().Format(time.RFC3339)
	if h.Error != "" {
		s += ": " + h.Error
	}
	return s
}

// A LoopState is how an endpoint's loop is doing.
type LoopState struct {
	Endpoint string          `json:"endpoint"`
	Running  bool            `json:"running"` // a slot runs now
	Next     time.Time       `json:"next,omitzero"`
	Queries  int             `json:"queries"`
	Debt     float64         `json:"debt_seconds"` // to be repaid by the slots to come, at most half a budget each
	Last     Slot            `json:"last"`
	Health   registry.Health `json:"health"`
	Halted   string          `json:"halted,omitempty"` // why no slot begins, in words
	// NextTry is the slot that asks again, zero unless the health forbids to ask.
	NextTry time.Time              `json:"next_try,omitzero"`
	States  map[registry.State]int `json:"states"`          // queries by state
	Results int                    `json:"results"`         // queries that have a result
	Oldest  time.Time              `json:"oldest,omitzero"` // to the second, when the oldest result was last known to be true
}
