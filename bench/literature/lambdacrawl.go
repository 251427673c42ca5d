package literature

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// lambdaCrawl executes at the rates of harmonic, with maximum-likelihood estimates of how
// often queries change. In its paper the rates are recomputed after each epoch, here in
// each slot. The part for sources that report their changes is left out.
func lambdaCrawl() policy.Definition {
	return policy.Definition{
		Name: "lambdacrawl", Doc: "LambdaCrawl: least harmonic penalty of staleness, rates by maximum likelihood",
		Source: "Kolobov, Peres, Lu, Horvitz 2019",
		Build: func(policy.Args) (policy.Policy, error) {
			return learner{name: "lambdacrawl", rule: harmonic, learn: learnLikelihood}, nil
		},
	}
}

// gaps is the number of classes of gaps between executions: a class has gaps of up to twice
// its least one. After the estimate, a state has the sum of the gaps without a change, and
// for each class the number of changes and the sum of their gaps.
const gaps = 14

func learnLikelihood(state []float64, _ uint64, gap float64, changed bool) []float64 {
	if len(state) == 0 { // half a change and half an execution without one, in one slot each
		state = make([]float64, 2+2*gaps)
		state[1], state[2], state[3] = 0.5, 0.5, 0.5
	}
	if changed {
		k := min(int(math.Log2(max(1, gap))), gaps-1)
		state[2+2*k]++
		state[3+2*k] += gap
	} else {
		state[1] += gap
	}
	state[0] = likeliest(state)
	return state
}

// likeliest is the rate Δ with Σ a/(e^(aΔ)−1) over the gaps a with a change equal to the sum of
// the other gaps.
func likeliest(state []float64) float64 {
	low, high := 1e-7, 16.0
	for range 40 {
		rate := math.Sqrt(low * high)
		sum := -state[1]
		for k := range gaps {
			if n := state[2+2*k]; n > 0 {
				sum += state[3+2*k] / math.Expm1(rate*state[3+2*k]/n)
			}
		}
		if sum > 0 {
			low = rate
		} else {
			high = rate
		}
	}
	return high
}
