package interval

import (
	"cmp"
	"fmt"
	"slices"
)

// A Pool holds the open CEIs of a budget. It is not safe for concurrent use.
type Pool[R comparable] struct {
	ranking Ranking
	now     uint64
	ceis    map[uint64]*held[R]
	coming  heap            // EIs that have not started, by start
	ending  heap            // active EIs, by finish
	groups  map[group]*heap // active EIs in rank order
	of      map[R][]*entry  // active EIs by resource
	active  int
}

// held is an open CEI as the caller passed it.
type held[R comparable] struct {
	open
	cei CEI[R]
}

// open is what the ranking needs to know about an open CEI.
type open struct {
	id       uint64
	rank     int
	weight   float64
	entries  []entry
	captured int
	active   int64 // EIs that have started and are not captured
	due      int64 // Σ of T_f + 1 over these, and of the lengths of those not yet started
}

// entry is one EI of an open CEI.
type entry struct {
	cei           *open
	index         int
	start, finish uint64
	at            uint64 // chronon of capture, 0 = not yet
	key           key
	queue         int // place in coming or ending
	rank          int // place in its group
	slot          int // place among the active EIs of its resource
	live          bool
}

// NewPool returns an empty pool. Its first chronon has not begun.
func NewPool[R comparable](r Ranking) *Pool[R] {
	return &Pool[R]{
		ranking: r,
		ceis:    map[uint64]*held[R]{},
		coming:  heap{before: startsBefore, place: inQueue},
		ending:  heap{before: endsBefore, place: inQueue},
		groups:  map[group]*heap{},
		of:      map[R][]*entry{},
	}
}

// Now is the current chronon, 0 before the first Advance.
func (a *Pool[R]) Now() uint64 { return a.now }

// Len is the number of open CEIs.
func (a *Pool[R]) Len() int { return len(a.ceis) }

// Active is the number of EIs that have started and are not captured.
func (a *Pool[R]) Active() int { return a.active }

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
	if _, twice := a.ceis[p.ID]; twice {
		return fmt.Errorf("%w %d: it is open already", ErrMalformed, p.ID)
	}
	if p.Left() == 0 {
		return fmt.Errorf("%w %d: all of it is captured", ErrMalformed, p.ID)
	}
	for i, e := range p.EIs {
		if e.Finish < a.now && (p.Captured == nil || p.Captured[i] == 0) {
			return fmt.Errorf("complex execution interval %d: %w", p.ID, ErrOver)
		}
	}
	h := hold(p)
	a.ceis[p.ID] = h
	for i := range h.entries {
		if e := &h.entries[i]; e.at == 0 {
			h.due += int64(e.finish - e.start + 1)
			a.coming.push(e)
		}
	}
	for i := range h.entries {
		if e := &h.entries[i]; e.at == 0 && e.start <= a.now {
			a.coming.remove(e.queue)
			a.begin(e)
		}
	}
	a.rerank(&h.open)
	return nil
}

func hold[R comparable](p Progress[R]) *held[R] {
	h := &held[R]{cei: p.CEI, open: open{id: p.ID, rank: p.Rank, weight: p.Weight}}
	if h.rank == 0 {
		h.rank = len(p.EIs)
	}
	if h.weight == 0 {
		h.weight = 1
	}
	h.entries = make([]entry, len(p.EIs))
	for i, e := range p.EIs {
		h.entries[i] = entry{cei: &h.open, index: i, start: e.Start, finish: e.Finish}
		if p.Captured != nil && p.Captured[i] > 0 {
			h.entries[i].at = p.Captured[i]
			h.captured++
		}
	}
	return h
}

// Advance begins chronon t. It starts the EIs due by then and drops the CEIs that
// have an EI that ended before t. It returns the dropped CEIs by id, with their
// captures. Chronons may be skipped, but t must not decrease.
func (a *Pool[R]) Advance(t uint64) []Progress[R] {
	a.now = max(a.now, t)
	touched := map[*open]bool{}
	for len(a.coming.items) > 0 && a.coming.items[0].start <= a.now {
		e := a.coming.items[0]
		a.coming.remove(0)
		a.begin(e)
		touched[e.cei] = true
	}
	var lost []Progress[R]
	for len(a.ending.items) > 0 && a.ending.items[0].finish < a.now {
		c := a.ending.items[0].cei
		delete(touched, c)
		lost = append(lost, a.drop(c.id))
	}
	for c := range touched {
		a.rerank(c)
	}
	slices.SortFunc(lost, func(x, y Progress[R]) int { return cmp.Compare(x.ID, y.ID) })
	return lost
}

// begin makes an EI active. The caller must call rerank afterwards.
func (a *Pool[R]) begin(e *entry) {
	e.live = true
	e.cei.active++
	e.cei.due += int64(e.start) // its length becomes T_f + 1
	a.active++
	a.ending.push(e)
	r := a.resource(e)
	e.slot = len(a.of[r])
	a.of[r] = append(a.of[r], e)
	e.rank = -1
}

// end reverses begin.
func (a *Pool[R]) end(e *entry) {
	e.live = false
	e.cei.active--
	e.cei.due -= int64(e.finish) + 1
	a.active--
	a.ending.remove(e.queue)
	a.leave(e)
	r := a.resource(e)
	s := a.of[r]
	last := s[len(s)-1]
	s[e.slot], last.slot = last, e.slot
	s[len(s)-1] = nil
	if a.of[r] = s[:len(s)-1]; len(a.of[r]) == 0 {
		delete(a.of, r)
	}
}

// leave removes an EI from its group.
func (a *Pool[R]) leave(e *entry) {
	if e.rank < 0 {
		return
	}
	g := a.groups[e.key.group]
	g.remove(e.rank)
	if e.rank = -1; len(g.items) == 0 {
		delete(a.groups, e.key.group)
	}
}

// rerank moves the active EIs of a CEI to their places. All that move leave before
// the first one enters, because their places depend on their keys.
func (a *Pool[R]) rerank(c *open) {
	for i := range c.entries {
		e := &c.entries[i]
		if !e.live {
			continue
		}
		if k := a.ranking.key(c, e); k != e.key || e.rank < 0 {
			a.leave(e)
			e.key = k
		}
	}
	for i := range c.entries {
		if e := &c.entries[i]; e.live && e.rank < 0 {
			g := a.groups[e.key.group]
			if g == nil {
				g = &heap{before: ranksBefore, place: inRank}
				a.groups[e.key.group] = g
			}
			g.push(e)
		}
	}
}

// resource returns the resource of an entry.
func (a *Pool[R]) resource(e *entry) R { return a.ceis[e.cei.id].cei.EIs[e.index].Resource }

// drop removes an open CEI and returns its progress.
func (a *Pool[R]) drop(id uint64) Progress[R] {
	h := a.ceis[id]
	for i := range h.entries {
		switch e := &h.entries[i]; {
		case e.live:
			a.end(e)
		case e.at == 0:
			a.coming.remove(e.queue)
		}
	}
	delete(a.ceis, id)
	return h.progress()
}

// progress returns a copy of the captures.
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
