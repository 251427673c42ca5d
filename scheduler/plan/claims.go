package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// SetClaims sets how intervals are ranked, nil for not at all, and their share of the
// budget.
func (p *Planner) SetClaims(ranking *interval.Ranking, share float64) {
	p.claims.ranking, p.claims.share = ranking, share
}

// openRounds opens and ends rounds for the slot that begins, and ranks their claims.
func (p *claims) openRounds(now time.Time) {
	p.rounds.BeginSlot(p.slot, now, p.lead)
	p.rankClaims()
}

// onExecution reports to the profiles a complete execution that began at start. was is
// the previous time at which the query was checked. ended reports that the execution
// ended a round.
func (p *claims) onExecution(c *item, was, start time.Time, x Completion) (ended bool) {
	run := &x.Stats.LastRun
	if x.Checked.Before(start) { // the answer comes from a cache
		start = x.Checked
	}
	return p.rounds.Observe(rounds.Observation{
		Execution: rounds.Execution{Start: start, End: x.At, Slot: run.Slot, Tier: run.Why},
		Query:     c.Query.ID, Delta: x.Delta, Before: was, Checked: x.Checked,
	})
}

// rankClaims ranks the current claims of the open intervals.
func (p *claims) rankClaims() {
	p.order = p.order[:0]
	if p.ranking == nil {
		return
	}
	for _, x := range p.rounds.Claims(*p.ranking) {
		if c := p.all[x.Query]; c != nil {
			p.order = append(p.order, claim{x, c})
		}
	}
}

// claimable reports whether an interval may make a query run now.
func (p *claims) claimable(c *item) bool {
	return !c.ran && (c.in == &p.ranked && c.tier == TierRanked || c.in == nil && c.why == notDue)
}

// anyClaimed reports whether an interval can still bring a query into the slot that
// would not run otherwise.
func (p *claims) anyClaimed() bool {
	return slices.ContainsFunc(p.order, func(x claim) bool { return x.c.in == nil && p.claimable(x.c) && x.Affords(x.c.Estimate) })
}

// rivals reports whether queries wait that no interval claims.
func (p *claims) rivals() bool {
	n := p.ranked.len()
	for _, x := range p.order {
		if n == 0 || n > len(p.order) {
			break
		}
		if x.c.in == &p.ranked {
			n--
		}
	}
	return n > 0
}

// closeRounds records, at the end of a slot, why the queries of open intervals did not
// run.
func (p *claims) closeRounds(now time.Time, stopped string) {
	p.rounds.EndSlot(now, func(query string) string { return p.missed(query, stopped) })
}

// missed returns why a query did not capture an interval in this slot.
func (p *claims) missed(query, stopped string) string {
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
		if p.ranking == nil {
			return p.name + " did not have it due, and does not look at intervals"
		}
	}
	if p.ranking == nil {
		return "the budget was used up before its turn; " + p.name + " does not look at intervals"
	}
	return "the budget was used up before its turn"
}

// earlyClaimed lists the claimed queries that fit the share of claims and that their
// policy does not have due yet.
func (p *claims) earlyClaimed() (list []*item) {
	left := p.budget
	if p.rivals() {
		left = time.Duration(float64(p.budget) * p.share)
	}
	for _, x := range p.order {
		if x.c.in == nil && p.claimable(x.c) && x.c.Estimate <= left {
			left -= x.c.Estimate
			list = append(list, x.c)
		}
	}
	return list
}
