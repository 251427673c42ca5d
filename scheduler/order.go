package scheduler

import (
	"cmp"
	"slices"
)

// Plan orders the queries: first those that the guard chose, by deadline, then
// the others by worth. Those that tell whether the slot is an empty one go
// before the former as far as both fit half the budget.
func (p hybrid) Plan(m Moment, all []*Candidate) Ranking {
	b := p.bookOf(m, all)
	r := b.plan(m)
	r.Keys, r.Tells = make([]Key, len(all)), make(map[*Candidate]Tell, len(b.tells))
	rest := b.rest()
	b.evaluate(rest)
	for _, i := range rest {
		b.rows[i].class = classIndex
	}
	for i := range all {
		r.Keys[i] = b.key(int32(i))
	}
	for _, t := range b.tells {
		r.Tells[all[t.row]] = t.Tell
	}
	return r
}

// bookOf enters these queries in a new book.
func (p hybrid) bookOf(m Moment, all []*Candidate) *book {
	b := newBook(p)
	b.suit(m)
	for _, c := range all {
		b.write(b.place(), c)
	}
	return b
}

// plan begins a slot, or what is left of one that has turned out to be empty: it
// finds those that go before the others, and leaves the order of these to waves.
func (b *book) plan(m Moment) Ranking {
	p := b.policy
	b.suit(m)
	b.round++
	b.view = p.view(m)
	b.lookBack()
	g, temper := b.watch(m)
	b.guard = g
	b.guard.spare = b.view.spare()
	b.special, b.tells, b.waiting = b.special[:0], b.tells[:0], 0
	for i, s := range b.state {
		if s != vacant {
			b.state[i] = crowded
			b.waiting++
		}
	}
	r := Ranking{}
	if p.form == noGuard {
		b.comfort(false) // without deadlines none is put off
		b.probe(&r)
		return r
	}
	b.schedule(b.wait[temper])
	b.comfort(m.Turned)
	b.choose()
	b.probe(&r)
	r.Inputs = map[string]float64{
		"d": float64(g.d), "h": float64(g.h), "stretch": g.stretch, "reserve_seconds": b.guard.reserve.Seconds(), "clock": b.view.start,
	}
	if s := g.stretch * b.guard.lack; s > 1 {
		r.Stretch = s
	}
	return r
}

// rest lists those that do not go before the others.
func (b *book) rest() (list []int32) {
	for i, s := range b.state {
		if s == crowded {
			list = append(list, int32(i))
		}
	}
	return list
}

// key is the place of a query in the order that has been evaluated.
func (b *book) key(i int32) Key {
	switch class := int(b.rows[i].class); class {
	case classGuard:
		return Key{Class: class, Value: float64(b.due[i]), Low: -b.worth[i]}
	case classProbe:
		return Key{Class: class, Value: -b.worth[i]}
	}
	return Key{Class: classIndex, Value: -(b.worth[i] + b.bonus[i])}
}

// comfort works out the relief of executions in an empty slot.
func (b *book) comfort(turned bool) {
	if b.turned {
		clear(b.bonus)
	}
	b.begin(turned)
	if !turned {
		return
	}
	for i, s := range b.state {
		if s != vacant {
			b.bonus[i] = b.view.relief(b.guard.slot, b.last[i], b.due[i])
		}
	}
}

// relief is what an execution in an empty slot is worth, per second, because it
// puts off the query's deadline, so that a live slot need not run it.
func (v *view) relief(slot, last, deadline uint64) float64 {
	const part = 0.3 // what a live slot would find with its last seconds, of what it finds with all
	age, wait := float64(slot-min(slot, last)), float64(max(1, deadline-min(deadline, last)))
	return part * v.yield() * min(1, age/wait)
}

// probe finds the queries that tell whether the slot is an empty one, and lets
// the most worthy of them go first.
func (b *book) probe(r *Ranking) {
	const enough = 4 // evidence
	g, p := &b.guard, b.policy
	if g.slot == 0 || p.form == noClock || p.form == noTurn || b.view.turned || !b.view.trusted() {
		return
	}
	r.Turn = proof - b.view.odds()
	room := g.budget / 2
	for _, i := range b.special {
		room -= b.cost[i]
	}
	var first []int32
	for i, last := range b.last {
		if last+1 != g.slot || b.state[i] == vacant || !b.tell(int32(i)) {
			continue
		}
		if b.state[i] == crowded {
			first = append(first, int32(i))
		}
	}
	b.evaluate(first)
	slices.SortFunc(first, func(i, j int32) int {
		return cmp.Or(cmp.Compare(b.worth[j], b.worth[i]), cmp.Compare(b.rows[i].c.Query.ID, b.rows[j].c.Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= b.cost[i]; room < 0 || evidence > enough {
			return
		}
		evidence += b.tells[b.rows[i].tell].Same
		b.prefer(i, classProbe)
	}
}

// tell finds what a query's execution says of the slot, if anything.
func (b *book) tell(i int32) bool {
	r := &b.rows[i]
	if r.noted || r.w == &b.first.w || b.view.most*r.mean <= 0.05 {
		return false
	}
	p, tells := b.view.tells(r.w[:], r.mean, r.changed)
	if tells {
		r.tell = int32(len(b.tells))
		b.tells = append(b.tells, informer{i, tell(p)})
	}
	return tells
}

func (p hybrid) Rank(m Moment, all []*Candidate) []Key { return p.Plan(m, all).Keys }

// Explain shows what the place of one query comes from.
func (p hybrid) Explain(m Moment, r Ranking, c *Candidate) map[string]float64 {
	v := p.view(m)
	in := p.Inputs(c)
	in["worth_per_second"], in["chance"] = v.worth(c)
	b := readBelief(c.Stats.State)
	in["live_slots"] = max(0, v.now-v.calendar.clock(c.Stats.Last))
	in["hazard"] = v.ratio[v.cellOf(b.mean, b.changed)]
	if d, guarded := r.Inputs["d"]; guarded {
		g := guard{budget: m.Budget, lead: m.Lead, d: uint64(d), h: uint64(r.Inputs["h"]), stretch: r.Inputs["stretch"]}
		in["deadline"] = float64(g.deadline(c))
	}
	return in
}
