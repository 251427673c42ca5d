package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/hybrid"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// What policies are made of, and what they know.
type (
	Policy     = policy.Policy
	Ranker     = policy.Ranker
	Collective = policy.Collective
	Candidate  = policy.Candidate
	Definition = policy.Definition
	Key        = policy.Key
	Lesson     = policy.Lesson
	Moment     = policy.Moment
	Oracle     = policy.Oracle
	Param      = policy.Param
	Ranking    = policy.Ranking
	Run        = policy.Run
	Sample     = policy.Sample
	Stats      = policy.Stats
	Taught     = policy.Taught
	Entry      = policy.Entry
	Attempt    = policy.Attempt
)

// Ring is how many complete executions Stats.Samples remembers.
const Ring = policy.Ring

// The effect of a hint, and the simulator.
type (
	Hinted       = plan.Hinted
	Replay       = plan.Replay
	ReplayConfig = plan.ReplayConfig
	World        = plan.World
	Known        = plan.Known
	Played       = plan.Played
)

// NewReplay starts a replay at t0; see plan.NewReplay.
func NewReplay(c ReplayConfig) (*Replay, error) { return plan.NewReplay(c) }

// Rules lists the budget rules: all that a replay knows.
func Rules() []string { return plan.Rules() }

// The budget rules. Endpoints may have strict and debt, replays all three.
const (
	RuleStrict  = plan.RuleStrict
	RuleDebt    = plan.RuleDebt
	RuleOverrun = plan.RuleOverrun
)

// The tiers of a slot, in the order in which they are planned.
const (
	TierRefresh  = plan.TierRefresh
	TierNew      = plan.TierNew
	TierHinted   = plan.TierHinted
	TierInterval = plan.TierInterval
	TierRanked   = plan.TierRanked
)

// ErrPolicy is wrapped by the errors about policy spellings.
var ErrPolicy = policy.ErrPolicy

// Clairvoyant is the policy "cv" with its oracle.
func Clairvoyant(o Oracle) Policy { return policy.Clairvoyant(o) }

// others are the policies of other packages.
var others struct {
	sync.Mutex
	list []Definition
}

// Register adds a policy to the table, after those that are built in. It is to be
// called before the first endpoint begins, and panics when the name is taken or
// the definition cannot build its own default.
func Register(d Definition) {
	if slices.ContainsFunc(Policies(), func(x Definition) bool { return x.Name == d.Name }) {
		panic(fmt.Sprintf("scheduler: policy %s is registered twice", d.Name))
	}
	if _, err := policy.Parse([]Definition{d}, d.Spelling()); err != nil {
		panic(fmt.Sprintf("scheduler: register a policy: %v", err))
	}
	others.Lock()
	defer others.Unlock()
	others.list = append(others.list, d)
}

// Policies is the table of all policies, in the order in which they are shown.
func Policies() []Definition {
	others.Lock()
	defer others.Unlock()
	table := append(policy.Definitions(), hybrid.Definition(), policy.ClairvoyantDefinition())
	return append(append(table, claimingDefinitions()...), others.list...)
}

// ParsePolicy reads a spelling such as "rr" or "ttl:max=32:reset". A parameter
// that is left out has its default.
func ParsePolicy(spelling string) (Policy, error) { return policy.Parse(Policies(), spelling) }

// StateOf says what a query's result is worth at the moment now.
func StateOf(q *registry.Query, s *Stats, now time.Time) registry.State {
	return policy.StateOf(q, s, now)
}
