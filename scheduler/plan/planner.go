package plan

import (
	"time"

	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// A Planner holds an endpoint's queries. Eligible queries are in order; the others
// wait for the slot or the time that makes them eligible. It has layers: a ranker, which
// has queues, which have a catalog of all queries. Each layer uses only those below it.
type Planner struct {
	ranker

	edited time.Time // Update.Edited

	hints      *hints // nil until the first one comes
	offGridAll bool   // a hint is about all queries, and executions outside the grid follow it

	rounds *rounds.Tracker
	claims claims

	cohorts   map[string]*cohortOf
	strangers []*item // whose membership is unknown, and removed ones
	gone      int     // how many of strangers were removed
	checks    []*item // to be asked again because of a merged answer
	// recalled holds what was learnt about cohorts that have no members, by key.
	recalled map[string]cohort.State
	unsaved  []*cohortOf // those that have learnt since their states were saved
	presses  bool        // their states have to be saved with the next commit

	heads []*item // first queries of the order, which must run eventually
	owed  []*item // heads that earlier slots passed over
	led   bool    // the last slot began with an owed query

	servedNew bool // a new query has started in this slot
	servedOld bool // a refresh request has
}

// New returns an empty planner under the rule strict.
func New(p policy.Policy, budget time.Duration) *Planner {
	x := &Planner{}
	x.catalog = catalog{all: map[string]*item{}, index: newConstantIndex(), pattern: newPatternIndex()}
	x.slots, x.times = waiting()
	x.oldest = numbered{by: func(c *item) *placed { return &c.checked }}
	x.policy, x.name, x.slot = p, p.String(), 1
	x.SetBudget(RuleStrict, budget)
	x.rounds = rounds.New(func(query string) *policy.Stats {
		if c := x.all[query]; c != nil {
			return &c.Stats
		}
		return nil
	})
	x.claims.ranker, x.claims.rounds = &x.ranker, x.rounds
	return x
}

// pick removes a query that starts from the order.
func (p *Planner) pick(c *item) {
	p.servedNew = p.servedNew || c.in == &p.fresh
	p.servedOld = p.servedOld || c.in == &p.asked
	if !c.ran { // else a merged answer has said nothing about it in this slot
		p.ran = append(p.ran, c)
	}
	c.ran, c.short = true, false
	p.lift(c)
	p.hints.drop(c)
	if c.member != nil {
		c.member.asked = true
	}
}

// opener returns the query with which the slot begins before all tiers: one that was
// first in its order in an earlier slot but did not fit what refresh requests and new
// queries left. At most every other slot begins like that, so neither side can starve
// the other.
func (p *Planner) opener() *item {
	if p.led {
		p.led = false
		return nil
	}
	for len(p.owed) > 0 {
		c := p.owed[0]
		p.owed = p.owed[1:]
		if c.in == &p.ranked {
			p.led = true
			return c
		}
	}
	return nil
}

// Rounds tracks the rounds of profiles.
func (p *Planner) Rounds() *rounds.Tracker { return p.rounds }

// SetClaims sets how intervals are ranked, nil for not at all, and their share of the
// budget.
func (p *Planner) SetClaims(ranking *interval.Ranking, share float64) {
	p.claims.ranking, p.claims.share = ranking, share
}
