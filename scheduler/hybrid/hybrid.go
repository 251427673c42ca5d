package hybrid

import (
	"cmp"
	"fmt"

	"github.com/freshet/freshet/scheduler/policy"
)

// Policy is hybrid. It spends the budget where an execution most likely finds a
// change per second, and prefers queries the more the longer they have waited.
//
// Each query changes at one of 17 rates, 2^−14 … 2^2 per live slot; its state holds
// the likelihood of each (rates.go). Time is counted in live slots: a slot in which
// nothing changes that usually does counts as empty and adds almost no time, once
// the policy has learnt that queries change together (state.go). The rates
// determine what an execution is worth now, per second (worth.go).
//
// A hint that a query may have changed is evidence: as much as hints have been true of the queries that ran lately,
// and as far as changes come with hints, the others are less likely to have changed (hints.go).
//
// What an import says about a query's executions elsewhere counts as if they had been here
// (rates.go).
//
// Queries that change often take longer than most, because they read much. So those
// that take more than four times the mean run soon after their registration, and the
// others when nothing known to change is worth more, or when they have waited. One early
// execution without a change proves little. So as long as none has found one, what the next may
// teach counts, too: the probability that it shows that the query changes often, times the
// changes that knowing so would find beyond those that the budget finds elsewhere, in as many
// slots as the query has waited, at most 100.
//
// Waiting has a price (wait.go). A query that has waited for a fraction x of the
// wait is worth ν·x⁴ more per second, where ν is what the last second of the slot's
// budget is worth without it. So a query about which nothing is known runs when it has
// waited for about the wait, and earlier in a slot in which a second is worth less. The
// wait is d, 265 live slots unless stated; the max_staleness of a query's holders
// replaces it, and counts all slots. The wait is shorter as far as that costs at most 0.2 % of the changes that the slot is
// expected to find, and longer as far as d needs more than a third of the budget.
//
// The wait is a target, not a bound. A query is late after 1.1·d slots, live or not, or
// 1.1 times the wait if that is longer; from then on waiting is worth ν·x⁴ or μ·x², whichever is
// more, where μ is the mean worth of a second of the budget, and twice as much for each 6 % that the
// query waits longer. A query
// that takes a large part of the budget may be later still: it starts only if those
// that are worth more leave room for it, or if it is first. A max_staleness is also a
// deadline: the queries with the nearest deadlines go first, up to the cost that all
// deadlines need from the slot. If they leave no room for a late query, one late
// query goes before them. A query that usually is short, but was cut after most of a budget, is
// taken to need as much again. One such query goes before all as soon as its usual time would
// bring it into the slot.
//
// A slot begins with the queries that show whether anything has changed at all. They take
// half of the budget at most, and leave room for a query that needs more than half, is late and
// is worth more than the others. If it exceeds the budget, or was cut, it waits up to eight times
// as long for that, because it is likely to be cut again. If
// nothing seems to have changed, worth falls and the rest of the slot goes to the
// queries that have waited longest (rank.go). The estimates are updated when a
// slot ends (absorb.go).
//
// Source: our own work. Both terms are indexes of restless bandits, P. Whittle,
// "Restless bandits: activity allocation in a changing world", 1988: worth is that
// of a source that changes at random and is observed only when queried, and x⁴ is
// that of a cost which grows with the third power of the age of the last observation,
// V. Tripathi, E. Modiano, "A Whittle index approach to minimizing functions of age of
// information", 2019. ν is the
// multiplier of the budget in the same relaxation. What an execution may teach is valued as by
// P. Frazier, W. Powell, S. Dayanik, "A knowledge-gradient policy for sequential information
// collection", 2008. Deadlines are met by earliest
// deadline first, C. L. Liu, J. W. Layland, "Scheduling algorithms for
// multiprogramming in a hard-real-time environment", 1973.
type Policy struct {
	d uint64 // live slots that a query should wait at most, 0 = the default
}

// Definition describes the policy.
func Definition() policy.Definition {
	return policy.Definition{
		Name: "hybrid",
		Params: []policy.Param{
			{Name: "d", Default: "auto", Optional: true, Doc: "live slots that a query should wait at most, a target, unless a " +
				"holder states max_staleness; auto: 265"},
		},
		Doc:    "worth of an execution per second from learnt change rates, and a price for waiting",
		Source: "ours: a Whittle index with a price for waiting",
		Build:  build,
	}
}

// Default is hybrid with its defaults.
func Default() Policy { return Policy{} }

func build(a policy.Args) (policy.Policy, error) {
	if a["d"] == "auto" {
		return Policy{}, nil
	}
	n, err := a.Count("d")
	if err != nil || n > 1<<20 {
		return nil, fmt.Errorf("d=%s is neither auto nor a whole number from 1 to %d", a["d"], 1<<20)
	}
	return Policy{d: n}, nil
}

// wait is d in live slots.
func (p Policy) wait() uint64 { return cmp.Or(p.d, defaultWait) }

func (p Policy) String() string {
	if p.d == 0 {
		return "hybrid"
	}
	return fmt.Sprintf("hybrid:d=%d", p.d)
}

// Fold stores an execution as a pending sample. Absorb applies it at the end of the
// slot, because what it teaches depends on the slot's other executions. A sample
// that is still pending at the next execution was never absorbed; Fold then applies
// it as if every slot had been live.
func (p Policy) Fold(state []float64, last uint64, x policy.Sample) []float64 {
	found := foundNone
	if x.Changed {
		found = foundChange
	}
	b := readEstimate(state)
	if b.isPending() && last > b.from { // else it was in the same slot, as after a hint
		b.learn(last, float64(last-b.from), 1, b.sample == foundChange)
	}
	b.sample, b.from = found, last
	return b.state()
}

// RanksAll says that hybrid leaves no query out of a slot.
func (Policy) RanksAll() {}

// Classes of hybrid's keys.
const (
	classProbe = iota
	classDue
	classIndex
)

// Key is replaced by the keys of each plan.
func (Policy) Key(c *policy.Candidate) policy.Key {
	return policy.Key{Class: classIndex, Value: float64(c.Stats.Last)}
}
