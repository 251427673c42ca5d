package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// An Explanation describes a query's place in the plan: why it ran or did not, and
// when it is expected to run next.
type Explanation struct {
	Query      string             `json:"query"`
	Endpoint   string             `json:"endpoint"`
	Policy     string             `json:"policy"`
	Slot       uint64             `json:"slot"`     // the slot that comes next
	Eligible   bool               `json:"eligible"` // may run in it
	Tier       string             `json:"tier"`     // refresh, new, hinted, interval, ranked
	Rank       int                `json:"rank"`     // place in the order of its tier, from 1; 0 = not ranked
	Of         int                `json:"of"`       // how many the order holds
	Inputs     map[string]float64 `json:"inputs"`   // what the rank was computed from
	Estimate   registry.Duration  `json:"estimate"` // expected execution time, 0 = unknown
	Why        string             `json:"why"`      // one sentence for people
	Code       string             `json:"code"`     // the reason as a word, see the constants
	LastRun    Run                `json:"last_run"`
	PassedOver *PassedOver        `json:"passed_over,omitempty"`
	NextDue    time.Time          `json:"next_due,omitzero"`
}

// The codes of explanations. The code of a query that a tier puts before others is
// the tier.
const (
	CodePlanning = "planning" // the order is being made
	CodeRunning  = "running"  // it runs, or has run, in the running slot
	CodeClosed   = "closed"   // the next slot does not ask the endpoint
	CodePaused   = "paused"
	CodeInactive = "inactive" // no holder wants executions now
	CodeBackOff  = "back_off" // it failed, or its answers were older than its result
	CodeCut      = "cut"      // it used up whole budgets
	CodeTooSoon  = "too_soon" // its min_interval has not passed
	CodeNotDue   = "not_due"
	CodeDebt     = "debt"  // it waits until the debt is repaid
	CodeOrder    = "order" // its place in the order of the policy decides
)

// PassedOver is the last slot in which a query was eligible but did not run.
type PassedOver struct {
	Slot   uint64 `json:"slot"`
	Reason string `json:"reason"`
}

// Explain says which place a query has in the order of its endpoint, why it ran or
// did not, and when it is expected to run next. Between slots that includes what was
// registered a moment ago. While the plan is being made for long, Explain says only
// that. The error wraps registry.ErrNotFound when the endpoint has no such
// query.
func (l *Loop) Explain(query string) (Explanation, error) {
	now := l.clock.Now()
	if !l.mu.TryLockPlan(readerWait) {
		l.mu.Lock()
		defer l.mu.Unlock()
		x := l.unplanned(query)
		x.Code, x.Why = CodePlanning, "the order of the endpoint's queries is being made, because its settings were edited or many queries came at once; it is known in a moment"
		return x, nil
	}
	x, found, err := l.planned(query, now)
	since, running := l.revision, l.running
	later := l.unplanned(query)
	l.mu.Unlock()
	if err != nil || found {
		return x, err
	}
	if running {
		if found, err = l.announced(&later, since); err != nil || found {
			return later, err
		}
	}
	return Explanation{}, fmt.Errorf("query %s at endpoint %s: %w", query, later.Endpoint, registry.ErrNotFound)
}

// unplanned is the explanation of a query that is not in the plan.
func (l *Loop) unplanned(query string) Explanation {
	return Explanation{
		Query: query, Endpoint: l.set.endpoint.Name, Policy: l.set.policy.String(), Slot: l.planner.slot, Inputs: map[string]float64{},
	}
}

// planned explains a query of the plan.
func (l *Loop) planned(query string, now time.Time) (x Explanation, found bool, err error) {
	if err := l.refreshPlan(now); err != nil {
		return Explanation{}, false, err
	}
	c := l.planner.all[query]
	if c == nil {
		return Explanation{}, false, nil
	}
	return l.explain(c, now), true, nil
}

// announced explains a query that was registered while the slot runs, after a
// revision.
func (l *Loop) announced(x *Explanation, since uint64) (bool, error) {
	news, err := l.ledger.Since(x.Endpoint, since)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(news.Entries, func(e Entry) bool { return e.Query.ID == x.Query })
	if i < 0 {
		return false, nil
	}
	x.Slot, x.Tier, x.LastRun = x.Slot+1, TierNew, news.Entries[i].Stats.LastRun
	x.Code, x.Why = TierNew, "it was registered after the running slot had begun; the next one looks at it"
	return true, nil
}

// explain explains the query, and its endpoint where that keeps the next slot from
// asking anything.
func (l *Loop) explain(c *item, now time.Time) Explanation {
	x := l.describe(c, now)
	if shut := l.closedReason(now); shut != "" && !c.ran {
		x.Eligible, x.Code, x.Why = false, CodeClosed, shut+"; when slots ask it again: "+x.Why
	}
	return x
}

// closedReason is why the next slot will not ask the endpoint; "" when it will.
func (l *Loop) closedReason(now time.Time) string {
	if p := l.set.endpoint.Pause; p != nil {
		return fmt.Sprintf("the endpoint is paused since %s by %s", p.At.UTC().Format(time.RFC3339), p.By)
	}
	next := l.gridAfter(now)
	if next.IsZero() { // by request, which may be now
		next = now
	}
	if h := l.executor.Health(); restricted(h) && h.Until.After(next) {
		return healthReason(h)
	}
	return ""
}

func (l *Loop) describe(c *item, now time.Time) Explanation {
	p := l.planner
	x := Explanation{
		Query: c.Query.ID, Endpoint: l.set.endpoint.Name, Policy: p.policy.String(), Slot: p.slot,
		Eligible: c.in != nil, Tier: c.tier, Inputs: p.inputs(c),
		Estimate: registry.Duration(c.Estimate), LastRun: c.Stats.LastRun,
	}
	x.Inputs["executions"] = float64(c.Stats.Executions)
	x.Inputs["changes"] = float64(c.Stats.Changes)
	x.Inputs["median_seconds"] = c.Median.Seconds()
	x.NextDue = l.expected(c, now)
	if c.ran {
		x.Code, x.Why = CodeRunning, "it runs, or has run, in the slot that is running"
		return x
	}
	if p.hints.has(c) && p.follows(c) {
		x.Tier, x.Eligible = TierHinted, true
		x.Code, x.Why = TierHinted, "a hint says that it may have changed: those run before ranked ones, in at most a quarter of the budget"
		x.NextDue = l.slotTime(l.asksFrom(now), 1)
	}
	if claim, ok := p.rounds.Wanted(c.Query.ID, now, p.slot); ok && x.Why == "" && p.claims.ranking != nil && p.claimable(c) {
		x.Tier, x.Eligible, x.Code, x.Why = TierInterval, true, TierInterval, claim+": intervals go before ranked queries, in at most their share of the budget while others wait"
		x.NextDue = l.slotTime(l.asksFrom(now), 1)
	}
	if c.in == nil {
		if x.Why == "" {
			x.Code, x.Why = l.ineligibleReason(c)
		}
		return x
	}
	x.Rank, _ = c.in.place(c)
	x.Of = c.in.len()
	if x.Why == "" {
		x.Code, x.Why = p.placeReason(c, x.Rank, x.Of)
	}
	if n := l.last.Number; n >= c.since && n > 0 && !l.running {
		x.PassedOver = &PassedOver{Slot: n, Reason: l.passedOverReason(c)}
	}
	return x
}

// placeReason describes a query's place in the order: a code and a sentence.
func (p *planner) placeReason(c *item, rank, of int) (code, why string) {
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
	if r := repayment(p.debt, p.budget); p.debt > r && c.Estimate > p.budget-r {
		return CodeDebt, fmt.Sprintf("%s; it needs about %s, and waits until the debt of %s is repaid, %s a slot", place, c.Estimate, p.debt, p.budget/2)
	}
	return CodeOrder, place
}

// passedOverReason is why the last slot did not execute an eligible query.
func (l *Loop) passedOverReason(c *item) string {
	budget := exactly(l.last.Budget)
	had := budget - exactly(l.last.Repaid)
	switch {
	case l.last.Error != "":
		return l.last.Error
	case had < budget && c.Estimate > had:
		return fmt.Sprintf("it needs about %s; the slot had %s of its %s, the rest repaid what earlier ones had taken beyond theirs",
			c.Estimate, had, budget)
	case exactly(l.last.Used) > had:
		return "an execution that took longer than expected used up the slot, and more"
	case c.Estimate > l.planner.budget:
		return fmt.Sprintf("it needs about %s, more than the budget: it runs alone once it is first", c.Estimate)
	case c.Estimate > 0:
		return fmt.Sprintf("it needs about %s, more than was left when its turn came", c.Estimate)
	case c.tier == TierNew && exactly(l.last.Used) < had:
		return "the half of the budget that new queries may use was used up before its turn"
	case c.tier == TierRefresh && exactly(l.last.Used) < had:
		return "the half of the budget that refreshes may use was used up before its turn"
	}
	return "the budget was used up before its turn"
}

// ineligibleReason is why a query is not eligible: a code and a sentence.
func (l *Loop) ineligibleReason(c *item) (code, why string) {
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
		return CodeTooSoon, fmt.Sprintf("its min_interval has not passed: not before %s", c.free(l.planner.now).UTC().Format(time.RFC3339))
	case notDue:
		return CodeNotDue, fmt.Sprintf("the policy %s has it due in slot %d", l.planner.policy, c.key.Due)
	}
	return "", ""
}
