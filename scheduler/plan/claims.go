package plan

import (
	"iter"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// claims are what the open intervals of profiles ask of a slot. The endpoint's
// policy ranks them at the beginning of the slot, and again when a change begins
// an interval within it. They go before ranked queries, in at most their share of
// the budget while others wait. They leave out queries that are paused, back off,
// wait for their min_interval or have never completed: other tiers decide about
// those. A query that the second policy does not have due runs all the same.
type claims struct {
	ranking *interval.Ranking // nil: the policy does not look at intervals
	share   float64           // of the budget
	order   []claim
}

// A claim is an interval that puts its query where it is.
type claim struct {
	rounds.Claim
	c *item
}

// SetClaims sets how intervals are ranked, nil for not at all, and their share.
func (p *Planner) SetClaims(ranking *interval.Ranking, share float64) {
	p.claims.ranking, p.claims.share = ranking, share
}

// openRounds opens and ends rounds for the slot that begins, and ranks what they
// claim.
func (p *Planner) openRounds(now time.Time) {
	p.rounds.BeginSlot(p.slot, now, p.lead)
	p.rankClaims()
}

// onExecution shows the profiles a complete execution that began at start. was is
// when the query was checked before; ended reports that it ended a round.
func (p *Planner) onExecution(c *item, was, start time.Time, x Completion) (ended bool) {
	run := &x.Stats.LastRun
	if x.Checked.Before(start) { // the answer comes from a cache
		start = x.Checked
	}
	return p.rounds.Observe(rounds.Observation{
		Execution: rounds.Execution{Start: start, End: x.At, Slot: run.Slot, Tier: run.Why},
		Query:     c.Query.ID, Delta: x.Delta, Before: was, Checked: x.Checked,
	})
}

// rankClaims ranks what the open intervals ask for now.
func (p *Planner) rankClaims() {
	p.claims.order = p.claims.order[:0]
	if p.claims.ranking == nil {
		return
	}
	for _, x := range p.rounds.Claims(*p.claims.ranking) {
		if c := p.all[x.Query]; c != nil {
			p.claims.order = append(p.claims.order, claim{x, c})
		}
	}
}

// claimable reports whether an interval may let a query run now.
func (p *Planner) claimable(c *item) bool {
	return !c.ran && (c.in == &p.ranked && c.tier == TierRanked || c.in == nil && c.why == notDue)
}

// claimed reports whether an interval still brings a query into the slot that would
// not be in it otherwise.
func (p *Planner) claimed() bool {
	return slices.ContainsFunc(p.claims.order, func(x claim) bool { return x.c.in == nil && p.claimable(x.c) && x.Affords(x.c.Estimate) })
}

// claimedEarly lists those that would not run without an interval, and fit their
// share: their policy does not have them due yet.
func (p *Planner) claimedEarly() (list []*item) {
	left := p.budget
	if p.rivals() {
		left = time.Duration(float64(p.budget) * p.claims.share)
	}
	for _, x := range p.claims.order {
		if x.c.in == nil && p.claimable(x.c) && x.c.Estimate <= left {
			left -= x.c.Estimate
			list = append(list, x.c)
		}
	}
	return list
}

// rivals reports whether queries wait that no interval claims.
func (p *Planner) rivals() bool {
	n := p.ranked.len()
	for _, x := range p.claims.order {
		if n == 0 || n > len(p.claims.order) {
			break
		}
		if x.c.in == &p.ranked {
			n--
		}
	}
	return n > 0
}

// claimed starts the next query that an interval puts before its turn. It may
// take what is left of the share while rivals wait, and all there is when none
// does, or, last, none that fits.
func (s *SlotBudget) claimed(now time.Time, room time.Duration, last bool) *Execution {
	p := s.p
	if p.claims.ranking == nil {
		return nil
	}
	if p.rounds.Stale() {
		p.rankClaims()
	}
	limit, bounded := room, !last && p.rivals()
	if bounded {
		limit = min(limit, s.claimShare(now))
	}
	for _, x := range p.claims.order {
		if limit > 0 && p.claimable(x.c) && x.c.Estimate <= limit && x.Affords(x.c.Estimate) {
			return s.claim(x, now, limit, bounded)
		}
	}
	return nil
}

// claimShare is what is left of the share of intervals.
func (s *SlotBudget) claimShare(now time.Time) time.Duration {
	left := time.Duration(float64(s.budget)*s.p.claims.share) - s.onClaims
	for _, r := range s.runs {
		if r.tier == TierInterval {
			left -= r.reserve(now)
		}
	}
	return left
}

// claim starts what an interval claims, within the limit and what is left of its
// profile's own budget.
func (s *SlotBudget) claim(x claim, now time.Time, limit time.Duration, bounded bool) *Execution {
	left, _ := s.left(now)
	own, hasOwn := x.Left()
	if hasOwn {
		limit = min(limit, own)
	}
	r := s.begin(x.c, now, min(left, limit), false)
	if hasOwn {
		r.limit = min(r.limit, own)
	}
	r.tier, r.claim = TierInterval, x.Claim
	r.bounded = bounded
	return r
}

// overClaims lists the executions that intervals claimed and that have to be cut,
// because rivals wait and together they use up the share; else wait is how long
// it takes at least until then. Where one runs at a time its own limit says so.
func (s *SlotBudget) overClaims(now time.Time) (cut []*Execution, wait time.Duration) {
	wait = time.Hour
	if s.serial || s.p.claims.ranking == nil {
		return nil, wait
	}
	left := time.Duration(float64(s.budget)*s.p.claims.share) - s.onClaims
	for _, r := range s.runs {
		if r.bounded {
			left -= r.elapsed(now)
			if !r.cut {
				cut = append(cut, r)
			}
		}
	}
	n := time.Duration(len(cut))
	switch {
	case n == 0:
		return nil, wait
	case left < n:
		return cut, 0
	}
	return nil, left / n
}

// booked charges what an execution took that an interval claimed.
func (s *SlotBudget) booked(r *Execution, taken time.Duration) {
	if r.tier == TierInterval {
		s.onClaims += taken
		s.p.rounds.Charge(r.claim, taken)
	}
}

// closeRounds records at the end of a slot why what intervals want did not run.
func (p *Planner) closeRounds(now time.Time, stopped string) {
	p.rounds.EndSlot(now, func(query string) string { return p.missed(query, stopped) })
}

// missed is why a query did not capture an interval in this slot.
func (p *Planner) missed(query, stopped string) string {
	c := p.all[query]
	switch {
	case c == nil:
		return "it is no longer registered"
	case stopped != "":
		return "nothing could run: " + stopped
	case c.ran && !c.Stats.LastRun.Outcome.Complete():
		return "it was executed, and ended as " + string(c.Stats.LastRun.Outcome)
	case c.ran:
		return "its execution in that slot was not inside the interval"
	}
	switch c.why {
	case paused:
		return "it was paused"
	case inactive:
		return "no holder wanted executions"
	case backingOff:
		return "it backed off after failures"
	case cutOut:
		return "it had used up whole budgets, and was left out"
	case tooSoon:
		return "its min_interval had not passed"
	case notDue:
		if p.claims.ranking == nil {
			return p.name + " did not have it due, and does not look at intervals"
		}
	}
	if p.claims.ranking == nil {
		return "the budget was used up before its turn; " + p.name + " does not look at intervals"
	}
	return "the budget was used up before its turn"
}

// profileQueries shows a planner's queries to the rounds of profiles.
type profileQueries struct{ p *Planner }

func (v profileQueries) Last(query string) (e rounds.Execution, ok bool) {
	c := v.p.all[query]
	if c == nil || !c.Stats.LastRun.Outcome.Complete() {
		return e, false
	}
	r := c.Stats.LastRun
	return rounds.Execution{Start: r.At.Add(-r.Elapsed), End: r.At, Slot: r.Slot, Tier: r.Why}, true
}

func (v profileQueries) Changed(query string) (at time.Time, ok bool) {
	c := v.p.all[query]
	if c == nil {
		return at, false
	}
	return c.Stats.ChangedAt, true
}

func (v profileQueries) History(query string) iter.Seq2[uint64, bool] {
	return func(yield func(uint64, bool) bool) {
		for _, x := range v.p.all[query].Stats.Samples {
			if !yield(x.Slot, x.Changed) {
				return
			}
		}
	}
}
