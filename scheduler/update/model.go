package update

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Noisy returns the model FPN(z) of a stream of updates, with false positives and
// false negatives. It keeps each update with probability z and otherwise moves it to
// a random chronon of 1 to n. FPN(1) is the truth.
//
// The paper's text has z the other way round; its figures have FPN(1) without
// noise, as here.
func Noisy(rng *rand.Rand, updates []int, n int, z float64) []int {
	model := slices.Clone(updates)
	for i := range model {
		if rng.Float64() >= z {
			model[i] = 1 + rng.IntN(n)
		}
	}
	slices.Sort(model)
	return model
}

// Rates is a piecewise homogeneous Poisson process. It holds the expected number of
// updates in each chronon; Rates[0] belongs to chronon 1.
type Rates []float64

// Expected returns the chronons in which the expected number of updates so far,
// Λ(0, t), reaches 1, 2, 3, …. The model places the updates there.
func (r Rates) Expected() []int {
	out := []int{}
	sum, next := 0.0, 1.0
	for i, x := range r {
		sum += x
		for ; next <= sum+1e-9; next++ {
			out = append(out, i+1)
		}
	}
	return out
}

// Sample draws the updates of one epoch, at most one per chronon: chronons are too
// short for more.
func (r Rates) Sample(rng *rand.Rand) []int {
	out := []int{}
	for i, x := range r {
		if rng.Float64() >= math.Exp(-x) {
			out = append(out, i+1)
		}
	}
	return out
}
