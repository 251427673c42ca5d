package plan

import (
	"slices"

	"github.com/freshet/freshet/registry"
)

// Hinted is the effect of a hint.
type Hinted struct {
	Affected int  `json:"affected"` // queries that may be affected
	Queries  int  `json:"queries"`  // queries of the endpoint
	All      bool `json:"all"`      // all queries may be affected
	Skipped  int  `json:"skipped"`  // lines that could not be parsed
}

// JoinHints returns a hint that marks the queries of two hints, or all.
func JoinHints(a *registry.Hint, b registry.Hint) *registry.Hint {
	if a != nil {
		b.All = b.All || a.All || len(a.Touched)+len(b.Touched)+len(a.Changed)+len(b.Changed) > maxHinted
		b.Touched = append(slices.Clip(a.Touched), b.Touched...)
		b.Changed = append(slices.Clip(a.Changed), b.Changed...)
	}
	if b.All {
		b.Touched, b.Changed = nil, nil
	}
	return &b
}

// HintNew lets new queries run outside the grid.
func (p *Planner) HintNew() { p.ownHints().fresh = true }

func (p *Planner) ownHints() *hints {
	if p.hints == nil {
		p.hints = &hints{marked: map[*item]struct{}{}}
	}
	return p.hints
}

// Hint marks the queries that h may affect.
func (p *Planner) Hint(h registry.Hint) Hinted {
	t := p.ownHints()
	done := Hinted{Queries: len(p.all), Skipped: h.Skipped}
	var affected map[*item]struct{}
	if !h.All {
		for p.GrowPatterns() {
		}
		affected, done.All = p.pattern.affected(&h)
	}
	if h.All || done.All {
		t.all, done.All, done.Affected = true, true, len(p.all)
		return done
	}
	done.Affected = len(affected)
	for c := range affected {
		if t.marked[c] = struct{}{}; len(t.marked) > maxHinted {
			t.all = true
			clear(t.marked)
			break
		}
	}
	return done
}

// follows reports whether a hint may make a query run now: it is ranked, or only not
// due.
func (p *queues) follows(c *item) bool {
	return !c.ran && (c.in == &p.ranked && c.tier == TierRanked || c.in == nil && c.why == notDue) && c.Estimate <= p.budget/hintShare
}

// repeatable reports whether a query may run outside the grid: it has not failed since
// the last slot began.
func (p *queues) repeatable(c *item) bool {
	r := &c.Stats.LastRun
	return r.Outcome.Complete() || r.Slot+1 < p.slot
}

// applyHints sorts the marked queries for the slot that begins.
func (p *Planner) applyHints() {
	t := p.hints
	if t == nil {
		return
	}
	t.order = t.order[:0]
	for c := range t.marked {
		if p.follows(c) {
			t.order = append(t.order, c)
		}
	}
	if t.all {
		t.all = false
		for _, early := range [][]*item{p.slots.next(maxEarly), p.rests[:min(len(p.rests), maxEarly)]} {
			for _, c := range early {
				if !t.has(c) && p.follows(c) {
					t.order = append(t.order, c)
				}
			}
		}
	}
	slices.SortFunc(t.order, func(a, b *item) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
}

// anyHinted reports whether a hint can still bring a query into the slot.
func (p *Planner) anyHinted() bool {
	return p.hints != nil && slices.ContainsFunc(p.hints.order, p.follows)
}
