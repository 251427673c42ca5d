package policy

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// lateAfter is the number of executions in a row without a result, other than
// failures of the query, after which the result is stale.
const lateAfter = 3

// StateOf returns the state of a query at the time now.
//
// A query that was tried and never complete is failing, even if the endpoint only
// asked for less load: its holders look for that reason. A query whose text the
// endpoint now refuses is failing too, although an old result is still served: the
// same text will be sent again.
func StateOf(q *registry.Query, s *Stats, now time.Time) registry.State {
	switch {
	case q.Paused() != nil:
		return registry.Paused
	case !q.Active(now):
		return registry.Idle
	}
	return s.StateWithin(q.MaxStaleness())
}

// StateWithin is the state of a query that holders want executed. limit is its
// max_staleness, 0 for none.
func (s *Stats) StateWithin(limit time.Duration) registry.State {
	switch {
	case s.LastRun.Outcome == registry.Rejected, s.Executions == 0 && !s.IncompleteSince.IsZero():
		return registry.Failing
	case s.Executions == 0:
		return registry.New
	case s.Failures > 0, s.Cuts >= lateAfter, s.Outdated >= lateAfter,
		s.Outdated > 0 && limit > 0 && s.LastRun.At.Sub(s.CheckedAt) > limit:
		return registry.Stale
	}
	return registry.Live
}

// Missed counts the executions in a row without a result.
func (s *Stats) Missed() int { return int(s.Failures) + int(s.Cuts) + int(s.Outdated) }

// AgeIgnored reports whether the Age of the endpoint's answers is ignored.
func (s *Stats) AgeIgnored() bool { return s.Absurd >= doubts }

// noteIncomplete records an execution without a result.
func (s *Stats) noteIncomplete(at time.Time) {
	if s.IncompleteSince.IsZero() {
		s.IncompleteSince = at
	}
}

// Forgive ends a back-off. One failure is kept: the state follows from the next execution.
func (s *Stats) Forgive() {
	if s.NotBefore == 0 {
		return
	}
	s.Failures, s.Cuts, s.Outdated = min(s.Failures, 1), min(s.Cuts, 1), min(s.Outdated, 1)
	s.NotBefore, s.Floor = 0, 0
}
