package hybrid

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// A table holds what a slot needs to know of every query, side by side, in the order of
// the planner's list. A slot scans it: with many queries the time of a slot is that of
// reading them from memory.
type table struct {
	first   rateEstimate // estimate for queries without a state
	all     []*policy.Candidate
	rows    []row
	weights [][rates]float64 // likelihoods of the rates, by row
	keys    []policy.Key

	// These are of the last slot.
	wait   uint64 // Policy.wait
	view   *view
	moment policy.Moment
	price  price
	levels levels
	bound  []int           // rows that have a deadline
	fresh  []int           // rows without an execution since their registration
	mean   float64         // seconds that a query takes on average
	long   []int           // rows that are too long to run early
	costs  []time.Duration // of rows with a deadline, summed by the slots left
	recent []int           // rows that were executed in the slot before
	decays []decay         // that were computed last, since many rows share one
	ranked uint64          // how often this was ranked
}

// A decay is how a rate's likelihood decays from a slot on in a cell: e^(−rλτ) for the lowest rate.
type decay struct {
	ranked uint64 // when it was computed, see table
	last   uint64
	cell   int
	tau, e float64
}

// A row is one query. Rates, excitation and so on are copies from its state.
type row struct {
	last      uint64
	overdue   uint64
	staleness time.Duration
	cost      time.Duration // estimate
	seconds   float64       // that its worth is divided by
	x, mean   float64
	changed   uint64
	cells     int32
	hinted    bool
	pending   bool   // its state has a pending sample
	known     bool   // it has a state, or something was learnt about it elsewhere
	due       uint64 // the deadline, 0 = none
	worth     float64
}

// Rank computes what an execution of each query is worth, and finds those that go before
// the others. The rest of a slot that turned out to be empty keeps the price of waiting,
// so it goes to the queries that have waited longest.
func (p Policy) Rank(m policy.Moment, all []*policy.Candidate) policy.Ranking {
	t := tableOf(m)
	t.moment, t.wait = m, p.wait()
	t.read(m, all)
	t.view = newView(m)
	t.evaluate()
	if !m.Turned {
		t.price = t.levels.price(t.wait, m.Budget)
	}
	for i := range t.rows {
		t.keys[i] = policy.Key{Class: classIndex, Value: -t.value(&t.rows[i])}
	}
	reserve, lack, chosen := t.choose()
	r := t.ranking(reserve, lack)
	r.Evidence, r.Enough = t.probe(chosen)
	return r
}

// tableOf returns the table of an endpoint.
func tableOf(m policy.Moment) *table {
	if m.Memory == nil {
		return &table{first: prior()}
	}
	t, ok := (*m.Memory).(*table)
	if !ok {
		t = &table{first: prior()}
		*m.Memory = t
	}
	return t
}

// read updates the rows of queries that have changed or moved.
func (t *table) read(m policy.Moment, all []*policy.Candidate) {
	have, n := len(t.rows), len(all)
	t.all = all
	t.rows = slices.Grow(t.rows[:min(have, n)], max(0, n-have))[:n]
	t.weights = slices.Grow(t.weights[:min(have, n)], max(0, n-have))[:n]
	t.keys = slices.Grow(t.keys[:0], n)[:n]
	if size := 1 << min(12, bits.Len(uint(n))); len(t.decays) < size {
		t.decays = make([]decay, size)
	}
	for _, i := range m.Moved {
		if i < min(have, n) {
			t.set(i)
		}
	}
	for i := have; i < n; i++ {
		t.set(i)
	}
}

func (t *table) set(i int) {
	c := t.all[i]
	first := &t.first
	if c.Query.Learnt != nil && len(c.Stats.State) != estimateSize {
		known := start(c.Query.Learnt, t.moment.Lead)
		first = &known
	}
	t.rows[i], t.weights[i] = rowOf(c, first), first.w
	if len(c.Stats.State) == estimateSize {
		copy(t.weights[i][:], c.Stats.State)
	}
}

// rowOf reads what a slot needs of a query.
func rowOf(c *policy.Candidate, first *rateEstimate) row {
	r := row{
		last: c.Stats.Last, overdue: c.Overdue, staleness: c.MaxStaleness, cost: c.Estimate, seconds: seconds(c), mean: first.mean,
		known: isOwn(c.Query.Learnt), hinted: c.Hinted,
	}
	if s := c.Stats.State; len(s) == estimateSize {
		r.known, r.pending = true, isPending(s)
		r.mean, r.x, r.changed = s[rates], s[rates+1], uint64(s[rates+2])
	}
	r.cells = int32(cellsOf(r.mean))
	return r
}

// evaluate computes the worth of every query, and lists those that have a deadline, those
// that ran in the slot before, those without an execution, and those that are too long to run early.
func (t *table) evaluate() {
	t.bound, t.recent, t.fresh, t.long, t.levels = t.bound[:0], t.recent[:0], t.fresh[:0], t.long[:0], levels{}
	queries, cost := 0, time.Duration(0)
	t.ranked++
	for i := range t.rows {
		r := &t.rows[i]
		if r.due = t.deadline(r); r.due > 0 {
			t.bound = append(t.bound, i)
		}
		if r.last+1 == t.moment.Slot {
			t.recent = append(t.recent, i)
		}
		if t.affords(r.cost) {
			queries, cost = queries+1, cost+max(r.cost, quick)
		} else {
			t.long = append(t.long, i)
		}
		gain := t.gain(i)
		if r.worth = gain; !r.known {
			t.fresh = append(t.fresh, i)
			continue
		}
		r.worth = gain / r.seconds
		t.levels.add(r.worth, gain, t.cost(r.cost), t.limit(r) == 0)
	}
	t.mean = cost.Seconds() / float64(max(1, queries))
	for _, i := range t.fresh {
		r := &t.rows[i]
		gain := r.worth
		r.worth = gain / t.divisor(r.seconds, r.cost)
		t.levels.add(r.worth, gain, t.cost(r.cost), t.limit(r) == 0)
	}
}

// gain is what an execution of a row is worth, regardless of its cost.
func (t *table) gain(i int) float64 {
	r, v := &t.rows[i], t.view
	if r.pending {
		p := v.prospect(t.all[i])
		return p.gain()
	}
	c := int(r.cells) + ageCells - 1
	if r.changed > 0 {
		c = int(r.cells) + ageRow(v.start-v.calendar.clock(r.changed))
	}
	d := t.decay(r.last, c)
	p := prospect{w: &t.weights[i], leave: &v.leave[c], tau: d.tau, x: r.x, e: d.e}
	if r.hinted {
		p.hint = v.evidence()
	}
	if r.known && r.changed == 0 {
		p.learn = &v.learn[costClass(r.seconds)]
	}
	return p.gain()
}

// decay is that of a row that was executed last in a slot.
func (t *table) decay(last uint64, cell int) *decay {
	d, v := &t.decays[(last*cells+uint64(cell))&uint64(len(t.decays)-1)], t.view
	if d.ranked != t.ranked || d.last != last || d.cell != cell {
		tau := max(0, v.now-v.calendar.clock(last))
		*d = decay{t.ranked, last, cell, tau, math.Exp(-v.missed * v.ratio[cell] * tau * policy.LowestRate)}
	}
	return d
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
func (t *table) older(i, j int) bool {
	a, b := &t.rows[i], &t.rows[j]
	return a.last < b.last || a.last == b.last && t.all[i].Query.ID < t.all[j].Query.ID
}

// value is the worth of a query with the price of waiting.
func (t *table) value(r *row) float64 {
	limit := float64(t.limit(r))
	return r.worth + t.waiting(r.last, limit)
}

// waiting is what the time since a query's last execution adds to its worth. Once it is late, all slots count.
func (t *table) waiting(last uint64, limit float64) float64 {
	late := t.isLate(last)
	price := t.price.of(t.waited(last, limit), limit, t.moment.Turned || late)
	if late {
		price *= lateness(t.slots(last) / t.price.late)
	}
	return price
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

// probe finds the queries that show whether the slot is empty. The most valuable of
// them go first, as long as they and those with deadlines fit into half the budget, and
// leave room for a long query that is late and worth more than the others. It returns the
// evidence that executions give, and how much is enough.
func (t *table) probe(chosen []int) (tells map[*policy.Candidate]policy.Evidence, turn float64) {
	const enough = 4 // executions of evidence
	m, v := &t.moment, t.view
	if m.Slot == 0 || m.Turned || !v.trusted() {
		return nil, 0
	}
	room := m.Budget / 2
	for _, i := range chosen {
		room -= t.rows[i].cost
	}
	if i := t.top(); i >= 0 {
		room = min(room, m.Budget-t.rows[i].cost)
	}
	tells = map[*policy.Candidate]policy.Evidence{}
	var first []int
	for _, i := range t.recent {
		if x, ok := t.learnsFrom(i); ok {
			tells[t.all[i]] = x
			if t.keys[i].Class == classIndex {
				first = append(first, i)
			}
		}
	}
	slices.SortFunc(first, func(i, j int) int {
		return cmp.Or(cmp.Compare(t.rows[j].worth, t.rows[i].worth), cmp.Compare(t.all[i].Query.ID, t.all[j].Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= t.rows[i].cost; room < 0 || evidence > enough {
			break
		}
		evidence += tells[t.all[i]].Same
		t.keys[i] = policy.Key{Class: classProbe, Value: -t.rows[i].worth}
	}
	return tells, proof - v.odds()
}

// top finds the first row by worth and waiting, -1 if all go before these. It passes over rows
// that are too long to run early and not overlong.
func (t *table) top() int {
	top := -1
	for i := range t.keys {
		k := &t.keys[i]
		if k.Class != classIndex || top >= 0 && !(k.Value < t.keys[top].Value || k.Value == t.keys[top].Value && t.older(i, top)) {
			continue
		}
		if t.affords(t.rows[i].cost) || t.impatient(i) {
			top = i
		}
	}
	return top
}

// impatient reports whether a query is so late that probes leave room for it. It takes a slot for
// itself. That is in vain if it is cut, so a query that exceeds the budget waits eight times as
// long for it, and one that was cut n times at least 2^n times as long, up to eight times.
func (t *table) impatient(i int) bool {
	r, s := &t.rows[i], &t.all[i].Stats
	last, n := r.last, min(s.Cuts, 3)
	if r.cost > t.moment.Budget {
		n = 3
	}
	if n > 0 {
		last = max(last, s.LastRun.Slot)
	}
	return t.slots(last) > math.Ldexp(t.price.late, int(n))
}

// learnsFrom computes the evidence that a query's execution gives about the slot.
// It reports false if there is none.
func (t *table) learnsFrom(i int) (x policy.Evidence, ok bool) {
	r := &t.rows[i]
	if r.pending || !r.known || t.view.most*r.mean <= 0.05 {
		return x, false
	}
	p, tells := t.view.tells(t.weights[i][:], r.mean, r.changed)
	return tellOf(p), tells
}

// Inputs returns the numbers that determine one query's place.
func (p Policy) Inputs(m policy.Moment, r policy.Ranking, c *policy.Candidate) map[string]float64 {
	v, b := newView(m), readEstimate(c.Stats.State)
	if len(c.Stats.State) == 0 {
		b = start(c.Query.Learnt, m.Lead)
	}
	in := map[string]float64{
		"last": float64(c.Stats.Last), "rate_per_slot": b.mean, "excitation": b.x, "last_change": float64(b.changed),
		"live_slots": max(0, v.now-v.calendar.clock(c.Stats.Last)), "hazard": v.ratio[v.cellOf(b.mean, b.changed)],
	}
	in["worth_per_second"], in["chance"] = v.worth(c)
	if c.Hinted {
		in["hint"] = v.right()
	}
	t, ranked := r.Memo.(*table)
	if !ranked {
		return in
	}
	x := rowOf(c, &t.first)
	if d := t.deadline(&x); d > 0 {
		in["deadline"] = float64(d)
	}
	if d := t.divisor(x.seconds, x.cost); !x.known && d > 0 { // 0: no execution was ever complete
		in["worth_per_second"] *= x.seconds / d
	}
	limit := float64(t.limit(&x))
	in["waiting"] = t.waiting(x.last, limit)
	return in
}
