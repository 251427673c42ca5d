package plan

import (
	"math"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// queues decide which queries may run. Eligible ones are in the order of their tier, and
// the others wait for a slot or a time.
type queues struct {
	catalog
	proofs
	policy     policy.Policy
	name       string // the policy's spelling
	rule       Rule
	budget     time.Duration
	share      time.Duration // refresh requests and new queries together get at least this
	debt       time.Duration // which later slots repay
	asked      order         // refresh requests
	fresh      order         // new queries
	ranked     order
	roster     roster   // of the ranked queries, if the policy is a Ranker
	slots      numbered // of the queries that wait for a slot
	times      numbered // of those that wait for a time
	slot       uint64   // the running slot, or the next one
	now        time.Time
	looked     time.Time     // when Advance last looked at times
	lead       time.Duration // between grid times, 0 = no grid
	without    []*item       // ranked queries that were cut before they had a result, and some that have one by now
	ordered    bool          // no ranked query has moved since ranker.rank
	freshFirst bool          // refresh requests left nothing for new queries in the last slot
	cost       time.Duration // of the ranked queries when they were added up
	summed     int           // how many those were, -1 if their cost is unknown
}

// settle puts a lifted query where it belongs in the current slot.
func (p *queues) settle(c *item) {
	v := p.place(c)
	if !c.plain { // the state of a plain query has not changed
		p.count(c)
	}
	p.noteProved(c, c.why == proved)
	if v.slot > 0 {
		p.slots.set(c, int64(min(v.slot, math.MaxInt64)))
	}
	if !v.at.IsZero() {
		// Times in nanoseconds end in 2262, so a longer wait is cut short: the query
		// is then settled again.
		p.times.set(c, p.now.UnixNano()+int64(min(v.at.Sub(p.now), longestWait)))
	}
	if v.list == nil {
		return
	}
	c.since = p.slot
	p.ordered = p.ordered && v.list != &p.ranked
	if _, ranks := p.policy.(policy.Ranker); !ranks || c.tier != TierRanked {
		v.list.insert(c)
		return
	}
	c.in = &p.ranked
	p.ranked.n++
	p.roster.add(c)
}

// longestWait is about seventy years.
const longestWait = time.Duration(1 << 61)

// lift removes a query from all lists.
func (p *queues) lift(c *item) {
	p.ordered = p.ordered && c.in != &p.ranked && c.place == 0
	if c.in != nil {
		c.in.remove(c)
	}
	if c.place > 0 {
		p.roster.drop(c)
	}
	p.noteProved(c, false)
	p.slots.drop(c)
	p.times.drop(c)
}

// learn replaces the statistics of a query that is in no list.
func (p *queues) learn(c *item, s *policy.Stats) {
	if s.Policy != p.name {
		s.Refold(p.policy)
	}
	if s.Last != c.Stats.Last || s.Executions != c.Stats.Executions {
		c.Overdue = 0
	}
	if s != &c.Stats {
		c.Stats = *s
	}
	c.SetState(s.State)
	c.Median = s.Median()
	c.Estimate = max(c.Median, s.Floor)
	if c.halted || s.CheckedAt.IsZero() {
		p.oldest.drop(c)
	} else {
		p.oldest.set(c, s.CheckedAt.Unix())
	}
}

// count updates the tally for a query that the planner holds.
func (p *queues) count(c *item) {
	s := registry.Idle
	switch {
	case c.plain:
		s = c.Stats.StateWithin(0)
	case c.why != inactive || c.Query.Paused() != nil:
		s = policy.StateOf(&c.Query, &c.Stats, p.now)
	}
	if to := (tallied{uint8(stateIndex(s) + 1), c.Stats.Executions > 0}); to != c.counted {
		p.tally.move(c, to)
	}
}

// Advance settles the queries that waited for the current slot or for a time up to now.
// No slot may be running.
func (p *queues) Advance(now time.Time) {
	// The monotonic clock stops while the machine is suspended.
	now = now.Round(0)
	p.now = now
	if inFuture(p.looked, now) { // the clock was set back
		for _, c := range p.order {
			if c.waits.at > 0 {
				p.lift(c)
				p.settle(c)
			}
		}
	}
	p.looked = now
	again := func(c *item) {
		p.lift(c)
		p.settle(c)
	}
	for c := p.slots.first(); c != nil && uint64(c.slot.number) <= p.slot; c = p.slots.first() {
		again(c)
	}
	for c := p.times.first(); c != nil && c.waits.number <= now.UnixNano(); c = p.times.first() {
		again(c)
	}
}

// SetBudget sets a rule and a budget. It does not place queries again, see SetPolicy.
func (p *queues) SetBudget(r Rule, budget time.Duration) {
	p.rule, p.budget, p.share = r, budget, r.share(budget)
	p.ordered = false
}

// front lists the tiers that go before the ranked one, in order: refresh requests
// first, unless they left nothing for new queries in the last slot.
func (p *queues) front() [2]*order {
	if p.freshFirst {
		return [2]*order{&p.fresh, &p.asked}
	}
	return [2]*order{&p.asked, &p.fresh}
}

// waiting counts the eligible queries that have not run in this slot.
func (p *queues) waiting() int { return p.asked.n + p.fresh.n + p.ranked.n }

// Owe sets the debt that later slots have to repay.
func (p *queues) Owe(debt time.Duration) { p.debt = debt }

// Slot is the number of the running slot, or of the next one.
func (p *queues) Slot() uint64 { return p.slot }

// Debt is what later slots have to repay.
func (p *queues) Debt() time.Duration { return p.debt }

// Unowed is the next slot's budget less its repayment.
func (p *queues) Unowed() time.Duration { return p.budget - repayment(p.debt, p.budget) }
