package scheduler

import (
	"cmp"
	"slices"
)

// Plan orders the queries: first those that the guard chose, by deadline, then
// the others by worth. Those that tell whether the slot is an empty one go
// before the former as far as both fit half the budget.
func (p hybrid) Plan(m Moment, all []*Candidate) Ranking {
	v, g := p.view(m), p.guard(m, all)
	g.spare = v.spare()
	keys, worth := make([]Key, len(all)), make([]float64, len(all))
	v.worths(all, worth)
	for i := range all {
		keys[i] = Key{Class: classIndex, Value: -worth[i]}
	}
	r := Ranking{Keys: keys}
	if p.form == noGuard {
		p.probe(v, g, all, &r)
		return r
	}
	deadlines := make([]uint64, len(all))
	for i, c := range all {
		deadlines[i] = g.deadline(c)
		if m.Turned {
			keys[i].Value -= v.relief(m.Slot, c.Stats.Last, deadlines[i])
		}
	}
	for i, chosen := range g.choose(all, deadlines, worth) {
		if chosen {
			keys[i] = Key{Class: classGuard, Value: float64(deadlines[i]), Low: -worth[i]}
		}
	}
	p.probe(v, g, all, &r)
	r.Inputs = map[string]float64{
		"d": float64(g.d), "h": float64(g.h), "stretch": g.stretch, "reserve_seconds": g.reserve.Seconds(), "clock": v.start,
	}
	if s := g.stretch * g.lack; s > 1 {
		r.Stretch = s
	}
	return r
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
func (p hybrid) probe(v *view, g *guard, all []*Candidate, r *Ranking) {
	const enough = 4 // evidence
	if g.slot == 0 || p.form == noClock || p.form == noTurn || v.turned {
		return
	}
	r.Tells, r.Turn = map[*Candidate]Tell{}, proof-v.odds()
	var first []int
	room := g.budget / 2
	for i, c := range all {
		if r.Keys[i].Class == classGuard {
			room -= c.Estimate
		}
		if len(c.Stats.State) != beliefSize || c.Stats.Last+1 != g.slot {
			continue
		}
		b := readBelief(c.Stats.State)
		if t, tells := v.tells(b.w[:], b.mean, b.changed); tells && !b.noted() {
			r.Tells[c] = t
			if r.Keys[i].Class == classIndex {
				first = append(first, i)
			}
		}
	}
	slices.SortFunc(first, func(i, j int) int {
		return cmp.Or(cmp.Compare(r.Keys[i].Value, r.Keys[j].Value), cmp.Compare(all[i].Query.ID, all[j].Query.ID))
	})
	evidence := 0.0
	for _, i := range first {
		if room -= all[i].Estimate; room < 0 || evidence > enough {
			return
		}
		evidence += r.Tells[all[i]].Same
		r.Keys[i].Class = classProbe
	}
}

func (p hybrid) Rank(m Moment, all []*Candidate) []Key { return p.Plan(m, all).Keys }

// Explain shows what the place of one query comes from.
func (p hybrid) Explain(m Moment, all []*Candidate, c *Candidate) map[string]float64 {
	v, g := p.view(m), p.guard(m, all)
	in := p.Inputs(c)
	in["worth_per_second"], in["chance"] = v.worth(c)
	b := readBelief(c.Stats.State)
	in["live_slots"] = max(0, v.now-v.calendar.clock(c.Stats.Last))
	in["hazard"] = v.ratio[v.cellOf(b.mean, b.changed)]
	if p.form != noGuard {
		in["deadline"] = float64(g.deadline(c))
	}
	return in
}
