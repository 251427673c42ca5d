package literature

import (
	"fmt"
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// explore executes all queries in turn for some slots, and then for ever at the rates of
// freshness that follow from what it saw.
func explore() policy.Definition {
	return policy.Definition{
		Name:   "explore",
		Params: []policy.Param{{Name: "slots", Default: "128", Doc: "slots in which all queries take turns"}},
		Doc:    "explore and commit: all queries in turn, then at fixed rates",
		Source: "Upadhyay, Busa-Fekete, Kotłowski, Pál, Szörényi, Learning to crawl, 2020",
		Build: func(a policy.Args) (policy.Policy, error) {
			n, err := a.Count("slots")
			if err != nil {
				return nil, err
			}
			learn := func(state []float64, slot uint64, gap float64, changed bool) []float64 {
				if slot > n {
					return state
				}
				return learnMoment(state, slot, gap, changed)
			}
			return learner{name: fmt.Sprintf("explore:slots=%d", n), rule: freshness, learn: learn, explore: n}, nil
		},
	}
}

// learnMoment keeps in a state the estimate, the executions, the changes and the slots.
// The estimate matches the first moment: with n executions in even gaps of a slots, the
// expected number of changes n·(1 − e^(−aΔ)) is that which was found.
func learnMoment(state []float64, _ uint64, gap float64, changed bool) []float64 {
	if len(state) == 0 {
		state = make([]float64, 4)
	}
	state[1]++
	state[3] += gap
	if changed {
		state[2]++
	}
	n, found := state[1], state[2]
	state[0] = -math.Log1p(-found/(n+0.5)) * n / state[3]
	return state
}
