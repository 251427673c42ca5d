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
	// Keep contains the ids of all queries; others are removed. nil keeps all.
	Keep    map[string]bool
	Removed []string
	Entries []policy.Entry // added and edited queries with their recorded statistics
	// Edited is when the settings that affect executions were last edited, zero for
	// never. It ends back-offs from earlier executions.
	Edited time.Time

	Reprofiled bool // Profiles and Models replace the previous ones
	Profiles   []rounds.ProfileState
	Models     []rounds.Model
}

// Update brings the plan up to date with the registrations. No slot may be running.
func (p *Planner) Update(now time.Time, u Update) {
	p.now = now.Round(0)
	if u.Keep != nil {
		p.keep(u.Keep)
	}
	for _, id := range u.Removed {
		p.drop(id)
	}
	unedited := func(s *policy.Stats) bool { return !s.LastRun.At.After(p.edited) }
	if u.Edited.After(p.edited) {
		p.edited = u.Edited
		forgive(p, unedited)
	}
	for _, e := range u.Entries {
		s := e.Stats.Clone()
		if unedited(&s) {
			s.Forgive()
		}
		p.put(e.Query, s)
	}
	if u.Reprofiled {
		p.rounds.Load(u.Profiles, u.Models, p.slot)
	}
}

// Resume continues after a restart with the next slot, the debt, and the state for the
// endpoint that the policy with this spelling had learnt.
func (p *Planner) Resume(slot uint64, debt time.Duration, spelling string, shared []float64) {
	p.slot, p.debt = slot, debt
	if _, ok := p.policy.(policy.Collective); ok && spelling == p.policy.String() {
		p.shared, p.ordered = slices.Clone(shared), false
	}
}

// Committed sets the positions of queries whose changes were committed.
func (p *Planner) Committed(changes []registry.Change) {
	for _, ch := range changes {
		if c := p.all[ch.Query]; c != nil {
			c.Stats.Position = ch.Position()
		}
	}
}

// put adds or replaces a query. The planner keeps the statistics.
func (p *Planner) put(q registry.Query, s policy.Stats) {
	q.Normal, q.Warnings = "", nil // long, and not used here
	c := p.all[q.ID]
	if c == nil {
		c = p.add(q.ID)
	} else if s.Position.Epoch == c.Stats.Position.Epoch && s.Executions == c.Stats.Executions {
		s.Policy, s.State = c.Stats.Policy, c.Stats.State // the policy may have learnt since they were recorded
	}
	p.lift(c)
	// Its constants and patterns may change.
	p.index.replace(c, func() { p.pattern.replace(c, func() { c.ask(q) }) })
	p.learn(c, &s)
	p.settle(c)
	p.count(c)
}

// add makes an empty item.
func (p *Planner) add(id string) *item {
	c := &item{planned: true, Candidate: policy.Candidate{Number: int32(len(p.order)), Prefix: prefix(id)}}
	p.all[id] = c
	p.order = append(p.order, c)
	p.strangers = append(p.strangers, c)
	return c
}

// prefix orders ids by their first eight bytes, which nearly always differ.
func prefix(id string) (x uint64) {
	for i := range 8 {
		x <<= 8
		if i < len(id) {
			x |= uint64(id[i])
		}
	}
	return x
}

// drop forgets a query.
func (p *Planner) drop(id string) {
	if c := p.all[id]; c != nil {
		p.lift(c)
		p.forget(c)
		p.hints.drop(c)
		p.tally.move(c, tallied{})
		p.oldest.drop(c)
		delete(p.all, id)
		last := p.order[len(p.order)-1]
		p.index.leave(c, last)
		p.pattern.leave(c, last)
		c.planned = false
		p.leaveCohort(c)
		p.forgetStranger(c)
		p.order[c.Number], last.Number = last, c.Number
		p.order = slices.Delete(p.order, len(p.order)-1, len(p.order))
	}
}

// keep drops all queries that are not in held.
func (p *Planner) keep(held map[string]bool) {
	for i := len(p.order) - 1; i >= 0; i-- { // drop moves the last query into the gap
		if id := p.order[i].Query.ID; !held[id] {
			p.drop(id)
		}
	}
}

// Recovered ends the back-offs of queries that have failed since the endpoint failed, and not because it refused them; of all that
// failed if it is not known since when. Queries that failed before, too, may do so by themselves. No slot may be running.
func (p *Planner) Recovered(since time.Time) {
	forgive(p, func(s *policy.Stats) bool {
		return s.Failures > 0 && s.Cuts+s.Outdated == 0 && s.LastRun.Outcome != registry.Rejected && !s.IncompleteSince.Before(since)
	})
}

// forgive ends the back-offs of some queries.
func forgive(p *Planner, some func(*policy.Stats) bool) {
	for _, c := range p.order {
		if s := c.Stats; s.NotBefore > p.slot && some(&s) {
			s.Forgive()
			p.lift(c)
			p.learn(c, &s)
			p.settle(c)
			p.count(c)
		}
	}
}

// SetPolicy sets a policy, a rule and a budget, and places all queries again. A debt
// remains.
func (p *Planner) SetPolicy(next policy.Policy, r Rule, budget time.Duration) {
	p.scatter()
	if next.String() != p.policy.String() {
		p.shared, p.ranking = nil, policy.Ranking{}
	}
	p.policy, p.name = next, next.String()
	p.SetBudget(r, budget)
	for _, c := range p.order {
		s := c.Stats
		p.learn(c, &s)
		p.settle(c)
	}
}

// scatter lifts all queries.
func (p *Planner) scatter() {
	p.asked, p.fresh, p.ranked, p.memory, p.roster, p.summed = order{}, order{}, order{}, nil, roster{}, -1
	p.slots, p.times = waiting()
	for _, c := range p.order {
		c.in, c.place, c.slot, c.waits = nil, 0, placed{}, placed{}
		p.noteProved(c, false)
	}
}
