package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// An Update is what has changed in the registrations of an endpoint.
type Update struct {
	// Keep, unless it is nil, holds the ids of all queries: others are removed.
	Keep    map[string]bool
	Removed []string
	Entries []policy.Entry // added and edited queries with their recorded statistics
	// Edited is when the settings that executions depend on were last edited, zero
	// for never. Back-offs of executions before that end.
	Edited time.Time

	Reprofiled bool // Profiles and Models replace those before
	Profiles   []rounds.ProfileState
	Models     []rounds.Model
}

// Merge brings the plan up to date with the registrations. No slot may be running.
func (p *Planner) Merge(now time.Time, u Update) {
	p.now = now.Round(0)
	if u.Keep != nil {
		p.keep(u.Keep)
	}
	for i, id := range u.Removed {
		p.pause(i)
		p.drop(id)
	}
	if u.Edited.After(p.edited) {
		p.edited = u.Edited
		p.forgive(p.edited)
	}
	for i, e := range u.Entries {
		p.pause(i)
		s := e.Stats.Clone()
		s.Forgive(p.edited)
		p.put(e.Query, s)
	}
	if u.Reprofiled {
		p.rounds.Load(u.Profiles, u.Models, p.slot)
	}
}

// Resume continues after a restart: with the next slot, the debt, and what the
// policy of that spelling had learnt of the endpoint.
func (p *Planner) Resume(slot uint64, debt time.Duration, spelling string, shared []float64) {
	p.slot, p.debt = slot, debt
	if _, ok := p.policy.(policy.Collective); ok && spelling == p.policy.String() {
		p.shared, p.ordered = slices.Clone(shared), false
	}
}

// Committed sets the positions of queries whose changes have been committed.
func (p *Planner) Committed(changes []registry.Change) {
	for _, ch := range changes {
		if c := p.all[ch.Query]; c != nil {
			c.Stats.Position = ch.Position()
		}
	}
}

// Slot is the number of the slot that runs or comes next.
func (p *Planner) Slot() uint64 { return p.slot }

// Debt is what later slots have to repay.
func (p *Planner) Debt() time.Duration { return p.debt }

// Unowed is what is left of the next slot's budget when it has repaid its part of
// the debt.
func (p *Planner) Unowed() time.Duration { return p.budget - repayment(p.debt, p.budget) }

// Rounds follows the rounds of profiles.
func (p *Planner) Rounds() *rounds.Tracker { return p.rounds }

// A Census counts the queries of a plan.
type Census struct {
	Queries int
	States  map[registry.State]int
	Results int       // queries that have a result
	Oldest  time.Time // to the second, when the oldest result was last known to be true
}

// Census counts the queries. Its cost does not grow with their number.
func (p *Planner) Census() Census {
	return Census{Queries: len(p.all), States: p.tally.all(), Results: p.tally.results, Oldest: p.oldest.at()}
}

// Count is how many queries are in a state.
func (p *Planner) Count(s registry.State) int { return p.tally.of(s) }
