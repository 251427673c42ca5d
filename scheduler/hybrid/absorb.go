package hybrid

import (
	"math"

	"github.com/freshet/freshet/scheduler/policy"
)

// Absorb updates the estimates with the executions of a finished slot.
func (Policy) Absorb(m policy.Moment, ran []*policy.Candidate, related func(*policy.Candidate) []*policy.Candidate) policy.Lesson {
	v := past(m)
	next := readState(m.Shared)
	odds, seen := v.odds(), v.witnesses(m.Slot, ran)
	next.close(m.Slot, v.trusted() && looksEmpty(odds, seen))
	next.learnTrust(odds, seen)
	next.fadeHints()
	for i := range next.seen {
		next.seen[i] *= hazardFade
		next.due[i] *= hazardFade
	}
	l := policy.Lesson{States: make([]policy.Taught, 0, len(ran))}
	boosted, found := map[*policy.Candidate]bool{}, 0.0
	for _, c := range ran {
		if !isPending(c.Stats.State) {
			continue // its first execution
		}
		b := readEstimate(c.Stats.State)
		if isFirst(c) && c.Query.Learnt != nil {
			known := start(c.Query.Learnt, m.Lead)
			b.w, b.mean = known.w, known.mean
		}
		changed := b.sample == foundChange
		if changed {
			found++
		}
		if changed && v.chance(&b) < 0.3 {
			for _, k := range related(c) {
				boosted[k] = true
			}
		}
		next.hear(c, changed, v.chance(&b))
		v.applySample(next, &b, m.Slot)
		l.States = append(l.States, policy.Taught{Candidate: c, State: b.state()})
	}
	if m.Budget > 0 {
		next.yield += yieldStep * (found/m.Budget.Seconds() - next.yield)
	}
	l.States = append(l.States, next.boostRelated(v, m.Slot, boosted)...)
	l.Shared = next.state()
	return l
}

// witnesses lists the executed queries that change often and also ran in the slot
// before.
func (v *view) witnesses(slot uint64, ran []*policy.Candidate) (list []witness) {
	for _, c := range ran {
		s := c.Stats.State
		if !isPending(s) || uint64(s[rates+4])+1 != slot {
			continue
		}
		if p, tells := v.tells(s[:rates], s[rates], uint64(s[rates+2])); tells {
			list = append(list, witness{p, s[rates+3] == foundChange})
		}
	}
	return list
}

// looksEmpty reports whether a slot looks as if nothing at all had changed.
func looksEmpty(odds float64, seen []witness) bool {
	for _, w := range seen {
		odds += w.says()
	}
	return odds > proof
}

// tells returns the probability that a query changes in a live slot if it ran in
// the one before. It is false for queries that change rarely: they are no evidence.
func (v *view) tells(w []float64, mean float64, changed uint64) (float64, bool) {
	r := v.ratio[v.cellOf(mean, changed)]
	if r*mean <= 0.05 {
		return 0, false
	}
	return 1 - survival(w, r, 1), true
}

// chance is the predicted probability of a change for a query with a pending
// sample.
func (v *view) chance(b *rateEstimate) float64 {
	tau := max(0, v.now-v.calendar.clock(b.from))
	return 1 - float64((1-b.x)*survival(b.w[:], v.ratio[v.cellOf(b.mean, b.changed)], tau))
}

// applySample updates hazard and excitation by the prediction error, and the rates by
// the outcome.
func (v *view) applySample(next *endpointState, b *rateEstimate, slot uint64) {
	changed := b.sample == foundChange
	tau := max(emptySlot, next.clock-v.calendar.clock(b.from))
	at := v.cellOf(b.mean, b.changed)
	next.due[at] += 1 - survival(b.w[:], 1, tau)
	if changed {
		next.seen[at]++
	}
	if b.x > 0 {
		k := at / ageCells
		next.tries[k]++
		if changed { // the related query's change may be the cause or not: weighted by probability
			next.hits[k] += b.x / v.chance(b)
		}
	}
	b.learn(slot, tau, v.ratio[at], changed)
	b.sample, b.from = noSample, 0
}

// boostRelated raises the excitation of queries that share a constant with one that
// changed unexpectedly, unless they ran themselves.
func (e *endpointState) boostRelated(v *view, slot uint64, which map[*policy.Candidate]bool) []policy.Taught {
	var out []policy.Taught
	for c := range which {
		if c.Stats.Last == slot || c.Stats.Executions == 0 {
			continue
		}
		b := readEstimate(c.Stats.State)
		k := v.cellOf(b.mean, b.changed) / ageCells
		x := (e.hits[k] + 0.08) / (e.tries[k] + 20)
		if b.x >= x || math.IsNaN(x) {
			continue
		}
		if b.isPending() { // of a slot that was never absorbed
			b.learn(c.Stats.Last, float64(c.Stats.Last-b.from), 1, b.sample == foundChange)
			b.sample, b.from = noSample, 0
		}
		b.x = x
		out = append(out, policy.Taught{Candidate: c, State: b.state(), Keep: true})
	}
	return out
}
