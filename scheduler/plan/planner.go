package plan

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// A planner holds an endpoint's queries, those that may run in order, the
// others waiting for the slot or the moment that makes them eligible. It is
// pure: time and slot numbers are told. A slot costs what it executes and what
// becomes eligible, not what is registered.
type Planner struct {
	policy  policy.Policy
	name    string // its spelling
	rule    Rule
	budget  time.Duration
	share   time.Duration // of refresh requests and new queries together, at least
	debt    time.Duration // to be repaid by the slots to come
	all     map[string]*item
	order   []*item  // the same, mostly as they lie in memory
	asked   waitList // refresh requests
	fresh   waitList // new queries
	ranked  waitList
	slots   slotQueue
	times   timeQueue
	looked  time.Time      // when advance last looked at those that wait for a moment
	edited  time.Time      // see Update
	rests   []*item        // left out by a policy that sees all; some may have been lifted since
	shared  []float64      // the policy's state of the endpoint
	ranking policy.Ranking // of the slot, without its keys
	room    []*item        // for rank, like the next two
	seen    []*item
	views   []*policy.Candidate
	taught  []*policy.Candidate // learnt in the last slot without having run
	ordered bool                // nothing has moved since rank
	index   constantIndex
	hints   *hints // nil until the first one comes
	rounds  *rounds.Tracker
	claims  claims
	tally   tally
	oldest  oldest

	// let does work while others may do what needs no plan, see lock; nil where
	// there are no others.
	let func(work func())

	turned bool // the policy's table has asked for another plan in this slot

	slot  uint64 // the one that runs or comes next
	now   time.Time
	begun time.Time     // when the slot began
	lead  time.Duration // from one grid time to the next, 0 = no grid
	ran   []*item

	heads []*item // those that must not be displaced for ever
	owed  []*item // heads of earlier slots that were
	led   bool    // the slot began with one that was owed

	freshFirst bool // refresh requests left nothing to new queries in the last slot
	servedNew  bool // a new query has started in this slot
	servedOld  bool // a refresh request has
}

func New(p policy.Policy, budget time.Duration) *Planner {
	x := &Planner{
		policy: p, name: p.String(), rule: RuleStrict, budget: budget, share: Rule(RuleStrict).share(budget),
		all:  map[string]*item{},
		slot: 1,
	}
	x.ranked.source = newSource(p, &x.order)
	x.rounds = rounds.New(profileQueries{x})
	return x
}

// SetBudget puts a rule and a budget in force. What is in order stays there:
// see SetPolicy.
func (p *Planner) SetBudget(r Rule, budget time.Duration) {
	p.rule, p.budget, p.share = r, budget, r.share(budget)
	p.ordered = false
}

// Yield makes long work on the plan give others a turn after each piece: let calls
// work, which needs nothing that others may touch meanwhile.
func (p *Planner) Yield(let func(work func())) { p.let = let }

// piece is how many queries are worked on before others have a turn.
const piece = 256

// pause gives others a turn after each piece of what is done to many queries; n
// counts them.
func (p *Planner) pause(n int) {
	if n%piece == piece-1 {
		p.aside(func() {})
	}
}

// aside does work that touches nothing but the order of the plan. Others have
// their turns meanwhile.
func (p *Planner) aside(work func()) {
	if p.let == nil {
		work()
		return
	}
	p.let(work)
}

// GrowIndex indexes the constants of more queries, for hints and related queries. It
// reports whether some are left.
func (p *Planner) GrowIndex() (more bool) { return p.index.grow(p.order) }

// front lists the tiers that go before the ranked one, in their order: refresh
// requests first, unless they left nothing to new queries in the last slot.
func (p *Planner) front() [2]*waitList {
	if p.freshFirst {
		return [2]*waitList{&p.fresh, &p.asked}
	}
	return [2]*waitList{&p.asked, &p.fresh}
}

// waiting counts the eligible queries that have not run in this slot.
func (p *Planner) waiting() int { return p.asked.len() + p.fresh.len() + p.ranked.len() }

// opener returns the query with which the slot begins before all tiers: one that
// was first in its order in an earlier slot but did not fit what refresh
// requests and new queries had left. Every other slot at most begins like
// that, so neither side can starve the other.
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

// Slot is the number of the slot that runs or comes next.
func (p *Planner) Slot() uint64 { return p.slot }

// Debt is what later slots have to repay.
func (p *Planner) Debt() time.Duration { return p.debt }

// Unowed is what is left of the next slot's budget when it has repaid its part of
// the debt.
func (p *Planner) Unowed() time.Duration { return p.budget - repayment(p.debt, p.budget) }

// Rounds follows the rounds of profiles.
func (p *Planner) Rounds() *rounds.Tracker { return p.rounds }

// A Census counts the queries of a plan.
type Census struct {
	Queries int
	States  map[registry.State]int
	Results int       // queries that have a result
	Oldest  time.Time // to the second, when the oldest result was last known to be true
}

// Census counts the queries. Its cost does not grow with their number.
func (p *Planner) Census() Census {
	return Census{Queries: len(p.all), States: p.tally.all(), Results: p.tally.results, Oldest: p.oldest.at()}
}

// Count is how many queries are in a state.
func (p *Planner) Count(s registry.State) int { return p.tally.of(s) }
