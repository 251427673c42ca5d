package policy_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// The page web/docs/policies.md shows the code between the two marks.

// begin example
// perSecond is the number of changes that a query is known to have had for
// each second that it has cost: queries that repay their time come first.
// The state is the changes and the seconds so far, fading with age.
type perSecond struct{ fade float64 }

func perSecondDefinition() policy.Definition {
	return policy.Definition{
		Name:   "persecond",
		Params: []policy.Param{{Name: "fade", Default: "0.99", Doc: "what is left of an observation after each execution"}},
		Doc:    "changes found for each second spent, the most first",
		Source: "the page on writing a policy",
		Build: func(a policy.Args) (policy.Policy, error) {
			f, err := a.Number("fade")
			return perSecond{f}, err
		},
	}
}

func (p perSecond) String() string { return "persecond:fade=" + policy.FormatNumber(p.fade) }

// Fold adds an execution to the sums.
func (p perSecond) Fold(state []float64, last uint64, x policy.Sample) []float64 {
	changes, seconds := p.sums(state)
	if x.Changed {
		changes++
	}
	return []float64{changes * p.fade, (seconds + x.Elapsed.Seconds()) * p.fade}
}

func (perSecond) sums(state []float64) (changes, seconds float64) {
	if len(state) != 2 { // no execution but the baseline
		return 0, 0
	}
	return state[0], state[1]
}

// Key puts queries without any change into a class behind the others, the one
// executed longest ago first. They take turns in what the others leave of the budget,
// which may be nothing.
func (p perSecond) Key(c *policy.Candidate) policy.Key {
	changes, seconds := p.sums(c.Stats.State)
	if changes == 0 {
		return policy.Key{Class: 1, Value: float64(c.Stats.Last)}
	}
	return policy.Key{Value: -changes / max(seconds, 1e-6)} // ascending, so the most first
}

// Inputs are what "freshet query show --explain" displays.
func (p perSecond) Inputs(_ policy.Moment, _ policy.Ranking, c *policy.Candidate) map[string]float64 {
	changes, seconds := p.sums(c.Stats.State)
	return map[string]float64{"changes": changes, "seconds": seconds, "last": float64(c.Stats.Last)}
}

// end example

// The documented policy orders as its comments say.
func TestDocumentedPolicy(t *testing.T) {
	p, err := perSecondDefinition().Build(policy.Args{"fade": "0.5"})
	if err != nil || p.String() != "persecond:fade=0.5" {
		t.Fatalf("%v, %v", p, err)
	}
	candidate := func(last uint64, samples ...policy.Sample) *policy.Candidate {
		c := &policy.Candidate{}
		c.Stats.Last = last
		for _, x := range samples {
			c.Stats.State = p.Fold(c.Stats.State, last, x)
		}
		return c
	}
	cheap := p.Key(candidate(9, policy.Sample{Elapsed: time.Second, Changed: true})) // 1 change in 1 s
	dear := p.Key(candidate(9, policy.Sample{Elapsed: 4 * time.Second, Changed: true}))
	old, new := p.Key(candidate(3, policy.Sample{Elapsed: time.Second})), p.Key(candidate(5))
	if cheap != (policy.Key{Value: -1}) || dear != (policy.Key{Value: -0.25}) || old != (policy.Key{Class: 1, Value: 3}) ||
		new != (policy.Key{Class: 1, Value: 5}) {
		t.Errorf("cheap %v, dear %v, old %v, new %v", cheap, dear, old, new)
	}
}
