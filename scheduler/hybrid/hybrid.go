package hybrid

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/scheduler/policy"
)

// Policy is hybrid. It spends the budget where an execution most likely finds a
// change per second, and gives every query a deadline, so that none starves.
//
// Each query changes at one of 17 rates, 2^−14 … 2^2 per live slot; its state holds
// the likelihood of each (rates.go). Time is counted in live slots: a slot in which
// nothing changes that usually does counts as empty and adds almost no time, once
// the policy has learnt that queries change together (state.go). The rates
// determine what an execution is worth now, per second (worth.go). The guard
// reserves the part of the budget that the deadlines need for the queries with the
// nearest deadlines (guard.go). A slot begins with the queries that show whether
// anything has changed at all. If nothing seems to have changed, the rest of the
// slot goes to the queries that have waited longest (table.go). The estimates are
// updated when a slot ends (absorb.go).
//
// A slot scans a table of all queries (table.go) and sorts only those that the
// budget may reach.
//
// Source: our own work. The index is that of a restless bandit, P. Whittle,
// "Restless bandits: activity allocation in a changing world", 1988, for a source
// that changes at random and is observed only when queried. The guard is earliest
// deadline first, C. L. Liu, J. W. Layland, "Scheduling algorithms for
// multiprogramming in a hard-real-time environment", 1973.
type Policy struct {
	d, h uint64 // deadline in slots, and its factor for expensive queries; 0 = chosen by the budget
	form form
}

// A form is a variant of hybrid without one of its parts, to measure the effect of
// that part.
type form string

const (
	full      form = "full"
	noClock   form = "no-clock"  // all slots count as live
	noTurn    form = "no-turn"   // results found in a slot do not change the rest of it
	noHazard  form = "no-hazard" // a recent change does not make another one more likely
	noRelated form = "no-kin"    // changes say nothing about queries with the same constants
	noGuard   form = "no-guard"  // no deadlines
	myopic    form = "myopic"    // worth is the probability of a change alone
)

// Definition describes the policy.
func Definition() policy.Definition {
	return policy.Definition{
		Name: "hybrid",
		Params: []policy.Param{
			{Name: "d", Default: "auto", Optional: true, Doc: "deadline in slots; auto: 32 where the budget is roomy, else 256"},
			{Name: "h", Default: "auto", Optional: true, Doc: "how many times as long dear queries may wait; auto: 8 where the budget is roomy, else 4"},
			{Name: "form", Default: string(full), Optional: true, Values: []string{string(full), string(noClock), string(noTurn), string(noHazard), string(noRelated), string(noGuard), string(myopic)},
				Doc: "full, or with one part left out to see what it is good for"},
		},
		Doc:    "worth of an execution per second from learnt change rates, with a deadline for every query",
		Source: "ours: a Whittle index guarded by earliest deadline first",
		Build:  build,
	}
}

// Default is hybrid with its defaults.
func Default() Policy { return Policy{form: full} }

func build(a policy.Args) (policy.Policy, error) {
	p := Policy{form: form(a["form"])}
	for _, x := range []struct {
		name string
		to   *uint64
		most uint64
	}{{"d", &p.d, 1 << 20}, {"h", &p.h, 1 << 10}} {
		if a[x.name] == "auto" {
			continue
		}
		n, err := a.Count(x.name)
		if err != nil || n > x.most {
			return nil, fmt.Errorf("%s=%s is neither auto nor a whole number from 1 to %d", x.name, a[x.name], x.most)
		}
		*x.to = n
	}
	return p, nil
}

func (p Policy) String() string {
	words := []string{"hybrid"}
	if p.d > 0 {
		words = append(words, "d="+strconv.FormatUint(p.d, 10))
	}
	if p.h > 0 {
		words = append(words, "h="+strconv.FormatUint(p.h, 10))
	}
	if p.form != full {
		words = append(words, string(p.form))
	}
	return strings.Join(words, ":")
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
	if len(state) == estimateSize && state[rates+3] == noSample {
		next := slices.Clone(state)
		next[rates+3], next[rates+4] = float64(found), float64(last)
		return next
	}
	b := readEstimate(state)
	if b.isPending() {
		b.learn(last, float64(last-b.from), 1, b.sample == foundChange)
	}
	b.sample, b.from = found, last
	return b.state()
}

// Key is replaced by the keys of each plan.
func (Policy) Key(c *policy.Candidate) policy.Key {
	return policy.Key{Class: classIndex, Value: float64(c.Stats.Last)}
}

func (Policy) Inputs(c *policy.Candidate) map[string]float64 {
	b := readEstimate(c.Stats.State)
	return map[string]float64{
		"last": float64(c.Stats.Last), "rate_per_slot": b.mean, "excitation": b.x, "last_change": float64(b.changed),
	}
}
