package scheduler

import (
	"fmt"
	"slices"
	"sync"

	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/policy"
)

// others are the policies of other packages.
var others struct {
	sync.Mutex
	list []policy.Definition
}

// Register adds a policy to the table, after those that are built in. It is to be
// called before the first endpoint begins, and panics when the name is taken or
// the definition cannot build its own default.
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

// Policies is the table of all policies, in the order in which they are shown.
func Policies() []policy.Definition {
	others.Lock()
	defer others.Unlock()
	table := append(policy.Definitions(), hybrid.Definition(), policy.ClairvoyantDefinition())
	return append(append(table, claimingDefinitions()...), others.list...)
}

// ParsePolicy reads a spelling such as "rr" or "ttl:max=32:reset". A parameter
// that is left out has its default.
func ParsePolicy(spelling string) (policy.Policy, error) { return policy.Parse(Policies(), spelling) }
