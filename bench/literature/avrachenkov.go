package literature

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// avrachenkov executes at the rates of freshness, with estimates that are updated after
// each execution in constant time and space.
func avrachenkov() policy.Definition {
	return policy.Definition{
		Name: "online",
		Params: []policy.Param{{Name: "estimator", Default: "lln", Values: []string{"lln", "sa"},
			Doc: "lln: by the law of large numbers; sa: by stochastic approximation"}},
		Doc:    "online estimates of change rates, and the rates that keep results current",
		Source: "Avrachenkov, Patil, Thoppe, Online algorithms for estimating change rates of web pages, 2020",
		Build: func(a policy.Args) (policy.Policy, error) {
			l := learner{name: "online:" + a["estimator"], rule: freshness, learn: learnLargeNumbers}
			if a["estimator"] == "sa" {
				l.learn = learnApproximation
			}
			return l, nil
		},
	}
}

// learnLargeNumbers keeps the estimate, the executions, the changes and the slots. If executions come
// at random at rate p, a share Δ/(Δ+p) of them finds a change, so I changes in k executions
// estimate pI/(k+1−I).
func learnLargeNumbers(state []float64, _ uint64, gap float64, changed bool) []float64 {
	if len(state) == 0 {
		state = make([]float64, 4)
	}
	state[1]++
	state[3] += gap
	if changed {
		state[2]++
	}
	p := state[1] / state[3]
	state[0] = p * state[2] / (state[1] + 1 - state[2])
	return state
}

// learnApproximation keeps the estimate y, the executions k and the slots: after an execution, which
// found a change if I = 1, y grows by (I(y+p) − y)/(k+1)^(3/4).
func learnApproximation(state []float64, _ uint64, gap float64, changed bool) []float64 {
	if len(state) == 0 {
		state = []float64{least, 0, 0}
	}
	state[1]++
	state[2] += gap
	y, step := state[0], math.Pow(state[1]+1, -0.75)
	if changed {
		y += step * state[1] / state[2] // I(y+p) − y = p
	} else {
		y -= step * y
	}
	state[0] = y
	return state
}
