package plan

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// A Planner holds an endpoint's queries. Eligible queries are in order; the others
// wait for the slot or the time that makes them eligible. It is pure: the caller
// passes times and slot numbers. The cost of a slot grows with what it executes and
// what becomes eligible, not with what is registered.
type Planner struct {
	policy  policy.Policy
	name    string // the policy's spelling
	rule    Rule
	budget  time.Duration
	share   time.Duration // refresh requests and new queries together get at least this
	debt    time.Duration // which later slots repay
	all     map[string]*item
	order   []*item  // the same queries, nearly in the order of their addresses
	asked   waitList // refresh requests
	fresh   waitList // new queries
	ranked  waitList
	slots   slotQueue
	times   timeQueue
	looked  time.Time      // when Advance last looked at times
	edited  time.Time      // Update.Edited
	rests   []*item        // queries that a Ranker left out of the slot; some may be lifted since
	shared  []float64      // the policy's state for the endpoint
	ranking policy.Ranking // of the slot, without its keys
	room    []*item        // buffers of rank: room, seen, views
	seen    []*item
	views   []*policy.Candidate
	taught  []*policy.Candidate // given a new state in the last slot without having run
	ordered bool                // nothing has moved since rank
	index   constantIndex
	pattern patternIndex
	hints   *hints // nil until the first one comes

	offGridAll bool // a hint is about all queries, and executions outside the grid follow it

	rounds *rounds.Tracker
	claims claims
	tally  tally
	oldest oldest

	cohorts   map[string]*cohortOf
	strangers []*item // whose membership is unknown, and removed ones
	gone      int     // how many of strangers were removed
	checks    []*item // to be asked again because of a merged answer
	windows   uint64  // made so far

	// let calls work and lets other goroutines use the plan before it; nil if there
	// are none.
	let func(work func())

	turned bool // the policy's table has asked for a new plan in this slot

	slot  uint64 // the running slot, or the next one
	now   time.Time
	begun time.Time     // when the slot began
	lead  time.Duration // between grid times, 0 = no grid
	ran   []*item

	touched uint64 // by settleRan, without meaning

	heads []*item // first queries of the order, which must run eventually
	owed  []*item // heads that earlier slots passed over
	led   bool    // the last slot began with an owed query

	freshFirst bool // refresh requests left nothing for new queries in the last slot
	servedNew  bool // a new query has started in this slot
	servedOld  bool // a refresh request has
}

// New returns an empty planner under the rule strict.
func New(p policy.Policy, budget time.Duration) *Planner {
	x := &Planner{
		policy: p, name: p.String(), rule: RuleStrict, budget: budget, share: Rule(RuleStrict).share(budget),
		all:   map[string]*item{},
		slot:  1,
		index: newConstantIndex(), pattern: newPatternIndex(),
	}
	x.ranked.source = newSource(p, &x.order)
	x.rounds = rounds.New(profileQueries(x.all))
	return x
}

// SetBudget sets a rule and a budget. It does not place queries again, see SetPolicy.
func (p *Planner) SetBudget(r Rule, budget time.Duration) {
	p.rule, p.budget, p.share = r, budget, r.share(budget)
	p.ordered = false
}

// Yield sets let, which work on many queries calls after each piece. let must call
// work, which does not touch the plan.
func (p *Planner) Yield(let func(work func())) { p.let = let }

// piece is how many queries are processed before other goroutines have a turn.
const piece = 256

// pause gives other goroutines a turn after each piece. n counts the processed
// queries.
func (p *Planner) pause(n int) {
	if n%piece == piece-1 {
		p.aside(func() {})
	}
}

// aside does work that touches only the order of the plan. Other goroutines have a
// turn.
func (p *Planner) aside(work func()) {
	if p.let == nil {
		work()
		return
	}
	p.let(work)
}

// GrowIndex indexes the constants of more queries, for related queries. It reports
// whether some are left.
func (p *Planner) GrowIndex() (more bool) { return p.index.grow(p.order) }

// GrowPatterns indexes the patterns of more queries, for hints. It reports whether some
// are left.
func (p *Planner) GrowPatterns() (more bool) { return p.pattern.grow(p.order) }

// front lists the tiers that go before the ranked one, in order: refresh requests
// first, unless they left nothing for new queries in the last slot.
func (p *Planner) front() [2]*waitList {
	if p.freshFirst {
		return [2]*waitList{&p.fresh, &p.asked}
	}
	return [2]*waitList{&p.asked, &p.fresh}
}

// waiting counts the eligible queries that have not run in this slot.
func (p *Planner) waiting() int { return p.asked.len() + p.fresh.len() + p.ranked.len() }

// opener returns the query with which the slot begins before all tiers: one that was
// first in its order in an earlier slot but did not fit what refresh requests and new
// queries left. At most every other slot begins like that, so neither side can starve
// the other.
func (p *Planner) opener() *item {
	if p.led {
		p.led = false
		return nil
	}
	for len(p.owed) > 0 {
		c := p.owed[0]
		p.owed = p.owed[1:]
		if c.in == &p.ranked {
			p.led = true
			return c
		}
	}
	return nil
}

// Owe sets the debt that later slots have to repay.
func (p *Planner) Owe(debt time.Duration) { p.debt = debt }

// Slot is the number of the running slot, or of the next one.
func (p *Planner) Slot() uint64 { return p.slot }

// Debt is what later slots have to repay.
func (p *Planner) Debt() time.Duration { return p.debt }

// Unowed is the next slot's budget less its repayment.
func (p *Planner) Unowed() time.Duration { return p.budget - repayment(p.debt, p.budget) }

// Rounds tracks the rounds of profiles.
func (p *Planner) Rounds() *rounds.Tracker { return p.rounds }

// A Census counts the queries of a plan.
type Census struct {
	Queries int
	States  map[registry.State]int
	Results int       // queries that have a result
	Oldest  time.Time // when the oldest result was last known to be true, in whole seconds
}

// Census counts the queries. Its cost does not grow with their number.
func (p *Planner) Census() Census {
	return Census{Queries: len(p.all), States: p.tally.all(), Results: p.tally.results, Oldest: p.oldest.at()}
}

// Count is how many queries are in a state.
func (p *Planner) Count(s registry.State) int { return p.tally.of(s) }
