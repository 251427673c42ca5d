// Package literature has refresh policies that other authors propose for crawlers. They are
// baselines of simulations: each is a policy.Definition for scheduler.Register, and behaves
// as its paper says where the paper's setting has a counterpart here. The formulas were not
// compared with the full texts of the papers. Crawls have costs
// here, a slot is the unit of time, and rates are executions in each slot.
package literature

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// Definitions lists the policies.
func Definitions() []policy.Definition {
	return []policy.Definition{lambdaCrawl(), explore(), avrachenkov()}
}

// A rule gives the rate at which a query that changes at a rate is executed, at a price of
// executing it once.
type rule func(changes, price float64) float64

// harmonic minimises −Σ ln(ρ/(ρ+Δ)), the mean harmonic penalty of staleness. Every query
// that changes has a positive rate.
//
// Source: Kolobov, Peres, Lu, Horvitz, "Staying up to date with online content changes using
// reinforcement learning for scheduling", 2019, section 4.
func harmonic(changes, price float64) float64 {
	return (math.Sqrt(changes*changes+4*changes/price) - changes) / 2
}

// freshness maximises Σ ρ/(ρ+Δ), the part of the time in which results are current. What
// changes too often for its price is not executed at all.
//
// Source: Azar, Horvitz, Lubetzky, Peres, Shahaf, "Tractable near-optimal policies for
// crawling", 2018.
func freshness(changes, price float64) float64 {
	return max(0, math.Sqrt(changes/price)-changes)
}

// allocate returns the rates of all queries, at most one each, that take the budget.
func allocate(r rule, changes, costs []float64, budget float64) []float64 {
	rates := make([]float64, len(changes))
	spend := func(price float64) (sum float64) {
		for i, x := range changes {
			rates[i] = min(1, r(x, price*costs[i]))
			sum += rates[i] * costs[i]
		}
		return sum
	}
	low, high := 1e-12, 1e12
	for range 48 {
		if mid := math.Sqrt(low * high); spend(mid) > budget {
			low = mid
		} else {
			high = mid
		}
	}
	spend(high)
	return rates
}

// crawl orders queries by how many of their executions are due.
func crawl(r rule, m policy.Moment, all []*policy.Candidate, rate func(*policy.Candidate) float64) policy.Ranking {
	changes, costs := make([]float64, len(all)), make([]float64, len(all))
	for i, c := range all {
		changes[i], costs[i] = rate(c), max(c.Estimate.Seconds(), 1e-4)
	}
	keys := make([]policy.Key, len(all))
	for i, rate := range allocate(r, changes, costs, m.Budget.Seconds()) {
		keys[i].Value = -rate * float64(m.Slot-min(m.Slot, all[i].Stats.Last))
	}
	return policy.Ranking{Keys: keys}
}

// A learner is a policy that estimates how often each query changes. Its state begins with
// the estimate.
type learner struct {
	name    string
	rule    rule
	learn   func(state []float64, slot uint64, gap float64, changed bool) []float64
	explore uint64 // slots in which all queries take turns
}

const (
	// least is the rate of a query about which nothing is known.
	least = 1.0 / 4096
	// lowest is the lowest estimate of a query that was executed. Estimates of 0, which those without
	// a change have, would leave the rates undetermined. It is so low that such queries take nothing
	// from those that change.
	lowest = 1e-6
)

func (l learner) String() string { return l.name }

func (l learner) Fold(state []float64, last uint64, x policy.Sample) []float64 {
	return l.learn(append([]float64(nil), state...), x.Slot, float64(x.Slot-min(x.Slot, last)), x.Changed)
}

func (learner) Key(c *policy.Candidate) policy.Key { return policy.Key{Value: float64(c.Stats.Last)} }

func (l learner) Rank(m policy.Moment, all []*policy.Candidate) policy.Ranking {
	if m.Slot > l.explore {
		return crawl(l.rule, m, all, estimate)
	}
	keys := make([]policy.Key, len(all))
	for i, c := range all {
		keys[i] = l.Key(c)
	}
	return policy.Ranking{Keys: keys}
}

func (learner) Inputs(_ policy.Moment, _ policy.Ranking, c *policy.Candidate) map[string]float64 {
	return map[string]float64{"last": float64(c.Stats.Last), "changes_per_slot": estimate(c)}
}

func estimate(c *policy.Candidate) float64 {
	if len(c.Stats.State) == 0 {
		return least
	}
	return max(lowest, c.Stats.State[0])
}
