package hybrid

import (
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// A view is what hybrid knows at the start of a slot.
type view struct {
	*endpointState
	calendar
	start  float64 // the clock at the slot's start
	now    float64 // the expected clock at its end
	ratio  [cells]float64
	leave  [cells][rates]float64 // 1 − e^(−rλ)
	most   float64               // the highest ratio
	missed float64               // the part of the changes that hints miss, 1 without hints
	lead   time.Duration
	learn  [costClasses][rates]float64
}

func newView(m policy.Moment) *view {
	v := past(m)
	for c, r := range v.ratio {
		v.leave[c] = leaves(v.missed * r)
	}
	yield := v.yield / max(yieldStep, 1-math.Pow(1-yieldStep, float64(v.slot)))
	for c := range v.learn {
		v.learn[c] = knowing(math.Ldexp(0.7, c-costStep), yield)
	}
	return v
}

// Costs have classes: those in class c are from half of 2^(c−costStep) seconds to all of it.
const (
	costClasses = 18
	costStep    = 10
)

func costClass(seconds float64) int {
	_, k := math.Frexp(seconds)
	return min(max(k+costStep, 0), costClasses-1)
}

// horizon is the greatest number of slots for which it pays to know a rate.
const horizon = 100

// knowing is what it is worth in a slot to know that a query has each of the rates, if it takes
// some seconds and the budget usually finds yield changes a second: the changes that executions
// in every first, second, fourth… slot find, less those that the time finds elsewhere, for the
// best of these intervals. It is 0 if the time is better spent elsewhere.
func knowing(seconds, yield float64) (worth [rates]float64) {
	for every := 1.0; every < 512; every *= 2 {
		e := math.Exp(-policy.LowestRate * every)
		for k := range worth {
			worth[k] = max(worth[k], (1-e-float64(yield*seconds))/every)
			e *= e
		}
	}
	return worth
}

// past makes a view that lacks the fields which only worth needs.
func past(m policy.Moment) *view {
	v := &view{endpointState: readState(m.Shared), lead: m.Lead}
	v.calendar, v.missed = v.endpointState.calendar(), v.endpointState.misses()
	v.start = v.calendar.clock(m.Slot - min(m.Slot, 1))
	v.now = v.start + v.next()
	if m.Turned {
		v.now = v.start + emptySlot
	}
	for c := range v.ratio {
		v.ratio[c] = v.hazard(c)
		v.most = max(v.most, v.ratio[c])
	}
	return v
}

// leaves is 1 − e^(−rλ) for all rates.
func leaves(r float64) (leave [rates]float64) {
	e := math.Exp(-r * policy.LowestRate)
	for k := range leave {
		leave[k] = 1 - e
		e *= e
	}
	return leave
}

// quick is the smallest time counted for an execution, so that measurement noise
// does not order queries that take less.
const quick = 100 * time.Microsecond

// worth is hybrid's index of a query: what an execution now is worth per second,
//
//	(1 − (1−x)·Σ_k w_k·e^(−rλ_kτ)·(1 + τ(1 − e^(−rλ_k)))) / c
//
// where τ is the number of live slots since the last execution, this one included,
// c the median time, x the excitation, and r the hazard of similar queries. For a query
// without a change so far, what it may teach comes on top, see prospect.lesson. chance
// is the probability that the query has changed.
func (v *view) worth(c *policy.Candidate) (worth, chance float64) {
	p := v.prospect(c)
	same, _ := p.sums()
	return p.gain() / seconds(c), 1 - float64((1-p.x)*math.Exp(-p.hint)*same)
}

// A prospect holds the numbers that an execution's worth is computed from.
type prospect struct {
	w, leave *[rates]float64
	tau, x   float64
	hint     float64         // what a hint says for a change, see hearing.evidence
	e        float64         // e^(−rλτ) for the lowest rate; for each next rate it is the square
	learn    *[rates]float64 // what it is worth to know each rate; nil if a change has been found
}

// sums are Σ w_k·e^(−rλ_kτ), and the same with each times 1 − e^(−rλ_k).
func (p *prospect) sums() (same, stay float64) {
	e := p.e
	for k, w := range p.w {
		w = float64(w * e)
		same += w
		stay += float64(w * p.leave[k])
		e *= e
	}
	return same, stay
}

func (v *view) prospect(c *policy.Candidate) prospect {
	state, last := c.Stats.State, c.Stats.Last
	if isPending(state) {
		state = v.taken(state, last)
	}
	var p prospect
	mean, changed := 0.0, uint64(0)
	if len(state) == estimateSize {
		p.w, mean, p.x, changed = (*[rates]float64)(state), state[rates], state[rates+1], uint64(state[rates+2])
	} else {
		first := start(c.Query.Learnt, v.lead)
		p.w, mean = &first.w, first.mean
	}
	if changed == 0 && (len(state) == estimateSize || isOwn(c.Query.Learnt)) {
		p.learn = &v.learn[costClass(seconds(c))]
	}
	p.tau = max(0, v.now-v.calendar.clock(last))
	at := v.cellOf(mean, changed)
	p.e, p.leave = math.Exp(-v.missed*v.ratio[at]*p.tau*policy.LowestRate), &v.leave[at]
	if c.Hinted {
		p.hint = v.evidence()
	}
	return p
}

// gain is the worth of an execution regardless of its cost.
func (p *prospect) gain() float64 {
	same, stay := p.sums()
	still := 1 - p.x
	if p.hint > 0 { // for most queries there is none, and an exponential takes long
		still *= math.Exp(-p.hint)
	}
	gain := 1 - float64(still*(float64(same*(1+p.hint))+float64(p.tau*stay)))
	if p.learn != nil {
		gain += p.lesson()
	}
	return gain
}

// lesson is what an execution is worth because it may show that the query changes often:
// min(τ, horizon)·(1 − q)·Σ_k w_k·(1 − e^(−rλ_kτ))·v_k, where v_k is what it is worth in a slot to
// know rate k, and q the probability that the rate is one with v_k > 0. What is certain has nothing
// to teach. A query that has waited for τ slots is executed after about as many again, whatever
// is known of it, so knowledge pays for as long.
func (p *prospect) lesson() float64 {
	sum, certain, e := 0.0, 0.0, p.e
	for k, w := range p.w {
		if v := p.learn[k]; v > 0 {
			certain += w
			sum += float64(w * (1 - e) * v)
		}
		e *= e
	}
	return float64((1-certain)*sum) * min(p.tau, horizon)
}

func seconds(c *policy.Candidate) float64 { return max(c.Median, quick).Seconds() }

// cellOf is a query's cell at the start of the slot.
func (v *view) cellOf(mean float64, changed uint64) int {
	return cell(mean, changed > 0, v.start-v.calendar.clock(changed))
}

// taken returns a state with its pending sample applied. That is necessary if the
// process ended before the slot did.
func (v *view) taken(state []float64, last uint64) []float64 {
	b := readEstimate(state)
	tau := max(emptySlot, v.calendar.clock(last)-v.calendar.clock(b.from))
	b.learn(last, tau, v.ratio[v.cellOf(b.mean, b.changed)], b.sample == foundChange)
	b.sample, b.from = noSample, 0
	return b.state()
}
