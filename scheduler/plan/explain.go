package plan

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// A Place is where a query is in the plan, and why.
type Place struct {
	Forecast
	Tier     string             // the tier that brings it into the slot, empty = none
	Rank     int                // in its tier's order, from 1, 0 = in none
	Of       int                // queries in the order
	Inputs   map[string]float64 // what the rank was computed from
	Estimate time.Duration      // expected execution time, 0 = unknown
	Cut      bool               // Estimate is what it had taken when it was cut
	Since    uint64             // slot in which it entered the order
	Why      string             // one sentence for people
	Code     string             // one of the codes
	LastRun  policy.Run
	LastAsk  *LastAsk // nil if it is unknown
	Void     *VoidAsk // a merged request that said nothing about it, and after which it has not run
}

// The codes of explanations. If a tier puts a query before ranked ones, the tier is the
// code.
const (
	CodeRunning  = "running" // started in the running slot
	CodePaused   = "paused"
	CodeInactive = "inactive" // no holder wants executions now
	CodeBackOff  = "back_off" // it failed, or its answers were older than its result
	CodeCut      = "cut"      // it used up whole budgets
	CodeTooSoon  = "too_soon" // its min_interval has not passed
	CodeNotDue   = "not_due"
	CodeProved   = "proved" // a feed tells that its result is true
	CodeDebt     = "debt"   // waits until the debt is repaid
	CodeOrder    = "order"  // its rank decides
)

// Explain returns where a query is in the plan and why. ok is false if there is no
// such query. The plan must be sorted, see Refresh.
func (p *Planner) Explain(query string, now time.Time) (x Place, ok bool) {
	c := p.all[query]
	if c == nil {
		return x, false
	}
	x = Place{
		Forecast: p.forecast(c), Tier: c.tier, Inputs: p.inputs(c),
		Estimate: c.Estimate, Cut: c.Estimate > c.Median, LastRun: c.Stats.LastRun,
	}
	if m := c.member; m != nil && m.void != nil && c.Stats.LastRun.Slot != m.void.Slot {
		x.Void = m.void
	}
	if m := c.member; m != nil && m.lastAsk != nil {
		ask := *m.lastAsk
		ask.ShareSeconds = m.share.Seconds()
		x.LastAsk = &ask
	}
	x.Inputs["executions"] = float64(c.Stats.Executions)
	x.Inputs["changes"] = float64(c.Stats.Changes)
	x.Inputs["median_seconds"] = c.Median.Seconds()
	if c.ran {
		x.Code, x.Why = CodeRunning, "it runs, or has run, in the slot that is running"
		return x, true
	}
	if p.hints.has(c) && p.follows(c) {
		x.next(TierHinted, "a hint says that it may have changed: those run at once if the last slot has left enough of its "+
			"budget, and else before ranked ones, in at most a quarter of the budget")
	} else if claim, ok := p.rounds.Wanted(c.Query.ID, now, p.slot); ok && p.claims.ranking != nil && p.claims.claimable(c) {
		x.next(TierInterval, claim+": intervals go before ranked queries, in at most their share of the budget while others wait")
	}
	if c.in != nil {
		x.Rank, _ = p.standing(c)
		x.Of, x.Since = c.in.n, c.since
	}
	switch {
	case x.Why != "":
	case c.in == nil:
		x.Code, x.Why = p.ineligibleReason(c)
	default:
		x.Code, x.Why = p.placeReason(c, x.Rank, x.Of)
	}
	if c.member != nil && c.member.spoils {
		x.Why += "; it is asked alone, because the answers to requests for several queries said nothing with it: " + c.member.void.Why
	}
	return x, true
}

// next says that a tier brings the query into the next slot.
func (x *Place) next(tier, why string) {
	x.Tier, x.Code, x.Why = tier, tier, why
	x.Forecast = Forecast{Eligible: true, Slots: 1}
}

// placeReason explains a query's place in the order: a code and a sentence.
func (p *queues) placeReason(c *item, rank, of int) (code, why string) {
	switch c.tier {
	case TierNew:
		return TierNew, fmt.Sprintf("new queries run before ranked ones, in at most half the budget: number %d of %d", rank, of)
	case TierRefresh:
		if c.in == &p.ranked {
			return TierRefresh, "a refresh was asked for; it needs more than refreshes have in any slot, so it goes first among the ranked ones"
		}
		return TierRefresh, fmt.Sprintf("a refresh was asked for; those run first, in at most half the budget: number %d of %d", rank, of)
	}
	place := fmt.Sprintf("number %d of %d in the order of %s", rank, of, p.policy)
	if r := repayment(p.debt, p.budget); !leads(p.debt-r, c.Estimate, p.budget-r) {
		return CodeDebt, fmt.Sprintf("%s; %s, and waits until the debt of %s is repaid, %s a slot", place,
			need(c.Estimate, c.Estimate > c.Median), p.debt, p.budget/2)
	}
	return CodeOrder, place
}

// ineligibleReason explains why a query is not eligible: a code and a sentence.
func (p *queues) ineligibleReason(c *item) (code, why string) {
	s := &c.Stats
	switch c.why {
	case paused:
		return CodePaused, "it is paused"
	case inactive:
		return CodeInactive, "no holder wants executions now"
	case backingOff:
		if s.Failures == 0 {
			return CodeBackOff, fmt.Sprintf("its last %d answers were older than its result; it is left out until slot %d", s.Outdated, s.NotBefore)
		}
		return CodeBackOff, fmt.Sprintf("it failed %d times in a row and is left out until slot %d", s.Failures, s.NotBefore)
	case cutOut:
		return CodeCut, fmt.Sprintf("it used up the whole budget %d times and is left out until slot %d", s.Cuts, s.NotBefore)
	case tooSoon:
		return CodeTooSoon, fmt.Sprintf("its min_interval has not passed: not before %s", c.free(p.now).UTC().Format(time.RFC3339))
	case proved:
		if !p.view.Holds(*c.touch, c.Stats.Before) {
			return CodeProved, fmt.Sprintf("an event of the feed %s may have changed it, but the endpoint's position says that its "+
				"data lack that event", p.view.Name)
		}
		return CodeProved, fmt.Sprintf("the feed %s tells that nothing has changed its result, so it need not be asked", p.view.Name)
	case notDue:
		return CodeNotDue, fmt.Sprintf("the policy %s has it due in slot %d", p.policy, max(c.key.Due, p.roster.entryOf(c).due))
	}
	return "", ""
}
