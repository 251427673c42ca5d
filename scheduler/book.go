package scheduler

import (
	"math"
	"time"
)

// A book holds, column by column, what hybrid looks at in every slot: a row for
// each query that stands in the order. So a slot reads what lies side by side,
// and not thousands of queries all over memory. It changes no answer: what it
// remembers from slot to slot are bounds of what would be computed anew, see
// prospect.
type book struct {
	policy hybrid
	first  belief // of queries without a state
	rows   []row
	free   []int32 // rows of nobody
	state  []uint8
	cost   []time.Duration // estimates
	late   []uint64        // see Candidate.Overdue
	last   []uint64
	wait   [tempers][]uint64 // see guard.period, not stretched
	load   [tempers]int64    // of all together, see guard.load
	due    []uint64          // the deadline in the slot of the last plan
	left   []int32           // slots until then
	prospects

	set     setting
	round   uint32 // counts plans
	waiting int    // that no wave has brought
	view    *view  // of the last plan, as is the guard
	guard   guard
	special []int32 // those that go before all others, by worth
	tells   []informer
	costs   []time.Duration // by slots left
	bigs    []int
	entries []entry
}

// The states of a row.
const (
	vacant   uint8 = iota
	standing       // in the order
	crowded        // among those that no wave has brought yet
	chosen         // likewise, and goes before the others
)

// A row is what is looked at one by one.
type row struct {
	c       *Candidate
	full    *candidate // nil where the queries are not a planner's
	w       *[rates]float64
	x, mean float64
	changed uint64
	price   float64
	term    [tempers]int64 // its part of load
	cells   int32          // the first of those of its mean rate
	class   int32          // in which a wave has brought it
	tell    int32          // place in tells
	noted   bool           // its state has a note
}

// A informer is a query whose execution says something of the slot.
type informer struct {
	row int32
	Tell
}

// Of the defaults of d and h there are two.
const (
	roomy = iota
	scarce
	tempers
)

// A setting is what the deadlines depend on besides the queries.
type setting struct{ budget, lead time.Duration }

func newBook(p hybrid) *book {
	b := &book{policy: p, first: prior()}
	b.low = math.Inf(1)
	b.ends = [2]float64{b.low, b.low}
	return b
}

// book is where a planner of the policy keeps its queries.
func (p hybrid) book() *book { return newBook(p) }

// bookFor is nil for policies that keep none.
func bookFor(p Policy) *book {
	if k, ok := p.(interface{ book() *book }); ok {
		return k.book()
	}
	return nil
}

// place finds a row for a query that is new.
func (b *book) place() int32 {
	if n := len(b.free); n > 0 {
		i := b.free[n-1]
		b.free = b.free[:n-1]
		return i
	}
	b.rows = append(b.rows, row{})
	b.state = append(b.state, vacant)
	b.cost, b.last, b.late = append(b.cost, 0), append(b.last, 0), append(b.late, 0)
	b.due, b.left = append(b.due, 0), append(b.left, 0)
	for t := range b.wait {
		b.wait[t] = append(b.wait[t], 0)
	}
	b.prospects.grow()
	return int32(len(b.rows) - 1)
}

// enter writes down a query that takes its place in the order.
func (b *book) enter(c *candidate) {
	if b == nil || c.tier != TierRanked {
		return
	}
	if c.Row == 0 {
		c.Row = b.place() + 1
		b.rows[c.Row-1].full = c
	}
	b.write(c.Row-1, &c.Candidate)
}

func (b *book) write(i int32, c *Candidate) {
	r := &b.rows[i]
	r.c, r.price, r.class = c, price(c), -1
	b.state[i], b.last[i], b.cost[i], b.late[i] = standing, c.Stats.Last, c.Estimate, c.Overdue
	b.believe(i)
	b.weigh(i)
}

// learn hears of a new state of a query that has not run.
func (b *book) learn(c *Candidate) {
	if b != nil && c.Row > 0 {
		b.believe(c.Row - 1)
	}
}

// believe takes up what is believed of a query.
func (b *book) believe(i int32) {
	r := &b.rows[i]
	state := r.c.Stats.State
	r.w, r.mean, r.x, r.changed, r.noted = &b.first.w, b.first.mean, 0, 0, false
	if len(state) == beliefSize {
		r.w, r.mean, r.x, r.changed = (*[rates]float64)(state), state[rates], state[rates+1], uint64(state[rates+2])
		r.noted = noted(state)
	}
	r.cells = int32(cellsOf(r.mean))
	b.prospects.forget(i)
}

// weigh works out what the deadline of a query takes of all slots.
func (b *book) weigh(i int32) {
	r := &b.rows[i]
	g := guard{budget: b.set.budget, lead: b.set.lead}
	for t := range tempers {
		g.d, g.h = b.policy.deadlines(t)
		period := g.period(r.c)
		r.term[t] = int64(g.cost(r.c.Estimate)) * loadUnit / int64(period)
		b.load[t] += r.term[t]
		if r.c.Stats.Executions <= 1 {
			period = min(period, firstD)
		}
		b.wait[t][i] = period
	}
}

// leave strikes out a query that has left the order.
func (b *book) leave(c *candidate) {
	if b == nil || c.Row == 0 || b.state[c.Row-1] == vacant {
		return
	}
	i := c.Row - 1
	if b.state[i] >= crowded {
		b.waiting--
	} else if b.rows[i].class == classIndex {
		b.served(i)
	}
	b.state[i] = vacant
	for t, x := range b.rows[i].term {
		b.load[t] -= x
	}
}

// drop gives up the row of a query that has left for good.
func (b *book) drop(c *candidate) {
	if b == nil || c.Row == 0 {
		return
	}
	if k := b.rows[c.Row-1].tell; int(k) < len(b.tells) && b.tells[k].row == c.Row-1 {
		b.tells[k].row = -1
	}
	b.rows[c.Row-1] = row{}
	b.free = append(b.free, c.Row-1)
	c.Row = 0
}

// holds says that the query is among those that no wave has brought yet.
func (b *book) holds(c *candidate) bool { return b != nil && c.Row > 0 && b.state[c.Row-1] >= crowded }

func (b *book) len() int {
	if b == nil {
		return 0
	}
	return b.waiting
}

// suit makes all rows those of a budget.
func (b *book) suit(m Moment) {
	s := setting{m.Budget, m.Lead}
	if s == b.set {
		return
	}
	b.set, b.load = s, [tempers]int64{}
	for i, s := range b.state {
		if s != vacant {
			b.weigh(int32(i))
		}
	}
}

// told is what a query's execution says of the slot.
func (b *book) told(c *candidate) (Tell, bool) {
	if c.Row == 0 {
		return Tell{}, false
	}
	k := b.rows[c.Row-1].tell
	if int(k) >= len(b.tells) || b.tells[k].row != c.Row-1 {
		return Tell{}, false
	}
	return b.tells[k].Tell, true
}

// least is the smallest estimate of those that no wave has brought yet.
func (b *book) least() time.Duration {
	least := time.Duration(math.MaxInt64)
	for i, s := range b.state {
		if s >= crowded {
			least = min(least, b.cost[i])
		}
	}
	return least
}

// unordered appends those that no wave has brought yet to a list.
func (b *book) unordered(list []*candidate) []*candidate {
	if b.len() == 0 {
		return list
	}
	for i, s := range b.state {
		if s >= crowded {
			list = append(list, b.rows[i].full)
		}
	}
	return list
}
