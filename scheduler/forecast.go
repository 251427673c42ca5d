package scheduler

import "math"

// A query's own history lets expect its next change: changes are taken for a
// Poisson process whose rate is constant over the executions remembered. An
// execution g slots after the one before finds a change with probability
// 1 − e^(−λg), however many there were; the rate per slot is the one that makes
// what was found likeliest, where
//
//	Σ over changed g·e^(−λg)/(1 − e^(−λg)) = Σ over unchanged g
//
// The left side falls with λ, so halving finds it.

// Bounds of rates per slot, and how many changes it takes to know one.
const (
	leastRate     = 1e-6
	mostRate      = 8.0
	enoughChanges = 2
)

// updateRate is the rate per slot; ok is false while too little is known.
func updateRate(samples []Sample) (rate float64, ok bool) {
	quiet, changes := 0.0, 0
	for i := 1; i < len(samples); i++ {
		if samples[i].Changed {
			changes++
		} else {
			quiet += gap(samples, i)
		}
	}
	if changes < enoughChanges {
		return 0, false
	}
	low, high := math.Log(leastRate), math.Log(mostRate)
	for range 50 {
		mid := (low + high) / 2
		if excess(samples, math.Exp(mid)) > quiet {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(low), true
}

func gap(samples []Sample, i int) float64 {
	return math.Max(1, float64(samples[i].Slot)-float64(samples[i-1].Slot))
}

// excess is the left side of the equation.
func excess(samples []Sample, rate float64) (sum float64) {
	for i := 1; i < len(samples); i++ {
		if g := gap(samples, i); samples[i].Changed {
			sum += g / math.Expm1(rate*g)
		}
	}
	return sum
}

// A forecast is what a query's samples let expect: a change is as likely as not
// by the slot that is so many after the last one, or after a later one in which
// one was expected.
type forecast struct {
	last, gap uint64
	known     bool
}

func prospectOf(samples []Sample) (p forecast) {
	rate, ok := updateRate(samples)
	if !ok {
		return p
	}
	for i := len(samples) - 1; i >= 0; i-- {
		if samples[i].Changed {
			p.last = samples[i].Slot
			break
		}
	}
	p.gap, p.known = uint64(math.Max(1, math.Round(math.Ln2/rate))), true
	return p
}

// due is the slot by which the next change is expected.
func (p forecast) due(from uint64) uint64 { return max(from, p.last) + p.gap }
