package policy

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Azar et al., section 3: with known rates, the order of "fresh" keeps nearly as many pages current as any schedule can. The limit is
// the dual of the problem: with a price of requests, each page takes its best period.
func TestFreshIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const pages, perSlot, slots = 200, 10, 4000
	var all []*Candidate
	var known []Foresight
	for range pages {
		all = append(all, &Candidate{Estimate: time.Second})
		known = append(known, Foresight{Rate: math.Exp(-4 + 1.5*r.NormFloat64())})
	}
	current := 0.0 // pages in a slot, the mean over the second half
	for slot := uint64(1); slot <= slots; slot++ {
		order := make([]int, pages)
		keys := make([]Key, pages)
		for i, c := range all {
			order[i] = i
			keys[i], _ = fresh(slot, c, &known[i])
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a].Value, keys[b].Value) })
		for _, i := range order[:perSlot] {
			all[i].Stats.Last = slot
		}
		for i, c := range all {
			if slot > slots/2 {
				current += math.Exp(-known[i].Rate*float64(slot-c.Stats.Last)) / (slots / 2)
			}
		}
	}
	limit := math.Inf(1)
	for price := 0.01; price < 20; price *= 1.05 {
		sum := price * perSlot
		for i := range all {
			best, fresh := 0.0, 0.0
			for period := 1.0; period < 2000; period++ {
				fresh += math.Exp(-known[i].Rate * (period - 1))
				best = max(best, (fresh-price)/period)
			}
			sum += best
		}
		limit = min(limit, sum)
	}
	if current > limit*(1+1e-9) || current < 0.9997*limit {
		t.Errorf("%.3f of %d pages are current, at most %.3f can be", current, pages, limit)
	}
}

// The order of "signals" finds nearly as many changes as any schedule can that knows the rates and hears signals of which some are
// false, if all executions take as long. The limit is the dual of the problem: with a price of requests, each page is executed when
// what its signals say is worth it best, which the numbers of slots and of signals since the last execution decide.
func TestSignalsAreUsedWell(t *testing.T) {
	const miss, lie = 0.1, 0.5
	const kinds, each, slots = 5, 40, 6000
	r := rand.New(rand.NewPCG(9, 10))
	poisson := func(mean float64) (n int) {
		for x := r.ExpFloat64(); x < mean; x += r.ExpFloat64() {
			n++
		}
		return n
	}
	rate := func(i int) float64 { return 0.002 * math.Pow(3, float64(i%kinds)) }
	// run returns the changes that are found in a slot, in the mean.
	run := func(perSlot int) (found float64) {
		all, known, changed := make([]*Candidate, kinds*each), make([]Foresight, kinds*each), make([]bool, kinds*each)
		for i := range all {
			all[i], known[i] = &Candidate{Estimate: time.Second}, Foresight{Rate: rate(i), Miss: miss, Lie: lie}
		}
		for slot := uint64(1); slot <= slots; slot++ {
			order, keys := make([]int, len(all)), make([]Key, len(all))
			for i, c := range all {
				changes := poisson(rate(i))
				for range changes {
					if r.Float64() >= miss {
						known[i].Signals++
					}
				}
				changed[i] = changed[i] || changes > 0
				known[i].Signals += poisson(rate(i) * (1 - miss) * lie / (1 - lie))
				order[i] = i
				keys[i], _ = signalled(slot, c, &known[i])
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a].Value, keys[b].Value) })
			for _, i := range order[:perSlot] {
				if changed[i] {
					found += 1.0 / slots
				}
				all[i].Stats.Last, known[i].Signals, changed[i] = slot, 0, false
			}
		}
		return found
	}
	// worth is what a page finds in a slot at most, less the price of its executions.
	worth := func(lambda, price float64) float64 {
		const longest, most = 1500, 8 // slots, and signals
		sigma := lambda * (1 - miss) / (1 - lie)
		chance := [most + 1]float64{}
		rest := 1.0
		for k, p := 0, math.Exp(-sigma); k < most; k, p = k+1, p*sigma/float64(k+1) {
			chance[k] = p
			rest -= p
		}
		chance[most] = max(0, rest)
		low, high := 0.0, lambda
		for range 25 {
			g := (low + high) / 2
			var later [most + 1]float64 // of the next slot, by signals; at the end each page is executed
			for a := longest; a >= 0; a-- {
				var now [most + 1]float64
				for n := range now {
					now[n] = 1 - math.Exp(-lambda*miss*float64(a))*math.Pow(lie, float64(n)) - price
					if a == longest {
						continue
					}
					wait := -g
					for k, p := range chance {
						wait += p * later[min(most, n+k)]
					}
					if a == 0 {
						now[n] = wait
					}
					now[n] = max(now[n], wait)
				}
				later = now
			}
			if later[0] > 0 {
				low = g
			} else {
				high = g
			}
		}
		return high
	}
	some := []int{8, 12, 16} // executions a slot
	limits := []float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	for price := 0.05; price < 0.95; price += 0.05 {
		sum := 0.0
		for kind := range kinds {
			sum += each * worth(rate(kind), price)
		}
		for i := range limits {
			limits[i] = min(limits[i], sum+price*float64(some[i]))
		}
	}
	for i, perSlot := range some {
		found, limit := run(perSlot), limits[i]
		t.Logf("%d executions a slot find %.3f changes, and at most %.3f can be found", perSlot, found, limit)
		if found > 1.02*limit || found < 0.97*limit { // changes come by chance
			t.Errorf("%d executions a slot find %.3f changes, and at most %.3f can be found", perSlot, found, limit)
		}
	}
}
