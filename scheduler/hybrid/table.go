package hybrid

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/internal/selection"
	"github.com/freshet/freshet/scheduler/policy"
)

// A table holds what a slot needs to know of every query, side by side. A slot
// scans the rows once. With many queries the time of a slot is that of reading them
// from memory, so everything else looks at few rows or at shorter lists.
type table struct {
	policy  Policy
	first   rateEstimate // estimate for queries without a state
	rows    []row
	weights [][rates]float64 // likelihoods of the rates, by row
	free    []int32

	// These are of the last plan.
	view    *view
	moment  policy.Moment
	price   price
	levels  levels
	bound   []int32         // rows that have a deadline
	fresh   []look          // rows without an execution since their registration
	mean    float64         // seconds that a query takes on average
	oldest  int32           // of the other rows, the one executed longest ago; -1 if there is none
	costs   []time.Duration // sum of their costs by the slots left
	recent  []int32         // rows that were executed in the slot before
	special []int32         // rows that go before all others
	rest    []choice        // by row at first; those that Next has not returned
	choices []choice        // the memory of rest, which Next shortens
	least   time.Duration
	batch   int // how many queries Next returns
	removed int // queries removed since the last plan

	tells    map[*policy.Candidate]tell
	turn     float64 // evidence from which the slot counts as empty
	evidence float64

	exps exponentials
	room []choice
	out  []policy.Ranked
}

// exponentials remember results of math.Exp: queries that were executed in the same slot and
// have never changed have the same exponent.
type exponentials [1024]struct{ x, e float64 }

func (m *exponentials) of(x float64) float64 {
	k := &m[math.Float64bits(x)*0x9e3779b97f4a7c15>>54]
	if k.x != x || k.e == 0 {
		k.x, k.e = x, math.Exp(x)
	}
	return k.e
}

// A row is one query. Rates, excitation and so on are copies from its state.
type row struct {
	c         *policy.Candidate // nil in a free row
	id        uint64            // the first bytes of the query's id
	last      uint64
	overdue   uint64
	staleness time.Duration
	cost      time.Duration // estimate
	seconds   float64       // that its worth is divided by
	x, mean   float64
	changed   uint64
	cells     int32
	pending   bool // its state has a pending sample
	known     bool // it has a state
	planned   bool // by the last plan
	class     int8
	due       uint64 // the deadline, 0 = none
	worth     float64
}

// A choice is a row's place in an order: by value, low, last execution and id.
type choice struct {
	value, low float64
	last, id   uint64
	cost       time.Duration
	row        int32
}

func (t *table) before(a, b *choice) bool {
	switch {
	case a.value != b.value:
		return a.value < b.value
	case a.low != b.low:
		return a.low < b.low
	case a.last != b.last:
		return a.last < b.last
	case a.id != b.id:
		return a.id < b.id
	}
	return t.name(a.row) < t.name(b.row)
}

func (t *table) compare(a, b choice) int {
	if t.before(&a, &b) {
		return -1
	}
	return 1
}

// name is the id of a row's query, "" if it was removed since the plan.
func (t *table) name(row int32) string {
	if c := t.rows[row].c; c != nil {
		return c.Query.ID
	}
	return ""
}

// A look is the gain from the first execution of a query since its registration.
type look struct {
	row  int32
	gain float64
}

const firstBatch = 128

// NewTable makes a table for an endpoint.
func (p Policy) NewTable() policy.Table {
	return &table{policy: p, first: prior()}
}

// Put adds a query, or updates one that is in the table.
func (t *table) Put(c *policy.Candidate) {
	if c.Row == 0 {
		c.Row = t.place() + 1
	}
	i := c.Row - 1
	t.rows[i] = rowOf(c, &t.first)
	t.weights[i] = t.first.w
	if s := c.Stats.State; t.rows[i].known {
		copy(t.weights[i][:], s)
	}
}

// rowOf reads what a plan needs of a query.
func rowOf(c *policy.Candidate, first *rateEstimate) row {
	r := row{
		c: c, id: c.Prefix, last: c.Stats.Last, overdue: c.Overdue, staleness: c.MaxStaleness, cost: c.Estimate, seconds: seconds(c),
		mean: first.mean,
	}
	if s := c.Stats.State; len(s) == estimateSize {
		r.known, r.pending = true, isPending(s)
		r.mean, r.x, r.changed = s[rates], s[rates+1], uint64(s[rates+2])
	}
	r.cells = int32(cellsOf(r.mean))
	return r
}

// place finds a free row.
func (t *table) place() int32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i
	}
	t.rows, t.weights = append(t.rows, row{}), append(t.weights, [rates]float64{})
	return int32(len(t.rows) - 1)
}

// Remove removes a query.
func (t *table) Remove(c *policy.Candidate) {
	t.rows[c.Row-1] = row{}
	t.free = append(t.free, c.Row-1)
	t.removed++
	c.Row = 0
}

// Plan begins a slot: it computes what an execution of each query is worth, and
// finds those that go before the others. The rest of a slot that turned out to be
// empty keeps the price of waiting, so it goes to the queries that have waited
// longest.
func (t *table) Plan(m policy.Moment) policy.Ranking {
	if !m.Turned {
		t.evidence = 0
	}
	t.batch, t.removed = max(firstBatch, t.removed+t.removed/8), 0
	t.view, t.moment = t.policy.view(m), m
	t.special, t.turn = t.special[:0], math.Inf(1)
	clear(t.tells)
	t.evaluate()
	if !m.Turned {
		t.price = t.levels.price(t.policy.wait(), m.Budget)
	}
	var reserve time.Duration
	var lack float64
	if t.policy.form == noGuard {
		t.price = price{}
	} else {
		reserve, lack = t.choose()
	}
	t.charge()
	t.probe()
	return t.ranking(reserve, lack)
}

// evaluate computes the worth of every query, and lists those that have a deadline,
// those that ran in the slot before, and those that Next is to return.
func (t *table) evaluate() {
	t.bound, t.recent, t.fresh, t.least, t.levels, t.oldest = t.bound[:0], t.recent[:0], t.fresh[:0], math.MaxInt64, levels{}, -1
	t.choices = slices.Grow(t.choices[:0], len(t.rows))[:len(t.rows)]
	t.rest = t.choices
	var looks [64]prospect
	var taken [64][estimateSize]float64 // states of looks
	var gains [64]float64
	var which [64]int32
	n, queries, cost := 0, 0, time.Duration(0)
	finish := func() {
		t.view.gains(looks[:n], gains[:n])
		for k, i := range which[:n] {
			if r := &t.rows[i]; r.known {
				t.value(i, gains[k], gains[k]/r.seconds)
			} else {
				t.fresh = append(t.fresh, look{i, gains[k]})
			}
		}
		n = 0
	}
	for i := range t.rows {
		r := &t.rows[i]
		if r.c == nil {
			t.rest[i] = chosen(int32(i))
			continue
		}
		r.class, r.planned = classIndex, true
		if r.due = t.deadline(r); r.due > 0 {
			t.bound = append(t.bound, int32(i))
		} else if t.oldest < 0 || t.older(int32(i), t.oldest) {
			t.oldest = int32(i)
		}
		if r.last+1 == t.moment.Slot {
			t.recent = append(t.recent, int32(i))
		}
		t.least = min(t.least, r.cost)
		if t.affords(r.cost) {
			queries, cost = queries+1, cost+max(r.cost, quick)
		}
		which[n] = int32(i)
		t.prospect(&looks[n], r, &t.weights[i], &taken[n])
		if n++; n == len(looks) {
			finish()
		}
	}
	finish()
	t.mean = cost.Seconds() / float64(max(1, queries))
	for _, l := range t.fresh {
		r := &t.rows[l.row]
		t.value(l.row, l.gain, l.gain/t.divisor(r.seconds, r.cost))
	}
}

// value sets what the execution of a row is worth.
func (t *table) value(i int32, gain, worth float64) {
	r, limit := &t.rows[i], t.limit(&t.rows[i])
	r.worth = worth
	t.levels.add(worth, gain, t.cost(r.cost), limit == 0)
	k := &t.rest[i]
	k.value, k.low, k.last, k.id, k.cost, k.row = worth, float64(limit), r.last, r.id, r.cost, i
}

// affords reports whether a query is short enough to run early.
func (t *table) affords(cost time.Duration) bool { return cost <= t.moment.Budget/2 }

// divisor is what a query's gain is divided by before it has run since its
// registration. Queries that change often take long, because they read much. So
// those above four times the mean go first. The others have the same divisor, so
// some of them fit the end of any budget. Their worth is 0.4 of the prior's: they do
// not go before queries that are known to change, but soon enough to be found.
func (t *table) divisor(seconds float64, cost time.Duration) float64 {
	switch {
	case !t.affords(cost):
		return seconds
	case seconds > 4*t.mean:
		return t.mean / (0.4 * math.Sqrt(seconds/t.mean))
	}
	return t.mean / 0.4
}

// older reports whether row i was executed before row j. Ties go to the smaller id.
func (t *table) older(i, j int32) bool {
	a, b := &t.rows[i], &t.rows[j]
	if a.last != b.last {
		return a.last < b.last
	}
	return a.id < b.id || a.id == b.id && t.name(i) < t.name(j)
}

// charge adds the price of waiting to the worth of the rest.
func (t *table) charge() {
	for i := range t.rest {
		if c := &t.rest[i]; c.cost < math.MaxInt64 {
			c.value, c.low = -(c.value + t.price.of(t.waited(c.last, c.low), c.low, t.moment.Turned || t.isLate(c.last))), 0
		}
	}
}

// waited is the number of live slots since a query's last execution, the current one
// included. If it has a longest wait of its own, all slots count.
func (t *table) waited(last uint64, limit float64) float64 {
	if limit == 0 {
		return max(0, t.view.now-t.view.calendar.clock(last))
	}
	return t.slots(last)
}

// slots is the number of slots since a query's last execution, the current one included.
func (t *table) slots(last uint64) float64 {
	return float64(t.moment.Slot - min(t.moment.Slot, last))
}

func (t *table) isLate(last uint64) bool { return t.slots(last) > t.price.late }

// chosen takes the place of a row that is not among the rest.
func chosen(row int32) choice { return choice{value: math.Inf(1), cost: math.MaxInt64, row: row} }

// prospect is view.prospect for a row. It writes field by field, as value does: to copy a
// struct that has just been written stalls the processor.
func (t *table) prospect(to *prospect, r *row, w *[rates]float64, room *[estimateSize]float64) {
	v := t.view
	if r.pending {
		*to = v.prospect(r.c, room)
		return
	}
	c := int(r.cells) + ageCells - 1
	if r.changed > 0 {
		c = int(r.cells) + ageRow(v.start-v.calendar.clock(r.changed))
	}
	tau := max(0, v.now-v.calendar.clock(r.last))
	to.w, to.leave, to.tau, to.x, to.e = w, &v.leave[c], tau, r.x, t.exps.of(-v.ratio[c]*tau*policy.LowestRate)
}

// prefer puts a query before those ranked by the index.
func (t *table) prefer(i int32, class int8) {
	t.rows[i].class, t.rest[i] = class, chosen(i)
	t.special = append(t.special, i)
}

// measure finds the smallest estimate of the rest.
func (t *table) measure() {
	t.least = math.MaxInt64
	for i := range t.rest {
		t.least = min(t.least, t.rest[i].cost)
	}
}

// Least is a lower bound on the estimates of the queries that Next has not
// returned.
func (t *table) Least() time.Duration { return t.least }

// Next returns first the queries that go before all others, then those with the
// largest worth. Each call returns more queries than the one before.
func (t *table) Next() []policy.Ranked {
	t.out = t.out[:0]
	for _, i := range t.special {
		t.offer(i, 0)
	}
	t.special = t.special[:0]
	for len(t.out) == 0 && len(t.rest) > 0 {
		n := min(t.batch, len(t.rest))
		if t.batch *= 2; 2*n > len(t.rest) {
			n = len(t.rest)
		}
		selection.MoveFirst(t.rest, n, t.before)
		for _, c := range t.rest[:n] {
			if c.cost < math.MaxInt64 {
				t.offer(c.row, c.value)
			}
		}
		t.rest = t.rest[n:]
	}
	t.measure()
	return t.out
}

// offer adds a query to what Next returns, unless it was removed after the plan.
func (t *table) offer(i int32, value float64) {
	if r := &t.rows[i]; r.planned {
		t.out = append(t.out, policy.Ranked{Candidate: r.c, Key: r.key(value)})
	}
}

func (r *row) key(value float64) policy.Key {
	switch r.class {
	case classDue:
		return policy.Key{Class: classDue, Value: float64(r.due), Low: -r.worth}
	case classProbe:
		return policy.Key{Class: classProbe, Value: -r.worth}
	}
	return policy.Key{Class: classIndex, Value: value}
}

// probe finds the queries that show whether the slot is empty. The most valuable of
// them go first, as long as they and the guard's choice fit into half the budget.
func (t *table) probe() {
	const enough = 4 // executions of evidence
	m, v := &t.moment, t.view
	if m.Slot == 0 || t.policy.form == noClock || t.policy.form == noTurn || v.turned || !v.trusted() {
		return
	}
	t.turn = proof - v.odds()
	room := m.Budget / 2
	for _, i := range t.special {
		room -= t.rows[i].cost
	}
	var first []int32
	for _, i := range t.recent {
		if r := &t.rows[i]; t.learnsFrom(r, t.weights[i][:]) && r.class == classIndex {
			first = append(first, i)
		}
	}
	slices.SortFunc(first, func(i, j int32) int {
		a, b := &t.rows[i], &t.rows[j]
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.c.Query.ID, b.c.Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= t.rows[i].cost; room < 0 || evidence > enough {
			return
		}
		evidence += t.tells[t.rows[i].c].same
		t.prefer(i, classProbe)
	}
}

// learnsFrom computes the evidence that a query's execution gives about the slot.
// It reports false if there is none.
func (t *table) learnsFrom(r *row, w []float64) bool {
	if r.pending || !r.known || t.view.most*r.mean <= 0.05 {
		return false
	}
	p, tells := t.view.tells(w, r.mean, r.changed)
	if tells {
		if t.tells == nil {
			t.tells = map[*policy.Candidate]tell{}
		}
		t.tells[r.c] = tellOf(p)
	}
	return tells
}

// Observe adds up the evidence. It reports true once the slot is probably empty:
// the rest of the slot is then planned again for other queries.
func (t *table) Observe(c *policy.Candidate, changed bool) bool {
	x, tells := t.tells[c]
	if !tells {
		return false
	}
	if changed {
		t.evidence += x.changed
	} else {
		t.evidence += x.same
	}
	return t.evidence > t.turn
}

// Explain returns the numbers that determine one query's place.
func (t *table) Explain(m policy.Moment, c *policy.Candidate) map[string]float64 {
	v, in := t.policy.view(m), t.policy.Inputs(c)
	in["worth_per_second"], in["chance"] = v.worth(c)
	b := readEstimate(c.Stats.State)
	in["live_slots"] = max(0, v.now-v.calendar.clock(c.Stats.Last))
	in["hazard"] = v.ratio[v.cellOf(b.mean, b.changed)]
	if t.view != nil && t.policy.form != noGuard {
		r := rowOf(c, &t.first)
		if d := t.deadline(&r); d > 0 {
			in["deadline"] = float64(d)
		}
		if d := t.divisor(r.seconds, r.cost); !r.known && d > 0 { // 0: no execution was ever complete
			in["worth_per_second"] *= r.seconds / d
		}
		limit := float64(t.limit(&r))
		in["waiting"] = t.price.of(t.waited(r.last, limit), limit, m.Turned || t.isLate(r.last))
	}
	return in
}
