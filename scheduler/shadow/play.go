package shadow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A Config says which policy is played.
type Config struct {
	Policy policy.Policy
	Budget time.Duration
	Rule   string // plan.RuleStrict when empty, or RuleDebt
	// Timeout of one execution, 0 = none.
	Timeout time.Duration
	// Entries are the queries of the endpoint with their statistics: the
	// executions in Stats.Samples are the record.
	Entries []policy.Entry
	// Lead is the time from one slot to the next; 0: there is no grid.
	Lead time.Duration
	// Last is a slot with the time at which it started. The times of the others
	// follow from it, as if all were as far apart. Without it they are those of a
	// clock that shows the Unix epoch at t0.
	Last scheduler.Slot
	// Work, when given, bounds queries × slots × histories: of more slots the last are
	// played.
	Work int
}

// Play estimates what a policy would have executed, found, missed and delayed. ctx
// ends it between two histories.
func Play(ctx context.Context, c Config) (Report, error) {
	h, err := newHistory(c.Entries, c.Work)
	if err != nil {
		return Report{}, err
	}
	if c.Policy == nil || policy.NeedsOracle(c.Policy) {
		return Report{}, fmt.Errorf("shadow: %w: a policy that can run live is needed", policy.ErrPolicy)
	}
	var played, recorded [pasts]tally
	for i := range played {
		if ctx.Err() != nil {
			return Report{}, fmt.Errorf("shadow: %w", ctx.Err())
		}
		s := h.past(uint64(i))
		if played[i], err = play(c, s); err != nil {
			return Report{}, err
		}
		recorded[i] = s.recorded()
	}
	r := Report{Policy: c.Policy.String(), From: h.from + 1, To: h.to, Queries: len(h.queries), Known: recorded[0].relevant}
	r.summarize(played, recorded)
	return r, nil
}

// play plays the policy in one history.
func play(c Config, s *past) (tally, error) {
	r, err := c.replay(s)
	if err != nil {
		return tally{}, err
	}
	t := tally{changes: s.count()}
	last := make([]uint64, len(s.queries))
	for slot := s.from + 1; slot <= s.to; slot++ {
		r.Slot(func(x plan.Played) {
			if !x.Outcome.Complete() {
				t.used += x.Elapsed
				return
			}
			s.add(&t, x.Query, slot, max(last[x.Query], s.from), x.Elapsed)
			last[x.Query] = slot
		})
	}
	return t, nil
}

// replay prepares to play the policy in a history.
func (c *Config) replay(s *past) (*plan.Replay, error) {
	r, err := plan.NewReplay(plan.ReplayConfig{
		Policy: c.Policy, Rule: cmp.Or(c.Rule, plan.RuleStrict), Budget: c.Budget, Timeout: c.Timeout,
		Queries: s.queries, World: s, First: s.from, Start: c.start(s.from), Lead: c.Lead, Ring: true, Ranked: true,
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: %w", err)
	}
	return r, nil
}

// start is when a slot that is not after c.Last began.
func (c *Config) start(slot uint64) time.Time {
	if c.Last.Started.IsZero() {
		return time.Time{}
	}
	const century = 100 * 365 * 24 * time.Hour // longer records are from other grids
	lead := cmp.Or(c.Lead, time.Hour)
	ago := min(c.Last.Number-min(c.Last.Number, slot), uint64(century/lead))
	return c.Last.Started.Add(-time.Duration(ago) * lead)
}
