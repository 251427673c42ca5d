package hybrid

// This file decides how long a query may wait: what a wait costs, and which deadlines the coming
// slots have to keep.

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

const (
	// defaultWait is the default of d, in live slots.
	defaultWait = 265
	// tightCost is the largest fraction of the expected changes that a shorter wait
	// may cost.
	tightCost = 0.002
	// waitShare is the fraction of the budget that the wait may need. If it needs
	// more, it is longer than d.
	waitShare = 1.0 / 3
	// late is the multiple of d, or of the wait if that is longer, after which a query
	// is late.
	late = 1.1
	// margin is a factor on what deadlines need, so that they are met before the
	// last moment.
	margin   = 1.15
	farthest = 1 << 16
)

// A price is what decides between worth and waiting in a slot. A query that has
// waited for a fraction x of the wait in force is worth price·x⁴ more, per second.
type price struct {
	second float64 // worth of the last second of the budget, by worth alone
	mean   float64 // worth of a mean second of the budget, likewise
	wait   float64 // in live slots
	long   float64 // wait as a multiple of d, at least 1
	late   float64 // a query that has waited for more slots, live or not, is late
}

// levels counts the queries' costs and gains by their worth, in steps of a
// fifteenth to an eighth. It sums integers, so the order of the queries does not matter.
type levels struct {
	cost [levelCount]time.Duration
	gain [levelCount]int64
	free time.Duration // cost of the queries without a max_staleness
}

const (
	levelCount  = 1 << 10
	levelShift  = 52 - 3            // eight levels for each power of two
	lowestLevel = (1023 - 100) << 3 // worth of 2^−100
	gainUnit    = float64(1 << 32)
)

func (l *levels) add(worth, gain float64, cost time.Duration, free bool) {
	k := int(math.Float64bits(max(worth, 0))>>levelShift) - lowestLevel
	k = min(max(k, 0), levelCount-1)
	l.cost[k] += cost
	l.gain[k] += int64(max(gain, 0) * gainUnit)
	if free {
		l.free += cost
	}
}

// price finds the worth of the last second that the budget holds, and the wait. The
// wait is d, or less if that costs at most tightCost of what the slot is expected
// to find: executing the queries that worth alone leaves out takes their cost from
// the others once in each wait. It is more than d if the queries need more than
// waitShare of the budget.
func (l *levels) price(d uint64, budget time.Duration) price {
	var used, below time.Duration
	var gain int64
	k := levelCount - 1
	for ; k > 0 && used+l.cost[k] < budget; k-- {
		used += l.cost[k]
		gain += l.gain[k]
	}
	for _, c := range l.cost[:k] {
		below += c
	}
	below += used + l.cost[k] - min(used+l.cost[k], budget)
	p := price{second: math.Float64frombits(uint64(k+lowestLevel) << levelShift), long: 1}
	expected := float64(gain)/gainUnit + float64(p.second*(budget-min(used, budget)).Seconds())
	p.mean = max(p.second, expected/budget.Seconds()) // tiny gains count as 0
	p.wait = max(1, min(float64(d), p.second*below.Seconds()/(tightCost*expected)))
	if need := l.free.Seconds() / (waitShare * budget.Seconds()); need > p.wait {
		p.wait, p.long = need, max(1, need/float64(d))
	}
	p.late = late * p.long * float64(d)
	return p
}

// of is what waiting for some slots adds to a query's worth. limit is its own longest
// wait, 0 if it has none. A query that is late is urgent: it may cost the others a mean
// second rather than the last one, and so may any query in the rest of an empty slot:
// there x² of a mean second, so that all come before queries that change often.
func (p *price) of(waited, limit float64, urgent bool) float64 {
	x := waited / max(1, cmp.Or(limit, p.wait))
	x *= x
	price := float64(p.second * x * x)
	if urgent {
		price = max(price, float64(p.mean*x))
	}
	return price
}

// lateness is the factor on the price for a query that has waited for x times as long as is late. It doubles with each 6 % more.
func lateness(x float64) float64 {
	x *= x
	x *= x
	return x * x * x
}

// cost is what a query takes of a slot. It is never 0: once the budget is used up
// nothing else starts.
func (t *table) cost(estimate time.Duration) time.Duration {
	return min(max(estimate, quick), t.moment.Budget)
}

// limit is the number of slots that a query may wait because of its max_staleness,
// 0 if it has none.
func (t *table) limit(r *row) uint64 {
	if r.staleness <= 0 || t.moment.Lead <= 0 {
		return 0
	}
	return max(1, uint64(r.staleness/t.moment.Lead))
}

// deadline is the last slot in which a query should run because of its
// max_staleness, 0 if there is none.
func (t *table) deadline(r *row) uint64 {
	if r.overdue > 0 {
		return r.overdue
	}
	if n := t.limit(r); n > 0 {
		return r.last + n
	}
	return 0
}

// left is the number of slots until a deadline, including the current one.
func (t *table) left(deadline uint64) int {
	return int(min(deadline-min(deadline, t.moment.Slot)+1, farthest))
}

// choose finds the queries that have to run now so that every max_staleness holds.
// It takes them in the order of deadlines, up to the cost that the deadlines need
// from this slot: the largest quotient of a prefix's cost and the slots left for
// it, times a margin. lack is what the deadlines need as a multiple of the budget. If
// they leave too little for the query that has waited longest without a deadline,
// that query goes first once it is late. So does a query that a cut holds up.
func (t *table) choose() (reserve time.Duration, lack float64, chosen []int) {
	costs := append(t.costs[:0], 0) // by the slots left
	for _, i := range t.bound {
		r := &t.rows[i]
		l := t.left(r.due)
		if l >= len(costs) {
			n := len(costs)
			costs = slices.Grow(costs, l+1-n)[:l+1]
			clear(costs[n:])
		}
		costs[l] += t.cost(r.cost)
	}
	t.costs = costs
	var need, sum time.Duration
	for l := 1; l < len(costs); l++ {
		sum += costs[l]
		need = max(need, (sum+time.Duration(l)-1)/time.Duration(l))
	}
	reserve = min(time.Duration(margin*float64(need)), t.moment.Budget)
	chosen = t.nearest(reserve)
	if reserve > 0 { // no query takes more than the budget
		if i := t.oldest(); i >= 0 && reserve+t.cost(t.rows[i].cost) > t.moment.Budget && t.isLate(t.rows[i].last) {
			chosen = append(chosen, i)
		}
	}
	if i := t.stuck(); i >= 0 && !slices.Contains(chosen, i) {
		chosen = append(chosen, i)
	}
	for _, i := range chosen {
		t.keys[i] = policy.Key{Class: classDue, Value: float64(t.rows[i].due), Low: -t.rows[i].worth}
	}
	return reserve, float64(need) / float64(max(1, t.moment.Budget)), chosen
}

// oldest finds the row without a deadline that was executed longest ago, -1 if there is none.
func (t *table) oldest() int {
	oldest := -1
	for i := range t.rows {
		if t.rows[i].due == 0 && (oldest < 0 || t.older(i, oldest)) {
			oldest = i
		}
	}
	return oldest
}

// stuck finds a query that usually takes a quarter of the budget at most, but was cut after so
// much that it would only start as the first of a slot, and that its usual time would bring into
// this slot. It is the most valuable such row, or -1.
func (t *table) stuck() int {
	best, value := -1, t.price.second
	for _, i := range t.long {
		r := &t.rows[i]
		if r.due > 0 || t.all[i].Median > t.moment.Budget/4 {
			continue
		}
		if v := t.value(r); v > value || v == value && (best < 0 || t.older(i, best)) {
			best, value = i, v
		}
	}
	return best
}

// nearest lists the first queries by deadline whose cost reaches the reserve.
func (t *table) nearest(reserve time.Duration) (in []int) {
	var sum time.Duration
	edge := 1 // slots left of those of which only some are taken
	for ; edge < len(t.costs)-1 && sum+t.costs[edge] < reserve; edge++ {
		sum += t.costs[edge]
	}
	var some []int
	for _, i := range t.bound {
		switch l := t.left(t.rows[i].due); {
		case l < edge:
			in = append(in, i)
		case l == edge:
			some = append(some, i)
		}
	}
	slices.SortFunc(some, func(i, j int) int {
		a, b := &t.rows[i], &t.rows[j]
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(b.worth, a.worth), cmp.Compare(a.last, b.last),
			cmp.Compare(t.all[i].Query.ID, t.all[j].Query.ID))
	})
	for _, i := range some {
		if sum >= reserve {
			break
		}
		sum += t.cost(t.rows[i].cost)
		in = append(in, i)
	}
	return in
}

// ranking describes the slot.
func (t *table) ranking(reserve time.Duration, lack float64) policy.Ranking {
	r := policy.Ranking{Keys: t.keys, Memo: t, Inputs: map[string]float64{
		"wait": t.price.wait, "price": t.price.second, "reserve_seconds": reserve.Seconds(), "clock": t.view.start,
	}}
	if s := max(t.price.long, lack); s > 1 {
		r.Stretch = s
	}
	return r
}
