package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// ErrNoHistory means that no query has been executed yet.
var ErrNoHistory = errors.New("no query has a history yet")

// How many histories are sampled.
const (
	maxSamples = 16
	minSamples = 4
)

// rates is how many rates of change a query can have.
const rates = policy.Rates

// A history is what is recorded of an endpoint.
type history struct {
	from, to   uint64 // slots; from is t0
	queries    []registry.Query
	executions [][]policy.Sample // oldest first, those after from
	before     []policy.Sample   // the last one until then
	chances    [][rates]float64  // by query: what each rate makes of its record
}

// newHistory finds the slots to play, at most as many as work allows.
func newHistory(entries []policy.Entry, work int) (*history, error) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e policy.Entry) bool { return len(e.Stats.Samples) == 0 })
	if len(entries) == 0 {
		return nil, fmt.Errorf("shadow: %w", ErrNoHistory)
	}
	slices.SortFunc(entries, func(a, b policy.Entry) int { return cmp.Compare(a.Query.ID, b.Query.ID) })
	h := &history{}
	var firsts []uint64
	for _, e := range entries {
		firsts = append(firsts, e.Stats.Samples[0].Slot)
		h.to = max(h.to, e.Stats.Last)
	}
	slices.Sort(firsts)
	h.from = firsts[len(firsts)/2]
	if work > 0 {
		h.from = max(h.from, h.to-min(h.to, uint64(max(1, work/minSamples/len(entries)))))
	}
	for _, e := range entries {
		all := e.Stats.Samples
		n, _ := slices.BinarySearchFunc(all, h.from+1, func(x policy.Sample, s uint64) int { return cmp.Compare(x.Slot, s) })
		h.queries = append(h.queries, unpaused(e.Query))
		h.before = append(h.before, all[max(0, n-1)])
		h.executions = append(h.executions, all[n:])
	}
	h.chances = h.likelihood()
	return h, nil
}

// unpaused returns a query that is paused now as one that was wanted until then.
func unpaused(q registry.Query) registry.Query {
	p := q.Paused()
	if p == nil {
		return q
	}
	q.Pause, q.Holders = nil, slices.Clone(q.Holders)
	for i := range q.Holders {
		h := &q.Holders[i]
		if h.Pause = nil; h.Until == nil || h.Until.After(p.At) {
			h.Until = &p.At
		}
	}
	return q
}

// affordable is how many histories work allows, 0 = any.
func (h *history) affordable(work int) int {
	if work == 0 {
		return maxSamples
	}
	return min(maxSamples, max(minSamples, work/max(1, len(h.queries)*int(h.to-h.from))))
}

// likelihood is how likely each rate of change makes what the recorded executions
// of each query found.
func (h *history) likelihood() [][rates]float64 {
	out := make([][rates]float64, len(h.queries))
	for q := range out {
		for k := range out[q] {
			out[q][k] = 1.0 / rates
		}
		for last, x := range h.intervals(q) {
			e, sum := math.Exp(-float64(x.Slot-last)*policy.LowestRate), 0.0
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

// drawRates draws the rate k of each query: by Bayes from its own record and from
// the rates of the others, which lie close together (Gibbs sampling with a
// Dirichlet prior over the rates, integrated out).
func (h *history) drawRates(r *rand.Rand) []int {
	const sweeps = 6
	prior := math.Exp2(-6 * r.Float64()) // how close is open as well
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

// intervals yields a query's recorded executions, each with the slot of the one
// before it, or from, where its record begins earlier.
func (h *history) intervals(q int) iter.Seq2[uint64, policy.Sample] {
	return func(yield func(uint64, policy.Sample) bool) {
		last := max(h.before[q].Slot, h.from)
		for _, x := range h.executions[q] {
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
