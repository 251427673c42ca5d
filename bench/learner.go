package bench

import (
	"context"
	"math"
	"math/bits"
	"time"
)

// Limits are what policies find at most that cannot know when a change comes. A query of the trace
// counts as drawn from those that take as long, within a factor of two: it changes at random, as often as one
// of them. Its time is its mean one times the load of a slot, which scales all times. The numbers are the expected changes.
type Limits struct {
	BudgetMS int64   `json:"budget_ms"`
	Wait     int     `json:"wait"`
	Known    float64 `json:"known"`   // by a policy that knows how often each result changes
	Learner  float64 `json:"learner"` // by one that knows how many change how often, and how long they take, but not which ones
}

// Limits computes limits for policies that execute each query at least once in every wait slots; 0 is no such
// promise, and none holds for queries that take longer than a budget. They keep the budget of each slot in the mean only.
//
// For prices μ(s) ≥ 0 of a second in slot s, Σ K·μ(s) + Σ V is a limit, where V is what a query
// alone is worth at these prices. A query that is known to change at rate λ, and ran in slot s, is
// worth V(s) = max over gaps g of 1 − e^(−λg) − μ(s+g)·c + V(s+g). One that may have each of the
// rates is told its rate at its first change. So nothing is ever learnt but that it has not
// changed yet, and V is a maximum over gaps, too. That it is told, that the load of each slot is known beforehand, and
// that budgets are kept in the mean, only makes the limit larger.
//
// Source: the Lagrangian relaxation of restless bandits, P. Whittle, "Restless bandits: activity
// allocation in a changing world", 1988; with D. B. Brown, J. E. Smith, "Information relaxations, duality,
// and convex stochastic dynamic programs", 2014, for the rate that is told.
func (w *Simulator) Limits(ctx context.Context, budget time.Duration, wait int) (Limits, error) {
	n, l := w.t.Revisions, Limits{BudgetMS: budget.Milliseconds(), Wait: wait}
	kinds, load := w.narrow()
	if wait == 0 || wait > n {
		wait = n + 1
	}
	capacity := make([]float64, n+1)
	for s := 1; s <= n; s++ {
		capacity[s] = budget.Seconds() / load[s]
	}
	limit := func(learns bool) float64 {
		eval := func(price []float64) (value float64, used []float64) {
			used = make([]float64, n+1)
			if ctx.Err() != nil {
				return 0, used
			}
			for s := 1; s <= n; s++ {
				value += capacity[s] * price[s]
			}
			for i := range kinds {
				longest := wait
				if kinds[i].cost > budget.Seconds() {
					longest = n + 1
				}
				value += kinds[i].worth(price, longest, learns, used)
			}
			return value, used
		}
		return max(0, lowest(capacity, even(capacity, eval), eval)) // below 0, the budget is too small for the promise
	}
	l.Known, l.Learner = limit(false), limit(true)
	return l, ctx.Err()
}

// narrow splits kinds by time, into four within a factor of two, because a policy may prefer those of a kind that take
// less. It returns the load of each slot, too: what all queries take in it, as a part of the mean. Times are without the load.
func (w *Simulator) narrow() (out []kind, load []float64) {
	kinds, of := w.kinds()
	n, mean := w.t.Revisions, 0.0
	for _, x := range w.totals[1:] {
		mean += x.cost.Seconds() / float64(max(1, n))
	}
	load = make([]float64, n+1)
	for s := range load {
		load[s] = max(1e-9, w.totals[s].cost.Seconds()) / max(1e-9, mean)
	}
	type class struct{ kind, cost int }
	at, all := map[class]int{}, make([]float64, len(kinds))
	var in []float64 // by class: its queries
	for q, i := range of {
		cost := 0.0
		for s := 1; s <= n; s++ {
			cost += float64(w.t.Times[s][q]) / 1000 / load[s] / float64(n)
		}
		c := class{i, int(math.Floor(4 * math.Log2(max(1e-6, cost))))}
		k, has := at[c]
		if !has {
			k = len(out)
			at[c], out, in = k, append(out, kinds[i]), append(in, 0)
			out[k].cost = 0
		}
		out[k].cost += cost
		in[k]++
		all[i]++
	}
	for c, k := range at {
		x := &out[k]
		x.cost /= in[k]
		x.share = append([]float64(nil), x.share...)
		for i := range x.share {
			x.share[i] *= in[k] / all[c.kind]
		}
	}
	return out, load
}

// even finds the best price that is the same in all slots.
func even(capacity []float64, eval func([]float64) (float64, []float64)) []float64 {
	price := make([]float64, len(capacity))
	low, high := math.Log(1e-6), math.Log(1e3)
	for range 24 {
		mid := (low + high) / 2
		for s := range price {
			price[s] = math.Exp(mid)
		}
		sum := 0.0
		_, used := eval(price)
		for s, u := range used {
			sum += u - capacity[s]
		}
		if sum > 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return price
}

// A kind is the queries that take about as long.
type kind struct {
	cost  float64 // mean seconds
	rates []float64
	share []float64 // how many queries change at each rate
}

// A belief is what can be known about the rates of queries by one that knows the kinds: by query, the probability of each
// rate of its kind, after all of its executions.
type belief struct {
	kinds []kind
	of    []int // the kind of each query
	rates [][]float64
}

func (w *Simulator) belief() *belief {
	b := &belief{rates: make([][]float64, w.t.Queries)}
	b.kinds, b.of = w.kinds()
	for q, i := range b.of {
		b.rates[q] = append(b.rates[q], b.kinds[i].share...)
		b.learn(q, 0, false)
	}
	return b
}

// learn applies Bayes' rule to an execution some slots after the one before.
func (b *belief) learn(q, past int, changed bool) {
	sum, p := 0.0, b.rates[q]
	for i, rate := range b.kinds[b.of[q]].rates {
		e := math.Exp(-rate * float64(past))
		if changed {
			e = 1 - e
		}
		p[i] = max(1e-300, p[i]*e)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
}

// worth is policy.Foresight.Worth.
func (b *belief) worth(q, past int) (sum float64) {
	for i, rate := range b.kinds[b.of[q]].rates {
		x := rate * float64(past)
		sum += b.rates[q][i] * (1 - math.Exp(-x)*(1+x))
	}
	return sum
}

// kinds lists the kinds of queries, and which one each is of. Rates between two powers of two count as their mean.
func (w *Simulator) kinds() (out []kind, of []int) {
	type sum struct{ rate, queries float64 }
	costs, sums := map[int]sum{}, map[int]map[int]sum{}
	of = make([]int, w.t.Queries)
	for q := range w.t.Queries {
		ms, rate := 0.0, 0.0
		for _, row := range w.t.Times[1:] {
			ms += float64(row[q])
		}
		ms /= float64(max(1, w.t.Revisions))
		if i := w.series[q]; i >= 0 {
			rate = w.rates[i]
		}
		c, r := bits.Len(uint(ms)), math.MinInt
		of[q] = c
		if rate > 0 {
			_, r = math.Frexp(rate)
		}
		k := costs[c]
		costs[c] = sum{k.rate + ms/1000, k.queries + 1}
		if sums[c] == nil {
			sums[c] = map[int]sum{}
		}
		x := sums[c][r]
		sums[c][r] = sum{x.rate + rate, x.queries + 1}
	}
	number := map[int]int{}
	for c := range 64 {
		if costs[c].queries == 0 {
			continue
		}
		number[c] = len(out)
		k := kind{cost: costs[c].rate / costs[c].queries}
		for r := -64; r < 8; r++ {
			if x, has := sums[c][r]; has {
				k.rates, k.share = append(k.rates, x.rate/x.queries), append(k.share, x.queries)
			}
		}
		if x, has := sums[c][math.MinInt]; has {
			k.rates, k.share = append(k.rates, 0), append(k.share, x.queries)
		}
		out = append(out, k)
	}
	for q, c := range of {
		of[q] = number[c]
	}
	return out, of
}

// worth is what the queries of a kind are worth at prices, and adds the seconds that they then
// take in each slot.
func (k *kind) worth(price []float64, wait int, learns bool, used []float64) (value float64) {
	n := len(price) - 1
	known := make([][]float64, len(k.rates)) // by rate and slot of the last execution
	next := make([][]int, len(k.rates))      // the slot of the next one, 0 = none
	arrive := make([][]float64, len(k.rates))
	for i, rate := range k.rates {
		known[i], next[i] = k.best(price, wait, rate)
		arrive[i] = make([]float64, n+1)
	}
	if !learns {
		for i, share := range k.share {
			value += share * known[i][0]
			arrive[i][0] = share
		}
	} else {
		value = k.learn(price, wait, known, arrive, used)
	}
	for i := range arrive {
		for s, mass := range arrive[i] {
			if to := next[i][s]; mass > 0 && to > 0 {
				used[to] += mass * k.cost
				arrive[i][to] += mass
			}
		}
	}
	return value
}

// best solves a query of a known rate.
func (k *kind) best(price []float64, wait int, rate float64) (worth []float64, next []int) {
	n := len(price) - 1
	worth, next = make([]float64, n+1), make([]int, n+1)
	change := make([]float64, wait+1)
	for g := range change {
		change[g] = -math.Expm1(-rate * float64(g))
	}
	after := make([]float64, n+1) // what an execution in a slot costs, and all later ones are worth
	for s := n; s >= 0; s-- {
		top, at := math.Inf(-1), 0
		if s+wait > n {
			top = 0
		}
		for g := 1; g <= wait && s+g <= n; g++ {
			if v := change[g] + after[s+g]; v > top {
				top, at = v, s+g
			}
		}
		worth[s], next[s] = top, at
		after[s] = top - price[s]*k.cost
	}
	return worth, next
}

// learn solves queries whose rates are not known, and says how many have their first change found in each slot.
func (k *kind) learn(price []float64, wait int, known, arrive [][]float64, used []float64) float64 {
	n, rates := len(price)-1, len(k.rates)
	calm := make([]float64, (n+1)*rates) // by slot and rate: queries that have not changed
	gain := make([]float64, (n+1)*rates) // by slot and rate: what finding the first change in it brings
	for s := range n + 1 {
		for i, rate := range k.rates {
			calm[s*rates+i] = k.share[i] * math.Exp(-rate*float64(s))
			gain[s*rates+i] = 1 + known[i][s]
		}
	}
	lost, rest, worth, next := make([]float64, n+1), make([]float64, n+1), make([]float64, n+1), make([]int, n+1)
	for s := n; s >= 0; s-- {
		left := calm[s*rates:][:rates]
		for i, x := range left {
			lost[s] += x * gain[s*rates+i]
			rest[s] += x
		}
		top, at := math.Inf(-1), 0
		if s+wait > n {
			top = 0
		}
		for to := s + 1; to <= min(n, s+wait); to++ {
			v := worth[to] - lost[to] - price[to]*k.cost*rest[s]
			for i, g := range gain[to*rates:][:rates] {
				v += left[i] * g
			}
			if v > top {
				top, at = v, to
			}
		}
		worth[s], next[s] = top, at
	}
	for s := 0; next[s] > 0; s = next[s] {
		to := next[s]
		used[to] += rest[s] * k.cost
		for i := range k.rates {
			arrive[i][to] += calm[s*rates+i] - calm[to*rates+i]
		}
	}
	return worth[0]
}
