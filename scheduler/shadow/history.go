package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// ErrNoHistory means that no query has been executed yet.
var ErrNoHistory = errors.New("no query has a history yet")

// A history is what is recorded of an endpoint.
type history struct {
	from, to   uint64 // slots; from is t0
	queries    []registry.Query
	executions [][]policy.Sample // oldest first, those after from
	before     []policy.Sample   // the last one until then
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
		h.from = max(h.from, h.to-min(h.to, uint64(max(1, work/pasts/len(entries)))))
	}
	for _, e := range entries {
		all := e.Stats.Samples
		n, _ := slices.BinarySearchFunc(all, h.from+1, func(x policy.Sample, s uint64) int { return cmp.Compare(x.Slot, s) })
		h.queries = append(h.queries, unpaused(e.Query))
		h.before = append(h.before, all[max(0, n-1)])
		h.executions = append(h.executions, all[n:])
	}
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
