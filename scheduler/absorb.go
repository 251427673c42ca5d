package scheduler

import "math"

// Absorb takes in what the executions of a slot teach.
func (p hybrid) Absorb(m Moment, ran []*Candidate, kin func(*Candidate) []*Candidate) Lesson {
	v := p.past(m)
	next := readEpoch(m.Shared)
	odds, seen := v.odds(), v.witnesses(m.Slot, ran)
	next.close(m.Slot, p.form != noClock && v.trusted() && emptied(odds, seen))
	next.heed(odds, seen)
	for i := range next.seen {
		next.seen[i] *= hazardFade
		next.due[i] *= hazardFade
	}
	if !next.empty {
		next.found *= yieldFade
		next.spent *= yieldFade
	}
	l := Lesson{States: make([]Taught, 0, len(ran))}
	excited := map[*Candidate]bool{}
	var room []float64
	for i, c := range ran {
		if !noted(c.Stats.State) {
			continue // its first execution
		}
		b := readBelief(c.Stats.State)
		changed := b.note == foundChange
		if changed && p.form != noKin && v.chance(&b) < 0.3 {
			for _, k := range kin(c) {
				excited[k] = true
			}
		}
		if !next.empty {
			next.spent += c.Median.Seconds()
			if changed {
				next.found++
			}
		}
		v.take(next, &b, m.Slot)
		if len(room) == 0 {
			room = make([]float64, min(together, len(ran)-i)*beliefSize)
		}
		state := room[:beliefSize:beliefSize]
		room = room[beliefSize:]
		b.write(state)
		l.States = append(l.States, Taught{Candidate: c, State: state})
	}
	l.States = append(l.States, next.excite(v, m.Slot, excited)...)
	l.Shared = next.state()
	return l
}

// together is how many states share their memory, which is kept as long as one of
// them is.
const together = 16

// witnesses are the queries asked in the slot before as well that change often.
func (v *view) witnesses(slot uint64, ran []*Candidate) (list []witness) {
	for _, c := range ran {
		s := c.Stats.State
		if !noted(s) || uint64(s[rates+4])+1 != slot {
			continue
		}
		if p, tells := v.tells(s[:rates], s[rates], uint64(s[rates+2])); tells {
			list = append(list, witness{p, s[rates+3] == foundChange})
		}
	}
	return list
}

// emptied says whether a slot looks as if nothing at all had changed.
func emptied(odds float64, seen []witness) bool {
	for _, w := range seen {
		odds += w.says()
	}
	return odds > proof
}

// tells is the probability that a query changes in a live slot, if it ran in the
// one before; those that change rarely say nothing.
func (v *view) tells(w []float64, mean float64, changed uint64) (float64, bool) {
	r := v.ratio[v.cellOf(mean, changed)]
	if r*mean <= 0.05 {
		return 0, false
	}
	return 1 - survival(w, r, 1), true
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
		k := at / ageCells
		next.tries[k]++
		if changed { // because of the other's change or anyway: as likely as each is
			next.hits[k] += b.x / v.chance(b)
		}
	}
	b.learn(slot, tau, v.ratio[at], changed)
	b.note, b.from = noNote, 0
}

// excite raises the excitation of queries that share a constant with one that
// changed unexpectedly, unless they ran themselves.
func (e *epoch) excite(v *view, slot uint64, which map[*Candidate]bool) []Taught {
	var out []Taught
	for c := range which {
		if c.Stats.Last == slot || c.Stats.Executions == 0 {
			continue
		}
		b := readBelief(c.Stats.State)
		k := v.cellOf(b.mean, b.changed) / ageCells
		x := (e.hits[k] + 0.08) / (e.tries[k] + 20)
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
