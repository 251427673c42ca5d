package scheduler

import (
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
