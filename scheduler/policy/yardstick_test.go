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
	if current > limit*(1+1e-9) || current < 0.99*limit {
		t.Errorf("%.3f of %d pages are current, at most %.3f can be", current, pages, limit)
	}
}
