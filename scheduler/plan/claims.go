package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// claims are the open intervals of profiles that ask for executions in a slot. The
// endpoint's policy ranks them at the beginning of the slot, and again when a change
// begins an interval in it. A claim has no effect on a query that is paused, backs off,
// waits for its min_interval or has never completed. It does bring in a query that the
// second policy does not have due.
type claims struct {
	*ranker
	rounds  *rounds.Tracker
	ranking *interval.Ranking // nil: the policy does not look at intervals
	share   float64           // of the budget
	order   []claim
}

// A claim is an interval and the query that it asks for.
type claim struct {
	rounds.Claim
	c *item
}

// openRounds opens and ends rounds for the slot that begins, and ranks their claims.
func (p *claims) openRounds(now time.Time) {
	p.rounds.BeginSlot(p.slot, now, p.lead)
	p.rankClaims()
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
	n := p.ranked.n
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
