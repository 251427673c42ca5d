package interval

import (
	"cmp"
	"fmt"
	"slices"
)

// A State is an agenda as plain data.
type State[R comparable] struct {
	Now  uint64        `json:"now"`
	Open []Progress[R] `json:"open"` // by id
}

// State copies what the agenda knows.
func (a *Agenda[R]) State() State[R] {
	s := State[R]{Now: a.now, Open: make([]Progress[R], 0, len(a.ceis))}
	for _, h := range a.ceis {
		s.Open = append(s.Open, h.progress())
	}
	slices.SortFunc(s.Open, func(x, y Progress[R]) int { return cmp.Compare(x.ID, y.ID) })
	return s
}

// Restore makes an agenda of a state, under the same ranking or another.
func Restore[R comparable](r Ranking, s State[R]) (*Agenda[R], error) {
	a := NewAgenda[R](r)
	a.Advance(s.Now)
	for _, p := range s.Open {
		if err := a.Resume(p); err != nil {
			return nil, fmt.Errorf("restore agenda: %w", err)
		}
	}
	return a, nil
}

// Progress tells how far an open CEI is.
func (a *Agenda[R]) Progress(id uint64) (Progress[R], bool) {
	h, ok := a.ceis[id]
	if !ok {
		return Progress[R]{}, false
	}
	return h.progress(), true
}

// progress copies the marks of capture.
func (h *held[R]) progress() Progress[R] {
	p := Progress[R]{CEI: h.cei}
	if h.captured > 0 {
		p.Captured = make([]uint64, len(h.entries))
		for i := range h.entries {
			p.Captured[i] = h.entries[i].at
		}
	}
	return p
}
