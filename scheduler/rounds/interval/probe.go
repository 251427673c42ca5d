package interval

import (
	"cmp"
	"iter"
	"slices"
)

// A Claim is an EI that needs a probe.
type Claim[R comparable] struct {
	Resource R
	CEI      uint64 // id
	EI       int    // index
	Finish   uint64 // last chronon in which it can be captured
	Begun    bool   // the CEI has a captured EI
	Value    float64
}

// Order yields the resources with an active, uncaptured EI, each with its
// first-ranked EI. The smallest value comes first, then the earlier finish, then the
// smaller CEI id, then the earlier EI. The pool must not change during the
// iteration.
func (a *Pool[R]) Order() iter.Seq[Claim[R]] {
	return func(yield func(Claim[R]) bool) {
		done := make(map[R]bool)
		for e := range a.entries() {
			r := a.resource(e)
			if done[r] {
				continue
			}
			done[r] = true
			if !yield(a.claim(r, e)) || len(done) == len(a.of) {
				return
			}
		}
	}
}

// Claims yields every active, uncaptured EI in the order of Order.
func (a *Pool[R]) Claims() iter.Seq[Claim[R]] {
	return func(yield func(Claim[R]) bool) {
		for e := range a.entries() {
			if !yield(a.claim(a.resource(e), e)) {
				return
			}
		}
	}
}

func (a *Pool[R]) claim(r R, e *entry) Claim[R] {
	return Claim[R]{
		Resource: r, CEI: e.cei.id, EI: e.index, Finish: e.finish,
		Begun: e.cei.captured > 0, Value: e.key.value(a.now),
	}
}

// entries walks the heaps from the top without removing anything. A heap of its own
// holds the places that were reached and not yet yielded.
func (a *Pool[R]) entries() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		f := frontier{now: a.now}
		for _, g := range a.groups {
			f.push(place{g, 0})
		}
		for len(f.places) > 0 {
			p := f.pop()
			if !yield(p.entry()) {
				return
			}
			for child := 2*p.at + 1; child <= 2*p.at+2 && child < len(p.heap.items); child++ {
				f.push(place{p.heap, child})
			}
		}
	}
}

// A Hit is the effect of a probe on one CEI.
type Hit[R comparable] struct {
	CEI CEI[R]
	EIs []int // indices of the EIs that it captured, ascending
	// Left is the number of EIs that are not captured. If it is 0, the CEI is
	// captured and has left the pool.
	Left int
	// Captured holds, for a captured CEI, the chronon in which each EI was captured.
	Captured []uint64
}

// Probe captures every active EI of resource r in the current chronon. It returns
// the hits in the order of CEI ids.
func (a *Pool[R]) Probe(r R) []Hit[R] {
	caught := slices.Clone(a.of[r])
	if len(caught) == 0 {
		return nil
	}
	slices.SortFunc(caught, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.cei.id, y.cei.id), cmp.Compare(x.index, y.index))
	})
	hits := make([]Hit[R], 0, len(caught))
	indices := make([]int, len(caught)) // shared by all hits
	for from, to := 0, 0; from < len(caught); from = to {
		c := caught[from].cei
		for to = from; to < len(caught) && caught[to].cei == c; to++ {
			a.capture(caught[to])
			indices[to] = caught[to].index
		}
		hits = append(hits, a.settle(a.ceis[c.id], indices[from:to:to]))
	}
	return hits
}

func (a *Pool[R]) capture(e *entry) {
	a.end(e)
	e.at = a.now
	e.cei.captured++
}

// settle updates one CEI after its EIs were captured.
func (a *Pool[R]) settle(h *held[R], eis []int) Hit[R] {
	hit := Hit[R]{CEI: h.cei, EIs: eis, Left: len(h.entries) - h.captured}
	if hit.Left > 0 {
		a.rerank(&h.open)
		return hit
	}
	hit.Captured = h.progress().Captured
	delete(a.ceis, h.id)
	return hit
}
