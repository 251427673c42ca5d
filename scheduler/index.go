package scheduler

import (
	"math"
	"time"
)

// A view is what hybrid knows at the start of a slot.
type view struct {
	*epoch
	calendar
	form   form
	turned bool    // the slot is known to be an empty one
	start  float64 // the clock at the slot's start
	now    float64 // and at its end, as expected
	ratio  [cells]float64
	leave  [cells][rates]float64 // 1 − e^(−rλ)
	first  belief                // of queries without a state
}

func (p hybrid) view(m Moment) *view {
	v := &view{epoch: readEpoch(m.Shared), form: p.form, turned: m.Turned, first: prior()}
	v.calendar = v.epoch.calendar()
	v.start = v.calendar.clock(m.Slot - min(m.Slot, 1))
	v.now = v.start + v.next()
	if m.Turned {
		v.now = v.start + emptySlot
	}
	for c := range v.ratio {
		v.ratio[c] = 1
		if p.form != noHazard {
			v.ratio[c] = v.hazard(c)
		}
		e := math.Exp(-v.ratio[c] * (1.0 / (1 << rateStep)))
		for k := range v.leave[c] {
			v.leave[c][k] = 1 - e
			e *= e
		}
	}
	return v
}

// quick is the least time that an execution counts with: the worth of cheaper
// ones is not told apart by the noise of their times.
const quick = 100 * time.Microsecond

// worth is hybrid's index of a query: what an execution now is worth per second,
//
//	(1 − (1−x)·Σ_k w_k·e^(−rλ_kτ)·(1 + τ(1 − e^(−rλ_k)))) / c
//
// where τ are the live slots since the last execution, this one included, c is
// the median time, x the excitation, and r the hazard of queries like it. chance
// is the probability that it has changed.
func (v *view) worth(c *Candidate) (worth, chance float64) {
	state, last := c.Stats.State, c.Stats.Last
	if len(state) == beliefSize && state[rates+3] != noNote {
		state = v.taken(state, last)
	}
	w, mean, x, changed := v.first.w[:], v.first.mean, 0.0, uint64(0)
	if len(state) == beliefSize {
		w, mean, x, changed = state[:rates], state[rates], state[rates+1], uint64(state[rates+2])
	}
	tau := max(0, v.now-v.calendar.clock(last))
	at := v.cellOf(mean, changed)
	var same, stay float64
	e, leave := math.Exp(-v.ratio[at]*tau*(1.0/(1<<rateStep))), &v.leave[at]
	for k, p := range w[:rates] {
		p *= e
		same += p
		stay += float64(p * leave[k])
		e *= e
	}
	if v.form == myopic {
		stay = 0
	}
	chance = 1 - float64((1-x)*same)
	worth = 1 - float64((1-x)*(same+float64(tau*stay)))
	return worth / max(c.Median, quick).Seconds(), chance
}

// cellOf finds a query's cell at the start of the slot.
func (v *view) cellOf(mean float64, changed uint64) int {
	return cell(mean, changed > 0, v.start-v.calendar.clock(changed))
}

// taken is a state with its note taken in after all, which is needed where the
// process ended before the slot did.
func (v *view) taken(state []float64, last uint64) []float64 {
	b := readBelief(state)
	tau := max(emptySlot, v.calendar.clock(last)-v.calendar.clock(b.from))
	b.learn(last, tau, v.ratio[v.cellOf(b.mean, b.changed)], b.note == foundChange)
	b.note, b.from = noNote, 0
	return b.state()
}
