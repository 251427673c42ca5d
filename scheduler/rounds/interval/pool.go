package interval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// A Pool holds the open CEIs of a budget. It is not safe for concurrent use.
type Pool[R comparable] struct {
	ranking Ranking
	now     uint64
	open    map[uint64]*Progress[R]
	of      map[R]map[uint64]bool // the open CEIs that need a resource
}

// NewPool returns an empty pool. Its first chronon has not begun.
func NewPool[R comparable](r Ranking) *Pool[R] {
	return &Pool[R]{ranking: r, open: map[uint64]*Progress[R]{}, of: map[R]map[uint64]bool{}}
}

// Open adds a CEI. EIs that have already started take part in the order of this
// chronon. Open returns ErrOver if an EI ended before the current chronon, and
// ErrMalformed if the CEI is invalid or its id is already open. The pool keeps
// c.EIs, which must not be modified.
func (a *Pool[R]) Open(c CEI[R]) error { return a.Resume(Progress[R]{CEI: c}) }

// Resume adds a CEI of which some EIs may already be captured.
func (a *Pool[R]) Resume(p Progress[R]) error {
	if err := p.check(); err != nil {
		return err
	}
	if a.open[p.ID] != nil {
		return fmt.Errorf("%w %d: it is open already", ErrMalformed, p.ID)
	}
	if p.Left() == 0 {
		return fmt.Errorf("%w %d: all of it is captured", ErrMalformed, p.ID)
	}
	if p.over(a.now) {
		return fmt.Errorf("complex execution interval %d: %w", p.ID, ErrOver)
	}
	p.Captured = append(make([]uint64, 0, len(p.EIs)), p.Captured...)[:len(p.EIs)]
	a.open[p.ID] = &p
	for _, e := range p.EIs {
		if a.of[e.Resource] == nil {
			a.of[e.Resource] = map[uint64]bool{}
		}
		a.of[e.Resource][p.ID] = true
	}
	return nil
}

// over reports whether an EI ended without a capture before a chronon.
func (p *Progress[R]) over(now uint64) bool {
	for i, e := range p.EIs {
		if e.Finish < now && (p.Captured == nil || p.Captured[i] == 0) {
			return true
		}
	}
	return false
}

// Advance begins chronon t. It drops the CEIs that have an EI that ended before t, and
// returns them by id, with their captures. Chronons may be skipped, but t must not decrease.
func (a *Pool[R]) Advance(t uint64) (lost []Progress[R]) {
	a.now = max(a.now, t)
	for _, p := range a.open {
		if p.over(a.now) {
			lost = append(lost, *p)
			a.drop(p)
		}
	}
	slices.SortFunc(lost, func(x, y Progress[R]) int { return cmp.Compare(x.ID, y.ID) })
	return lost
}

func (a *Pool[R]) drop(p *Progress[R]) {
	delete(a.open, p.ID)
	for _, e := range p.EIs {
		if delete(a.of[e.Resource], p.ID); len(a.of[e.Resource]) == 0 {
			delete(a.of, e.Resource)
		}
	}
}

// A Claim is an EI that needs a probe.
type Claim[R comparable] struct {
	Resource R
	CEI      uint64 // id
	EI       int    // index
	Finish   uint64 // last chronon in which it can be captured
	Begun    bool   // the CEI has a captured EI
	Value    float64
}

// Order returns the resources with an active, uncaptured EI, each with its first-ranked EI.
func (a *Pool[R]) Order() []Claim[R] {
	done := map[R]bool{}
	return slices.DeleteFunc(a.Claims(), func(c Claim[R]) bool {
		twice := done[c.Resource]
		done[c.Resource] = true
		return twice
	})
}

// Claims returns every active, uncaptured EI. The smallest value comes first, then the
// earlier finish, then the smaller CEI id, then the earlier EI.
func (a *Pool[R]) Claims() (list []Claim[R]) {
	for _, p := range a.open {
		s := a.state(p)
		for i, e := range p.EIs {
			if p.Captured[i] == 0 && e.Start <= a.now {
				list = append(list, Claim[R]{e.Resource, p.ID, i, e.Finish, s.captured > 0, a.ranking.value(s, e.Finish-a.now+1)})
			}
		}
	}
	slices.SortFunc(list, func(x, y Claim[R]) int {
		if x.Begun != y.Begun && !a.ranking.Preemptive {
			if x.Begun {
				return -1
			}
			return 1
		}
		if x.Value != y.Value {
			return cmp.Compare(x.Value, y.Value)
		}
		return cmp.Or(cmp.Compare(x.Finish, y.Finish), cmp.Compare(x.CEI, y.CEI), cmp.Compare(x.EI, y.EI))
	})
	return list
}

// state returns what the ranking needs to know about a CEI.
func (a *Pool[R]) state(p *Progress[R]) state {
	s := state{captured: len(p.EIs) - p.Left(), rank: cmp.Or(p.Rank, len(p.EIs)), weight: cmp.Or(p.Weight, 1)}
	for i, e := range p.EIs {
		if p.Captured[i] == 0 {
			s.due += e.Finish - max(e.Start, a.now) + 1
		}
	}
	return s
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
func (a *Pool[R]) Probe(r R) (hits []Hit[R]) {
	for _, id := range slices.Sorted(maps.Keys(a.of[r])) {
		p := a.open[id]
		hit := Hit[R]{CEI: p.CEI}
		for i, e := range p.EIs {
			if e.Resource == r && p.Captured[i] == 0 && e.Start <= a.now {
				p.Captured[i] = a.now
				hit.EIs = append(hit.EIs, i)
			}
		}
		if hit.EIs == nil {
			continue
		}
		if hit.Left = p.Left(); hit.Left == 0 {
			hit.Captured = p.Captured
			a.drop(p)
		}
		hits = append(hits, hit)
	}
	return hits
}
