package scheduler

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// The change rates that a query may have had: 2^(k−14) per slot.
const (
	rates    = 17
	rateStep = 14
)

// A drawn is one possible past: when the queries' results changed, in slots
// after from, ascending, and how far.
type drawn struct {
	h       *history
	seed    uint64
	changes [][]event
}

// An event leaves a part of what was there alike, 1 − Jaccard distance. Parts
// multiply, as they do when rows are only added or only removed; those of one
// interval multiply to what was found.
type event struct {
	slot  uint64
	alike float64
}

// likelihood is how likely each rate of change, 2^(k−14) per slot, makes what
// the recorded executions of each query found.
func (h *history) likelihood() [][rates]float64 {
	out := make([][rates]float64, len(h.queries))
	for q := range out {
		for k := range out[q] {
			out[q][k] = 1.0 / rates
		}
		for last, x := range h.intervals(q) {
			e, sum := math.Exp(-float64(x.Slot-last)/(1<<rateStep)), 0.0
			for k := range out[q] {
				if x.Changed {
					out[q][k] *= 1 - e
				} else {
					out[q][k] *= e
				}
				sum += out[q][k]
				e *= e
			}
			for k := range out[q] {
				out[q][k] /= sum
			}
		}
	}
	return out
}

// rates draws a rate for each query: by Bayes from its own history and from the
// rates of the others, which lie close together (Gibbs sampling with a Dirichlet
// prior over the rates, integrated out).
func (h *history) rates(r *rand.Rand) []int {
	const sweeps = 6
	prior := math.Exp2(-6 * r.Float64()) // how close is open, too
	out := make([]int, len(h.queries))
	var of [rates]float64
	for k := range of {
		of[k] = prior
	}
	for sweep := range sweeps {
		for q := range out {
			if sweep > 0 {
				of[out[q]]--
			}
			sum := 0.0
			for k, n := range of {
				sum += n * h.chances[q][k]
			}
			at, k := r.Float64()*sum, 0
			for ; k < rates-1; k++ {
				if at -= of[k] * h.chances[q][k]; at < 0 {
					break
				}
			}
			out[q] = k
			of[k]++
		}
	}
	return out
}

// intervals are a query's recorded executions, each with the slot of the one
// before it, or from, where its history begins earlier.
func (h *history) intervals(q int) func(yield func(uint64, Sample) bool) {
	return func(yield func(uint64, Sample) bool) {
		last := max(h.before[q].Slot, h.from)
		for _, x := range h.samples[q] {
			if x.Slot <= last {
				continue
			}
			if !yield(last, x) {
				return
			}
			last = x.Slot
		}
	}
}

// draw makes up a past in which the recorded executions find what they found.
// Every query has one rate, which is drawn; an interval whose end found a change
// has one at least, one whose end found none has none, and what came after the
// last execution is open.
func (h *history) draw(seed uint64) *drawn {
	w := &drawn{h: h, seed: seed, changes: make([][]event, len(h.queries))}
	r := rand.New(rand.NewPCG(seed, 0))
	for q, k := range h.rates(r) {
		rate := math.Ldexp(1, k-rateStep)
		last, alike := max(h.before[q].Slot, h.from), 0.0
		for since, x := range h.intervals(q) {
			if last = x.Slot; x.Changed {
				new := w.between(q, r, rate, since, x.Slot, true)
				alike = math.Pow(1-x.Jaccard, 1/float64(len(new)))
				for i := range new {
					new[i].alike = alike
				}
			}
		}
		for i, new := 0, w.between(q, r, rate, last, h.to, false); i < len(new); i++ {
			new[i].alike = alike
		}
	}
	return w
}

// between draws the changes of a query in the slots after one and up to
// another, one at most in each and, when it is certain, one at least in all.
func (w *drawn) between(q int, r *rand.Rand, rate float64, after, to uint64, certain bool) []event {
	slots, at, n := float64(to-after), 0.0, len(w.changes[q])
	if certain {
		// The first of a geometric distribution that ends with the interval.
		at = min(slots, 1+math.Floor(-math.Log1p(r.Float64()*math.Expm1(-rate*slots))/rate))
	} else {
		at = 1 + math.Floor(r.ExpFloat64()/rate)
	}
	for ; at <= slots; at += 1 + math.Floor(r.ExpFloat64()/rate) {
		w.changes[q] = append(w.changes[q], event{slot: after - w.h.from + uint64(at)})
	}
	return w.changes[q][n:]
}

// within finds the changes of a query after one slot and up to another.
func (w *drawn) within(query int, after, to uint64) []event {
	list := w.changes[query]
	from, _ := slices.BinarySearchFunc(list, after+1, bySlot)
	end, _ := slices.BinarySearchFunc(list[from:], to+1, bySlot)
	return list[from : from+end]
}

func bySlot(e event, slot uint64) int { return cmp.Compare(e.slot, slot) }

// Execute tells what an execution would have brought.
func (w *drawn) Execute(query int, slot, last uint64) Known {
	k := Known{Outcome: registry.Unchanged, Elapsed: w.cost(query, slot)}
	if slot == 0 {
		return k
	}
	if found := w.within(query, last, slot); len(found) > 0 {
		alike := 1.0
		for _, e := range found {
			alike *= e.alike
		}
		k.Outcome, k.Jaccard = registry.Changed, 1-alike
	}
	return k
}

// cost is what a recorded execution in the slot took, else what one of the two
// nearest took.
func (w *drawn) cost(query int, slot uint64) time.Duration {
	all, at := w.h.samples[query], slot+w.h.from
	n, found := slices.BinarySearchFunc(all, at, func(x Sample, s uint64) int { return cmp.Compare(x.Slot, s) })
	before := w.h.before[query]
	if n > 0 {
		before = all[n-1]
	}
	if found || n < len(all) && mixed(w.seed, uint64(query), slot)&1 > 0 {
		return all[n].Elapsed
	}
	return before.Elapsed
}

// mixed is a number that follows from others and looks random.
func mixed(a, b, c uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + c*0x94d049bb133111eb
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Total says nothing: slots are played one by one.
func (*drawn) Total(uint64) (cost, longest time.Duration, ok bool) { return 0, 0, false }

// total is how many changes there were.
func (w *drawn) total() (n int) {
	for _, list := range w.changes {
		n += len(list)
	}
	return n
}
