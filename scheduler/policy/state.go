package policy

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// lateAfter is how many executions in a row may bring nothing, for reasons that
// are no failure of the query, before its result is stale.
const lateAfter = 3

// StateOf says what a query's result is worth at the moment now.
//
// A query that was tried and never complete is failing, also where the endpoint
// answered only that it is to wait: that is the reason which its holders look for.
// So is one whose text the endpoint refuses now, although an old result is still
// served: it will be sent again as it is.
func StateOf(q *registry.Query, s *Stats, now time.Time) registry.State {
	switch {
	case q.Paused() != nil:
		return registry.Paused
	case !q.Active(now):
		return registry.Idle
	}
	return s.StateWithin(q.MaxStaleness())
}

// state is that of a query which holders want executed; limit is its
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

// Missed counts the executions in a row that brought no result.
func (s *Stats) Missed() int { return int(s.Failures) + int(s.Cuts) + int(s.Outdated) }

// AgeIgnored says that the Age of the endpoint's answers is not believed.
func (s *Stats) AgeIgnored() bool { return s.Absurd >= doubts }

// incomplete notes an execution that brought no result.
func (s *Stats) noteIncomplete(at time.Time) {
	if s.IncompleteSince.IsZero() {
		s.IncompleteSince = at
	}
}

// forgive ends a back-off that is from before a moment at which the endpoint's
// settings were edited. That executions failed is still known: the state follows
// from the next one.
func (s *Stats) Forgive(edited time.Time) {
	if s.LastRun.At.After(edited) || s.NotBefore == 0 {
		return
	}
	s.Failures, s.Cuts, s.Outdated = min(s.Failures, 1), min(s.Cuts, 1), min(s.Outdated, 1)
	s.NotBefore, s.Floor = 0, 0
}
