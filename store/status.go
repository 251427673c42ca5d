package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// statusOf returns the status of a query's result. It leaves out the time of the next
// run, which only the scheduler knows.
func statusOf(q *registry.Query, s *policy.Stats, now time.Time) registry.Status {
	st := registry.Status{
		State:      policy.StateOf(q, s, now),
		Position:   s.Position,
		Hash:       s.Hash,
		Rows:       s.Rows,
		CheckedAt:  s.CheckedAt,
		ChangedAt:  s.ChangedAt,
		Executions: s.Executions,
		Changes:    s.Changes,
		Median:     median(s.Samples),
		Outcome:    s.LastRun.Outcome,

		FailingSince: s.IncompleteSince,
		Failures:     s.Missed(),
		AgeIgnored:   s.AgeIgnored(),
	}
	switch {
	case st.State == registry.Idle:
		st.Error = q.DormantReason(now)
	case !s.LastRun.Outcome.Complete():
		st.Error = s.LastRun.Error
	}
	return st
}

// median returns the median execution time; for an even number, the mean of the middle
// two.
func median(samples []policy.Sample) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	times := make([]time.Duration, len(samples))
	for i, s := range samples {
		times[i] = s.Elapsed
	}
	slices.Sort(times)
	n := len(times)
	return times[(n-1)/2] + (times[n/2]-times[(n-1)/2])/2
}

// withStatus returns a query with its status.
func withStatus(tx *bbolt.Tx, s *storedQuery, e storeEpoch, now time.Time) (registry.ListedQuery, error) {
	r := record{serial: s.serial, space: s.space}
	r.stats.Position = r.position(e)
	if v := tx.Bucket(bStats).Get([]byte(s.ID)); v != nil {
		var err error
		if r, err = readRecord(v, e); err != nil {
			return registry.ListedQuery{}, fmt.Errorf("query %s: %w", s.ID, err)
		}
	}
	return registry.ListedQuery{Query: s.Query, Status: statusOf(&s.Query, &r.stats, now)}, nil
}
