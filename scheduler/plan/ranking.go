package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// A ranker asks the policy for the order of a slot, and lets it learn from the slot.
type ranker struct {
	queues
	begun    time.Time           // when the slot began
	ran      []*item             // queries that have started in the slot
	shared   []float64           // the policy's state for the endpoint
	ranking  policy.Ranking      // of the slot
	evidence float64             // of the executions of the slot
	turned   bool                // the slot was ranked again because of it
	memory   any                 // policy.Moment.Memory
	taught   []*policy.Candidate // given a new state in the last slot without having run
}

// A roster lists the ranked queries of a Ranker, those that it leaves out included.
type roster struct {
	all   []*policy.Candidate
	seats []entry // of the same queries, with their latest keys
	moved []int   // places that have another query, or one that has changed
	room  []entry // for the entries of the order
}

func (r *roster) add(c *item) {
	r.moved = append(r.moved, len(r.all))
	r.all, r.seats = append(r.all, &c.Candidate), append(r.seats, entryOf(c))
	c.place = int32(len(r.all))
}

// touch notes that a query has changed.
func (r *roster) touch(c *item) {
	if c.place > 0 {
		r.moved = append(r.moved, int(c.place)-1)
	}
}

// drop removes a query. The last one takes its place.
func (r *roster) drop(c *item) {
	i, last := int(c.place)-1, len(r.all)-1
	r.all[i], r.seats[i] = r.all[last], r.seats[last]
	r.seats[i].c.place = c.place
	c.place = 0
	r.all, r.seats, r.moved = r.all[:last], r.seats[:last], append(r.moved, i)
}

// entryOf is an item with its latest key.
func (r *roster) entryOf(c *item) entry {
	if c.place > 0 {
		return r.seats[c.place-1]
	}
	return entryOf(c)
}

// resting lists up to most queries that the policy has left out of the slot.
func (r *roster) resting(most int) (list []*item) {
	for _, s := range r.seats {
		if s.due > 0 && len(list) < most {
			list = append(list, s.c)
		}
	}
	return list
}

// standing returns the rank of c, from 1, among the queries of its order, and the cost of
// those before it. While the order of a Ranker is not known, the latest keys decide.
func (p *queues) standing(c *item) (rank int, cost time.Duration) {
	e := p.roster.entryOf(c)
	if c.place == 0 || p.ordered {
		return c.in.place(e)
	}
	rank = p.ranked.n // refresh requests precede the others
	for _, s := range p.roster.seats {
		switch {
		case s.due > 0:
		case s.before(e):
			cost += s.estimate
		default:
			rank--
		}
	}
	return rank + 1, cost
}

// rank asks a Ranker for the order of the slot.
func (p *ranker) rank() {
	p.ordered = true
	r, ok := p.policy.(policy.Ranker)
	if !ok {
		p.ranking = policy.Ranking{}
		return
	}
	p.ranking = r.Rank(p.moment(), p.roster.all)
	p.roster.moved = p.roster.moved[:0]
	list := p.roster.room[:0]
	for c := range p.ranked.all {
		if c.tier != TierRefresh {
			break
		}
		list = append(list, entryOf(c))
	}
	for i := range p.roster.seats {
		s, k := &p.roster.seats[i], &p.ranking.Keys[i]
		s.set(k)
		switch rested := s.due > 0; { // the items are all over the memory, so most are left alone
		case k.Due > p.slot:
			if s.due = k.Due; !rested {
				s.c.in, s.c.tier, s.c.why = nil, "", notDue
			}
			continue
		case rested:
			s.due, s.c.in, s.c.tier, s.c.why, s.c.since = 0, &p.ranked, TierRanked, eligible, p.slot
		}
		list = append(list, *s)
	}
	p.roster.room = p.ranked.entries[:0]
	p.ranked.load(list)
}

// inputs returns the values from which a query's place was computed.
func (p *ranker) inputs(c *item) map[string]float64 {
	in := p.policy.Inputs(p.moment(), p.ranking, &c.Candidate)
	maps.Copy(in, p.ranking.Inputs)
	return in
}

func (p *ranker) moment() policy.Moment {
	return policy.Moment{
		Slot: p.slot, Budget: p.budget, Now: p.begun, Lead: p.lead, Shared: p.shared, Turned: p.turned, Memory: &p.memory, Moved: p.roster.moved,
	}
}

// observe adds up the evidence of complete executions. Once there is enough, the rest of
// the slot is ranked again.
func (p *ranker) observe(c *item, changed bool) {
	x, ok := p.ranking.Evidence[&c.Candidate]
	if !ok || p.turned {
		return
	}
	if changed {
		p.evidence += x.Changed
	} else {
		p.evidence += x.Same
	}
	if p.turned = p.evidence > p.ranking.Enough; p.turned {
		was := p.ranking
		p.rank()
		p.ranking.Stretch, p.ranking.Inputs = was.Stretch, was.Inputs
	}
}

// absorb lets the policy learn from the slot that ends.
func (p *ranker) absorb() {
	p.taught, p.turned, p.evidence = p.taught[:0], false, 0
	r, ok := p.policy.(policy.Collective)
	if !ok {
		return
	}
	ran := make([]*policy.Candidate, 0, len(p.ran))
	for _, c := range p.ran {
		if c.Stats.Last == p.slot && c.Stats.Executions > 0 && c.planned {
			ran = append(ran, &c.Candidate)
		}
	}
	l := r.Absorb(p.moment(), ran, p.related)
	p.shared = l.Shared
	for _, t := range l.States {
		t.Candidate.SetState(t.State)
		if t.Keep {
			p.taught = append(p.taught, t.Candidate)
			p.roster.touch(p.order[t.Candidate.Number])
		}
	}
}

// settleRan settles the queries that ran.
func (p *ranker) settleRan() {
	p.ordered = false
	for _, c := range p.ran {
		c.ran = false
		if c.Stats.Last+1 == p.slot {
			c.heard = c.heard || c.Hinted && c.Shown != policy.ShownAgain && !c.unsettled.IsZero()
			c.Hinted = false
		}
		c.Shown = 0
		if c.planned {
			p.settle(c)
		}
	}
	p.ran = p.ran[:0]
}

// Refresh advances and sorts the plan. One call serves all questions until something
// moves.
func (p *ranker) Refresh(now time.Time) {
	p.Advance(now)
	if !p.ordered {
		p.rank()
	}
}

// RefreshFor is Refresh as far as Forecast needs it for these queries: only the place of
// a ranked query depends on the policy's order.
func (p *ranker) RefreshFor(now time.Time, queries []string) {
	p.Advance(now)
	if slices.ContainsFunc(queries, func(id string) bool {
		c := p.all[id]
		return c != nil && (c.in == &p.ranked || c.place > 0)
	}) {
		p.Refresh(now)
	}
}
