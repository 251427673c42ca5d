package plan

import (
	"math"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/policy"
)

// definitions returns the policies that need no profiles.
func definitions() []policy.Definition {
	return append(policy.Definitions(), hybrid.Definition(), policy.ClairvoyantDefinition())
}

func parse(spelling string) (policy.Policy, error) { return policy.Parse(definitions(), spelling) }

// named returns the policy with a spelling and panics if there is none.
func named(spelling string) policy.Policy {
	p, err := parse(spelling)
	if err != nil {
		panic(err)
	}
	return p
}

func seconds(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }

func query(id string) registry.Query {
	return registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Holders: []registry.Holder{{Caller: registry.Anonymous}}}
}
