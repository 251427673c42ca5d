package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// others holds the policies registered by other packages.
var others struct {
	sync.Mutex
	list []policy.Definition
}

// Register adds a policy to the table, after the built-in ones. Call it before the
// first endpoint starts. It panics if the name is taken or the definition cannot
// build its own default.
func Register(d policy.Definition) {
	if slices.ContainsFunc(Policies(), func(x policy.Definition) bool { return x.Name == d.Name }) {
		panic(fmt.Sprintf("scheduler: policy %s is registered twice", d.Name))
	}
	if _, err := policy.Parse([]policy.Definition{d}, d.Spelling()); err != nil {
		panic(fmt.Sprintf("scheduler: register a policy: %v", err))
	}
	others.Lock()
	defer others.Unlock()
	others.list = append(others.list, d)
}

// Policies returns all policies in the order in which pages list them.
func Policies() []policy.Definition {
	others.Lock()
	defer others.Unlock()
	table := append(append(policy.Definitions(), hybrid.Definition()), policy.Yardsticks()...)
	return append(append(table, claimingDefinitions()...), others.list...)
}

// ParsePolicy parses a spelling such as "rr" or "ttl:max=32:reset". Omitted
// parameters have their defaults. The error wraps policy.ErrPolicy.
func ParsePolicy(spelling string) (policy.Policy, error) { return policy.Parse(Policies(), spelling) }

// claiming is a policy that serves the intervals of profiles first: sedf, mrsf or
// medf. In a Loop the intervals claim executions and the endpoint's fallback policy
// orders the rest. Elsewhere, without profiles, it orders like hybrid.
type claiming struct {
	hybrid.Policy
	ranking interval.Ranking
}

func (p claiming) String() string { return p.ranking.String() }

func claimingDefinition(kind interval.Kind, doc string) policy.Definition {
	return policy.Definition{
		Name: string(kind),
		Params: []policy.Param{{Name: "mode", Default: "p", Values: []string{"p", "np"},
			Doc: "p: the best interval comes first; np: intervals of what has been captured in part come before all others"}},
		Doc:    doc + "; then the second policy",
		Source: "Roitman, Gal, Raschid, Query scheduling in the presence of complex user profiles, section 3.1",
		Build: func(a policy.Args) (policy.Policy, error) {
			return claiming{hybrid.Default(), interval.Ranking{Kind: kind, Preemptive: a["mode"] == "p"}}, nil
		},
	}
}

func claimingDefinitions() []policy.Definition {
	return []policy.Definition{
		claimingDefinition(interval.SEDF, "profiles, the interval that ends first"),
		claimingDefinition(interval.MRSF, "profiles, the round that lacks least"),
		claimingDefinition(interval.MEDF, "profiles, the round that has least time left in all"),
	}
}

// MindsIntervals reports whether a policy serves the intervals of profiles.
func MindsIntervals(policy string) bool {
	p, err := ParsePolicy(policy)
	_, minds := p.(claiming)
	return err == nil && minds
}

// live parses a policy for a live endpoint. It refuses those of simulations.
func live(spelling string) (policy.Policy, error) {
	table := Policies()
	p, err := policy.Parse(table, spelling)
	name, _, _ := strings.Cut(spelling, ":")
	if err == nil && slices.ContainsFunc(table, func(d policy.Definition) bool { return d.Name == name && d.Simulated }) {
		return nil, fmt.Errorf("%w %q: it has to know which results have changed before asking, so it runs in the simulator alone",
			policy.ErrPolicy, spelling)
	}
	return p, err
}

// second parses a fallback policy: one for executions that no interval claims.
func second(spelling string) (policy.Policy, error) {
	p, err := live(spelling)
	if _, claims := p.(claiming); claims {
		return nil, fmt.Errorf("%w %q: it is for what no interval claims, so it cannot be one that looks at intervals",
			policy.ErrPolicy, spelling)
	}
	return p, err
}
