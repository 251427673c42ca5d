package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// An endpoint can fail although it answers: with an HTML page and status 200, with
// truncated answers, or by rejecting every query.
//
// It counts as failing if the last fruitless executions, of at least fromSeveral
// queries, were all incomplete, or if the last noneLive were and none of its queries
// is live: a query that fails backs off, so that the fifth attempt of an endpoint's only
// query would come after 16 slots. Rejections and cuts do not count towards the number of
// queries, because the query or the budget causes them.
const (
	fruitless   = 5
	noneLive    = 3
	fromSeveral = 3
)

// A streak is an endpoint's current run of incomplete executions.
type streak struct {
	n       int
	since   time.Time // zero if an earlier process knew it
	why     string    // the error of the last one
	queries []string
	wide    bool // they belong to several queries
}

// streakOf returns the streak that a recorded health describes.
func streakOf(h registry.Health) streak {
	if h.Incomplete == 0 {
		return streak{}
	}
	return streak{n: h.Incomplete, since: h.Since, why: h.Error, wide: h.State == registry.HealthFailing}
}

// observe adds an execution of a query to the streak, or ends the streak.
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
