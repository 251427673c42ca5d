package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/internal/selection"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// The tiers of a slot, in the order in which they are planned.
const (
	TierRefresh  = "refresh"
	TierNew      = "new"
	TierHinted   = "hinted"
	TierInterval = "interval"
	TierRanked   = "ranked"
)

// Classes of keys that the planner itself gives.
const (
	classRefresh = -16 // before whatever a policy says
	classNew     = classRefresh + 1
)

// An item is a query in the planner. Hot fields come first so that a slot touches
// few cache lines.
type item struct {
	in       *waitList // nil = not eligible, or has run in this slot
	prefix   uint64    // of the id
	key      policy.Key
	since    uint64 // slot since which it has been in that list
	why      reason
	held     bool      // by the planner
	plain    bool      // nothing but its statistics decides when it may run
	ran      bool      // in the current slot
	listed   bool      // in the policy's table
	returned uint32    // plan in which that table returned it
	rests    bool      // its policy, which sees all, left it out of this slot
	short    bool      // and was cut there with less than the whole budget as its limit
	timed    bool      // it waits for a time
	worth    tallied   // what the tally holds of it
	seat     int32     // on the page of that slot
	slot     uint64    // it waits for, 0 = none
	time     int64     // it waits for, in nanoseconds since the epoch
	tier     string    // "" = not eligible
	number   int32     // in a replay
	asked    uint64    // Query.Refreshes
	past     *timeline // there, or nil
	policy.Candidate
	start time.Time

	checked int64 // the second that counts for the oldest result, 0 for none
	halted  bool  // paused
}

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

// put adds or replaces a query. The statistics become the planner's own.
func (p *Planner) put(q registry.Query, s policy.Stats) {
	q.Normal, q.Warnings = "", nil // as long as the text, and no use here
	c := p.all[q.ID]
	if c == nil {
		c = p.hold(q.ID)
	}
	p.lift(c)
	if in := p.index.has(c); in { // its text may be another
		p.index.drop(c)
		c.ask(q)
		p.index.add(c)
	} else {
		c.ask(q)
		p.index.enter(c)
	}
	p.learn(c, s)
	p.settle(c)
	p.count(c)
}

// hold makes room for a query.
func (p *Planner) hold(id string) *item {
	c := &item{prefix: selection.Prefix(id), held: true, Candidate: policy.Candidate{Number: int32(len(p.order))}}
	p.all[id] = c
	p.order = append(p.order, c)
	return c
}

// ask says what the query is and who wants it.
func (c *item) ask(q registry.Query) {
	c.Query, c.asked, c.halted = q, q.Refreshes, q.Paused() != nil
	c.MaxStaleness = q.MaxStaleness()
	c.plain = q.Paused() == nil && len(q.Holders) > 0 && q.MinInterval() == 0 && c.MaxStaleness == 0 &&
		!slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return h.Pause != nil || h.From != nil || h.Until != nil })
}

// learn replaces what is known of a query that is in no list.
func (p *Planner) learn(c *item, s policy.Stats) {
	if s.Policy != p.name {
		s.Refold(p.policy)
	}
	if s.Last != c.Stats.Last || s.Executions != c.Stats.Executions {
		c.Overdue = 0
	}
	c.Stats = s
	c.SetState(s.State)
	c.Median = s.Median()
	c.Estimate = max(c.Median, s.Floor)
	p.oldest.set(c)
}

// forgive ends the back-off of all queries that is from before an edit of the
// endpoint's settings.
func (p *Planner) forgive(edited time.Time) {
	for i, c := range p.order {
		p.pause(i)
		if s := c.Stats; s.NotBefore > p.slot {
			s.Forgive(edited)
			p.lift(c)
			p.learn(c, s)
			p.settle(c)
			p.count(c)
		}
	}
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

// drop forgets a query.
func (p *Planner) drop(id string) {
	if c := p.all[id]; c != nil {
		p.lift(c)
		p.hints.drop(c)
		p.tally.move(c, tallied{})
		p.oldest.drop(c)
		delete(p.all, id)
		last := p.order[len(p.order)-1]
		p.index.leave(c, last)
		c.held = false
		p.order[c.Number], last.Number = last, c.Number
		p.order = slices.Delete(p.order, len(p.order)-1, len(p.order))
	}
}

// keep forgets every query that is not among these.
func (p *Planner) keep(held map[string]bool) {
	for i := len(p.order) - 1; i >= 0; i-- { // the last one takes the place of one that is dropped
		p.pause(i)
		if id := p.order[i].Query.ID; !held[id] {
			p.drop(id)
		}
	}
}

// SetPolicy applies another policy, rule or budget to everything. A debt remains.
func (p *Planner) SetPolicy(next policy.Policy, r Rule, budget time.Duration) {
	p.scatter()
	if next.String() != p.policy.String() {
		p.shared, p.ranking = nil, policy.Ranking{}
	}
	p.ranked.source = newSource(next, &p.order)
	p.policy, p.name = next, next.String()
	p.SetBudget(r, budget)
	for i, c := range p.order {
		p.pause(i)
		p.learn(c, c.Stats)
		p.settle(c)
	}
}

// scatter lifts all queries from wherever they stand.
func (p *Planner) scatter() {
	p.asked, p.fresh, p.ranked, p.slots, p.times, p.rests = waitList{}, waitList{}, waitList{}, slotQueue{}, timeQueue{}, nil
	for i, c := range p.order {
		p.pause(i)
		c.in, c.Row, c.listed, c.rests, c.slot, c.timed = nil, 0, false, false, 0, false
	}
}

// lift takes a query out of every list.
func (p *Planner) lift(c *item) {
	if c.in != nil {
		c.in.remove(c)
	}
	c.rests, p.ordered = false, false
	p.slots.drop(c)
	p.times.drop(c)
}

// longestWait is some seventy years.
const longestWait = time.Duration(1 << 61)

// settle puts a lifted query where it belongs in the current slot.
func (p *Planner) settle(c *item) {
	v := p.judge(c)
	c.tier, c.key, c.why = v.tier, v.key, v.why
	p.ordered = false
	if !c.plain { // else it is what it was
		p.count(c)
	}
	if v.slot > 0 {
		p.slots.set(c, v.slot)
	}
	if !v.at.IsZero() {
		// The wait is what no setting of the clock changes; a time in nanoseconds
		// ends in the year 2262, and what is that far is looked at again before.
		p.times.set(c, p.now.UnixNano()+int64(min(v.at.Sub(p.now), longestWait)))
	}
	if v.tier == "" {
		return
	}
	c.since = p.slot
	v.list.insert(c)
}

// begin brings everything up to the slot that starts now.
func (p *Planner) begin(slot uint64, now time.Time, lead time.Duration) {
	p.slot, p.begun, p.lead = slot, now, lead
	p.advance(now)
	p.rank()
	p.applyHints()
	p.heads = p.heads[:0]
	if c := p.ranked.first(); c != nil {
		p.heads = append(p.heads, c)
		if c.tier == TierRefresh {
			if c := p.ranked.after(classRefresh); c != nil {
				p.heads = append(p.heads, c)
			}
		}
	}
}

// Advance looks again at whatever waited for the next slot or this moment. No slot
// may be running.
func (p *Planner) Advance(now time.Time) { p.advance(now) }

// Refresh is Advance, and puts the queries in order unless they are: one look at all
// of them serves every question until something moves.
func (p *Planner) Refresh(now time.Time) {
	p.advance(now)
	if !p.ordered {
		p.rank()
		p.sort()
	}
}

// advance looks again at whatever waited for this slot or this moment.
func (p *Planner) advance(now time.Time) {
	// Without the monotonic clock reading, which stops while the machine is
	// suspended.
	now = now.Round(0)
	p.now = now
	if inFuture(p.looked, now) { // the clock was set back, and those moments with it
		for i, c := range p.order {
			p.pause(i)
			if c.timed {
				p.lift(c)
				p.settle(c)
			}
		}
	}
	p.looked = now
	n := 0
	again := func(c *item) {
		p.pause(n)
		p.lift(c)
		p.settle(c)
		n++
	}
	p.slots.due(p.slot, again)
	for c := p.times.due(now.UnixNano()); c != nil; c = p.times.due(now.UnixNano()) {
		again(c)
	}
}

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

// pick takes a query out of the order because it starts.
func (p *Planner) pick(c *item) {
	p.servedNew = p.servedNew || c.in == &p.fresh
	p.servedOld = p.servedOld || c.in == &p.asked
	c.ran, c.short = true, false
	p.lift(c)
	p.hints.drop(c)
	p.ran = append(p.ran, c)
}

// end closes the slot: what ran is settled again for the next one.
func (p *Planner) end(now time.Time) {
	p.owed = slices.DeleteFunc(p.owed, func(c *item) bool { return c.ran })
	for _, c := range p.heads {
		if len(p.ran) > 0 && (c.in == &p.ranked || c.ran && c.short) && !slices.Contains(p.owed, c) {
			p.owed = append(p.owed, c)
		}
	}
	p.heads = p.heads[:0]
	p.freshFirst = p.servedOld && !p.servedNew && p.fresh.len() > 0
	p.servedNew, p.servedOld = false, false
	p.absorb()
	p.slot, p.now, p.ordered = p.slot+1, now.Round(0), false
	for i, c := range p.ran {
		p.pause(i)
		c.ran = false
		if c.held {
			p.settle(c)
		}
	}
	p.ran = p.ran[:0]
}

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
