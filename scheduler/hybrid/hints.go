package hybrid

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// A hearing is what executions have shown about hints: how many hinted queries ran lately, how
// many of them the hints made change, and of the others that ran how many changed and how many should have.
type hearing struct {
	told [4]float64
}

const (
	hinted = iota
	proven
	unhinted
	expected
	hintFade = 0.99 // a slot
)

func (h *hearing) fadeHints() {
	for i := range h.told {
		h.told[i] *= hintFade
	}
}

// hear learns from an execution. chance is the probability of a change without a hint.
// A hinted change counts as far as the hint explains it.
func (h *hearing) hear(c *policy.Candidate, changed bool, chance float64) {
	if !c.Hinted {
		h.told[expected] += chance
		if changed {
			h.told[unhinted]++
		}
		return
	}
	if c.Shown == 0 || c.Shown == policy.ShownTrue {
		h.told[hinted]++
	}
	if right := h.right(); c.Shown != policy.ShownAgain && (changed || c.Shown != 0) {
		h.told[proven] += right / (1 - float64((1-right)*(1-chance)))
	}
}

// right is the probability that a hint is true. Half of the first ones are taken to be. More may prove true than still count,
// if many show late.
func (h *hearing) right() float64 { return min((h.told[proven]+1)/(h.told[hinted]+2), 0.99) }

// evidence is what a hint says for a change, as in the yardstick "signals": the negative
// logarithm of the probability that it is false. Hints that are rarely true are none.
func (h *hearing) evidence() float64 {
	if r := h.right(); r > 0.1 {
		return -math.Log1p(-r)
	}
	return 0
}

// misses is the part of the changes that no hint tells: 1 if there are no hints.
func (h *hearing) misses() float64 {
	if h.told[hinted] < 1 {
		return 1
	}
	return min(1, (h.told[unhinted]+5)/(h.told[expected]+5))
}
