package rounds

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// The rate of a query's changes is estimated from its history. Changes are assumed
// to be a Poisson process whose rate is constant over the remembered executions. An
// execution g slots after the previous one finds a change with probability
// 1 − e^(−λg), no matter how many changes there were. The estimate is the rate per
// slot of maximum likelihood, where
//
//	Σ over changed g·e^(−λg)/(1 − e^(−λg)) = Σ over unchanged g
//
// The left side decreases with λ, so bisection finds it.

// Bounds of rates per slot, and the number of changes needed for an estimate.
const (
	minRate    = 1e-6
	maxRate    = 8.0
	minChanges = 2
)

// A forecast says when a query's next change is expected: the probability of a
// change reaches one half within slots after last, or after a later slot in which
// a change was expected.
type forecast struct {
	last, within uint64
	known        bool
}

// forecastOf computes a forecast from executions, oldest first.
func forecastOf(history []policy.Sample) (f forecast) {
	var changed []float64 // for each execution that found a change, slots since the one before
	quiet, before := 0.0, uint64(0)
	first := true
	for _, x := range history {
		g := math.Max(1, float64(x.Slot)-float64(before))
		before = x.Slot
		switch {
		case x.Changed:
			f.last = x.Slot
			if !first {
				changed = append(changed, g)
			}
		case !first:
			quiet += g
		}
		first = false
	}
	if len(changed) < minChanges {
		return forecast{}
	}
	f.within, f.known = uint64(math.Max(1, math.Round(math.Ln2/rateOf(changed, quiet)))), true
	return f
}

// rateOf solves the equation for the rate per slot.
func rateOf(changed []float64, quiet float64) float64 {
	low, high := math.Log(minRate), math.Log(maxRate)
	for range 50 {
		mid := (low + high) / 2
		if leftSide(changed, math.Exp(mid)) > quiet {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(low)
}

func leftSide(changed []float64, rate float64) (sum float64) {
	for _, g := range changed {
		sum += g / math.Expm1(rate*g)
	}
	return sum
}

// due returns the slot by which the next change is expected.
func (f forecast) due(from uint64) uint64 { return max(from, f.last) + f.within }
