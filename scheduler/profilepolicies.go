package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// claiming is a policy that hurries for the intervals of profiles: sedf, mrsf
// and medf. Where there are profiles, in the Loop, the intervals choose among the
// queries that they want, see claims, and the endpoint's second policy orders
// everything; without any it orders as its default, hybrid, does.
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

// MindsIntervals says whether a policy looks at the intervals of profiles.
func MindsIntervals(policy string) bool {
	p, err := ParsePolicy(policy)
	_, minds := p.(claiming)
	return err == nil && minds
}

// second reads the policy for what no interval claims.
func second(spelling string) (policy.Policy, error) {
	p, err := live(spelling)
	if _, claims := p.(claiming); claims {
		return nil, fmt.Errorf("%w %q: it is for what no interval claims, so it cannot be one that looks at intervals", policy.ErrPolicy, spelling)
	}
	return p, err
}

var errShare = errors.New("it is a part of the budget, more than 0 and at most 1")

// Gap is the usual distance between two slots of an endpoint, 0 when it has no
// grid or that is unknown.
func Gap(e registry.Endpoint) time.Duration {
	s, err := ParseSlot(e.WithDefaults().Slot)
	if err != nil {
		return 0
	}
	return period(s)
}
