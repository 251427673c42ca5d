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
	begun   time.Time           // when the slot began
	ran     []*item             // queries that have started in the slot
	rests   []*item             // queries that a policy.Ranker left out of the slot; some may be lifted since
	shared  []float64           // the policy's state for the endpoint
	ranking policy.Ranking      // of the slot, without its keys
	turned  bool                // the policy's table has asked for a new plan in this slot
	taught  []*policy.Candidate // given a new state in the last slot without having run

	room    []*item // buffers of rankBy: room, seen, views
	seen    []*item
	views   []*policy.Candidate
	touched uint64 // by settleRan, without meaning
}

// rank asks a policy that is a Ranker or has a table for the order of the slot.
func (p *ranker) rank() {
	p.ordered = true
	p.ranking = policy.Ranking{}
	r, ok := p.policy.(policy.Ranker)
	if !ok && p.ranked.source == nil {
		return
	}
	p.aside(func() { p.rankBy(r) })
}

// sort sorts what rank has left unsorted, so that looking up places is quick.
func (p *ranker) sort() { p.aside(p.ranked.sort) }

func (p *ranker) rankBy(r policy.Ranker) {
	if s := p.ranked.source; s != nil {
		p.ranking = s.begin(p.moment())
		p.ranked.reload()
		return
	}
	list := p.lookAt(p.room[:0])
	clear(p.rests)
	p.rests = p.rests[:0]
	views, seen, stay := p.views[:0], p.seen[:0], list[:0]
	for _, c := range list {
		if c.tier != TierRanked {
			stay = append(stay, c) // a refresh request
			continue
		}
		views, seen = append(views, &c.Candidate), append(seen, c)
	}
	var keys []policy.Key
	if x, ok := r.(policy.Explainer); ok {
		keys, p.ranking = x.Plan(p.moment(), views)
	} else {
		keys = r.Rank(p.moment(), views)
	}
	for i, c := range seen {
		c.key = keys[i]
		if c.key.Due > p.slot {
			c.in, c.tier, c.why, c.rests = nil, "", notDue, true
			p.rests = append(p.rests, c)
			continue
		}
		stay = append(stay, c)
	}
	p.ranked.load(stay)
	p.room, p.views, p.seen = list[:0], views[:0], seen[:0]
}

// lookAt appends the queries that a Ranker ranks, and ranked refresh requests, to a
// list. If these are nearly all queries, it visits them in the order of memory, which
// is quicker.
func (p *ranker) lookAt(list []*item) []*item {
	if 2*(p.ranked.len()+len(p.rests)) > len(p.order) {
		for _, c := range p.order {
			if c.in == &p.ranked || p.awake(c) {
				list = append(list, c)
			}
		}
		return list
	}
	list = p.ranked.unordered(list)
	for _, c := range p.rests {
		if p.awake(c) {
			list = append(list, c)
		}
	}
	return list
}

// awake ends the rest of a query that its policy left out of the last slot.
func (p *ranker) awake(c *item) bool {
	if !c.rests {
		return false
	}
	c.rests = false
	c.tier, c.why, c.since = TierRanked, eligible, p.slot
	return true
}

// inputs returns the values from which a query's place was computed.
func (p *ranker) inputs(c *item) map[string]float64 {
	if s := p.ranked.source; s != nil {
		in := s.table.Explain(p.moment(), &c.Candidate)
		maps.Copy(in, p.ranking.Inputs)
		return in
	}
	x, ok := p.policy.(policy.Explainer)
	if !ok {
		return p.policy.Inputs(&c.Candidate)
	}
	in := x.Explain(p.moment(), p.ranking, &c.Candidate)
	maps.Copy(in, p.ranking.Inputs)
	return in
}

func (p *ranker) moment() policy.Moment {
	return policy.Moment{Slot: p.slot, Budget: p.budget, Now: p.begun, Lead: p.lead, Shared: p.shared, Turned: p.turned}
}

// observe passes a complete execution to the policy's table, which may then plan the
// rest of the slot again.
func (p *ranker) observe(c *item, changed bool) {
	if p.turned || p.ranked.source == nil || !p.ranked.source.table.Observe(&c.Candidate, changed) {
		return
	}
	p.turned = true
	was := p.ranking
	p.rank()
	if p.let != nil {
		p.sort()
	}
	p.ranking.Stretch, p.ranking.Inputs = was.Stretch, was.Inputs
}

// absorb lets the policy learn from the slot that ends.
func (p *ranker) absorb() {
	p.taught = p.taught[:0]
	p.turned = false
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
	related := p.related
	if p.let != nil { // the loop has built the part of the index that is needed
		related = p.index.related
	}
	var l policy.Lesson
	p.aside(func() { l = r.Absorb(p.moment(), ran, related) })
	p.shared = l.Shared
	for _, t := range l.States {
		t.Candidate.SetState(t.State)
		if t.Keep {
			p.ranked.source.learn(p.order[t.Candidate.Number])
			p.taught = append(p.taught, t.Candidate)
		}
	}
}

// settleRan settles the queries that ran. It first touches a few of them, so that the
// reads from memory overlap.
func (p *ranker) settleRan() {
	const few = 32
	p.ordered = false
	for i, c := range p.ran {
		p.pause(i)
		if i%few == 0 {
			for _, next := range p.ran[i:min(i+few, len(p.ran))] {
				next.ran = false
				p.touched ^= uint64(next.key.Class) ^ uint64(next.Median) ^ next.Stats.Last
			}
		}
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
		p.sort()
	}
}

// RefreshFor is Refresh as far as Forecast needs it for these queries: only the place of
// a ranked query depends on the policy's order.
func (p *ranker) RefreshFor(now time.Time, queries []string) {
	p.Advance(now)
	if slices.ContainsFunc(queries, func(id string) bool {
		c := p.all[id]
		return c != nil && (c.in == &p.ranked || c.rests)
	}) {
		p.Refresh(now)
	}
}
