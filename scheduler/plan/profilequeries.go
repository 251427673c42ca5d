package plan

import (
	"iter"
	"time"

	"github.com/freshet/freshet/scheduler/rounds"
)

// profileQueries lets the rounds of profiles read the planner's queries.
type profileQueries map[string]*item

func (v profileQueries) Last(query string) (e rounds.Execution, ok bool) {
	c := v[query]
	if c == nil || !c.Stats.LastRun.Outcome.Complete() {
		return e, false
	}
	r := c.Stats.LastRun
	return rounds.Execution{Start: r.At.Add(-r.Elapsed), End: r.At, Slot: r.Slot, Tier: r.Why}, true
}

func (v profileQueries) Changed(query string) (at time.Time, ok bool) {
	c := v[query]
	if c == nil {
		return at, false
	}
	return c.Stats.ChangedAt, true
}

func (v profileQueries) History(query string) iter.Seq2[uint64, bool] {
	return func(yield func(uint64, bool) bool) {
		for _, x := range v[query].Stats.Samples {
			if !yield(x.Slot, x.Changed) {
				return
			}
		}
	}
}
