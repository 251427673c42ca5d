package scheduler

import "math"

// Absorb takes in what the executions of a slot teach.
func (p hybrid) Absorb(m Moment, ran []*Candidate, kin func(*Candidate) []*Candidate) Lesson {
	v := p.view(m)
	beliefs := make([]belief, len(ran))
	noted := make([]bool, len(ran)) // the others had their first execution
	for i, c := range ran {
		beliefs[i] = readBelief(c.Stats.State)
		noted[i] = beliefs[i].noted()
	}
	next := readEpoch(m.Shared)
	next.close(m.Slot, p.form != noClock && v.emptied(m.Slot, beliefs))
	for i := range next.seen {
		next.seen[i] *= hazardFade
		next.due[i] *= hazardFade
	}
	l := Lesson{}
	excited := map[*Candidate]bool{}
	for i, c := range ran {
		if !noted[i] {
			continue
		}
		b := &beliefs[i]
		changed := b.note == foundChange
		if changed && p.form != noKin && v.chance(b) < 0.3 {
			for _, k := range kin(c) {
				excited[k] = true
			}
		}
		v.take(next, b, m.Slot)
		l.States = append(l.States, Taught{Candidate: c, State: b.state()})
	}
	l.States = append(l.States, next.excite(m.Slot, excited)...)
	l.Shared = next.state()
	return l
}

// emptied says whether a slot looks as if nothing at all had changed: among the
// queries asked in the slot before as well, that change often, hardly one had.
func (v *view) emptied(slot uint64, ran []belief) bool {
	expected, changed := 0.0, 0.0
	for i := range ran {
		b := &ran[i]
		if !b.noted() || b.from+1 != slot {
			continue
		}
		at := v.cellOf(b.mean, b.changed)
		if v.ratio[at]*b.mean <= 0.05 {
			continue
		}
		expected += 1 - survival(b.w[:], v.ratio[at], 1)
		if b.note == foundChange {
			changed++
		}
	}
	return expected > 0.9 && changed < 0.12*expected
}

// chance is the probability of a change that was predicted for a noted query.
func (v *view) chance(b *belief) float64 {
	tau := max(0, v.now-v.calendar.clock(b.from))
	return 1 - float64((1-b.x)*survival(b.w[:], v.ratio[v.cellOf(b.mean, b.changed)], tau))
}

// take takes in a note: the hazard and the excitation learn from how it compares
// with what was expected, the rates from the note itself.
func (v *view) take(next *epoch, b *belief, slot uint64) {
	changed := b.note == foundChange
	tau := max(emptySlot, next.clock-v.calendar.clock(b.from))
	at := v.cellOf(b.mean, b.changed)
	next.due[at] += 1 - survival(b.w[:], 1, tau)
	if changed {
		next.seen[at]++
	}
	if b.x > 0 {
		next.tries++
		if changed {
			next.hits++
		}
	}
	b.learn(slot, tau, v.ratio[at], changed)
	b.note, b.from = noNote, 0
}

// excite raises the excitation of queries that share a constant with one that
// changed unexpectedly, unless they ran themselves.
func (e *epoch) excite(slot uint64, which map[*Candidate]bool) []Taught {
	x := (e.hits + 0.08) / (e.tries + 20)
	var out []Taught
	for c := range which {
		if c.Stats.Last == slot || c.Stats.Executions == 0 {
			continue
		}
		b := readBelief(c.Stats.State)
		if b.x >= x || math.IsNaN(x) {
			continue
		}
		if b.noted() { // of a slot that was never absorbed
			b.learn(c.Stats.Last, float64(c.Stats.Last-b.from), 1, b.note == foundChange)
			b.note, b.from = noNote, 0
		}
		b.x = x
		out = append(out, Taught{Candidate: c, State: b.state(), Keep: true})
	}
	return out
}
