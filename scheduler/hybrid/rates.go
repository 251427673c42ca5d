package hybrid

import (
	"math"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// rates is the number of change rates of each query. Rates are per live slot.
const rates = policy.Rates

// A rateEstimate is the estimate for one query: the likelihood of each rate, and
// the excitation, which is the probability that a related query's change implies a
// change here. A pending sample is an execution that has not been applied yet: the
// one in slot Stats.Last.
type rateEstimate struct {
	w       [rates]float64
	mean    float64 // rate, per live slot
	x       float64
	changed uint64 // slot of the last change found, 0 = none
	sample  int
	from    uint64 // slot of the execution before the pending one
}

const (
	noSample = iota
	foundNone
	foundChange
)

// estimateSize is the length of the state.
const estimateSize = rates + 5

// prior puts 96.5 % on the four lowest rates and 3.5 % on the others, each evenly.
// Its tail is heavy, so one change raises the estimate by orders of magnitude.
func prior() rateEstimate {
	var b rateEstimate
	for k := range b.w {
		b.w[k] = 0.035 / (rates - 4)
		if k < 4 {
			b.w[k] = 0.965 / 4
		}
	}
	b.mean = b.rate()
	return b
}

// start is the estimate before the first sample: the prior, and what was learnt elsewhere, as if
// those executions had come at equal intervals. So the likelihood of n changes in m executions t slots
// apart is (1 − e^(−λt))^n·e^(−λt(m−n)). More than mostLearnt executions count as so many,
// since rates drift. It is the prior if nothing was learnt or if there is no grid.
//
// If the executions were of other queries with the same template, more than mostOfOthers count as so many, and
// the estimate is half of that and half of the prior, since such queries need not change alike.
//
// Sources: J. Cho, H. Garcia-Molina, "Estimating frequency of change", 2003, regular access; H. Schmidli et al., "Robust
// meta-analytic-predictive priors in clinical trials with historical control information", 2014, for the half.
func start(k *registry.Learnt, lead time.Duration) rateEstimate {
	b := prior()
	if k == nil || lead <= 0 || k.Executions == 0 || !(k.Days > 0) {
		return b
	}
	m := float64(k.Executions)
	n, apart := min(float64(k.Changes), m), min(max(k.Days*24*float64(time.Hour)/float64(lead)/m, 1e-9), 1e9)
	part, own, most, rate := min(1, mostLearnt/m), 1.0, math.Inf(-1), policy.LowestRate
	if !isOwn(k) {
		part, own = min(1, mostOfOthers/m), 0.5
	}
	var log [rates]float64
	for i, w := range b.w {
		e := -rate * apart
		log[i] = math.Log(w) + part*(n*math.Log(-math.Expm1(e))+e*(m-n))
		most = max(most, log[i])
		rate *= 2
	}
	sum := 0.0
	for i := range b.w {
		b.w[i] = max(math.Exp(log[i]-most), 1e-12)
		sum += b.w[i]
	}
	before := prior()
	for i := range b.w {
		b.w[i] = float64(own*b.w[i]/sum) + float64((1-own)*before.w[i])
	}
	b.mean = b.rate()
	return b
}

const (
	mostLearnt   = 32
	mostOfOthers = 16
)

// isOwn reports whether something was learnt of the query itself.
func isOwn(k *registry.Learnt) bool { return k != nil && k.Source == "" }

// isFirst reports whether a query's pending sample is its first.
func isFirst(c *policy.Candidate) bool { return c.Stats.Executions == 2 }

func readEstimate(state []float64) rateEstimate {
	if len(state) != estimateSize {
		return prior()
	}
	b := rateEstimate{
		mean: state[rates], x: state[rates+1], changed: uint64(state[rates+2]),
		sample: int(state[rates+3]), from: uint64(state[rates+4]),
	}
	copy(b.w[:], state)
	return b
}

func (b *rateEstimate) state() []float64 {
	s := make([]float64, estimateSize)
	copy(s, b.w[:])
	s[rates], s[rates+1], s[rates+2] = b.mean, b.x, float64(b.changed)
	s[rates+3], s[rates+4] = float64(b.sample), float64(b.from)
	return s
}

// isPending reports whether a state has a pending sample.
func isPending(state []float64) bool { return len(state) == estimateSize && state[rates+3] != noSample }

func (b *rateEstimate) isPending() bool { return b.sample != noSample }

func (b *rateEstimate) rate() float64 {
	sum, rate := 0.0, policy.LowestRate
	for _, w := range b.w {
		sum += float64(w * rate)
		rate *= 2
	}
	return sum
}

// survival is the probability that nothing changed in tau live slots, if all rates
// are multiplied by r. e^(−2a) is the square of e^(−a), so one exponential serves
// all rates.
func survival(w []float64, r, tau float64) float64 {
	sum, e := 0.0, math.Exp(-r*tau*policy.LowestRate)
	for _, x := range w[:rates] {
		sum += float64(x * e)
		e *= e
	}
	return sum
}

// learn applies an execution in the given slot, tau live slots after the one
// before, with all rates multiplied by r. Rates drift: a little of each likelihood
// moves to its neighbours.
func (b *rateEstimate) learn(slot uint64, tau, r float64, changed bool) {
	const least = 1e-12
	leak := min(0.25, 0.002*tau)
	was, sum := b.w, 0.0
	e := math.Exp(-r * tau * policy.LowestRate)
	for k := range b.w {
		up, down := was[min(k+1, rates-1)], was[max(k-1, 0)]
		w := was[k] + float64(leak*(up+down-2*was[k]))
		if changed {
			w *= 1 - e
		} else {
			w *= e
		}
		b.w[k] = max(w, least)
		sum += b.w[k]
		e *= e
	}
	for k := range b.w {
		b.w[k] /= sum
	}
	b.mean, b.x = b.rate(), 0
	if changed {
		b.changed = slot
	}
}
