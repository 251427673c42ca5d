package plan

import (
	"slices"

	"github.com/freshet/freshet/registry"
)

// The limits on the effect of hints.
const (
	hintShare = 4      // hinted queries get at most 1/hintShare of the budget before their turn
	maxHinted = 10_000 // marked queries; more count as a hint about all queries
	maxEarly  = 1024   // queries not yet due that a hint about all queries brings into a slot
)

// hints are the queries that may have changed. They run at once in what the last slot has
// left of its budget (see BeginOffGrid), and else before ranked queries until each has run,
// also if their policy does not have them due yet. A query that is paused, backs off or
// waits for its min_interval stays where it is. A hint changes the order of other queries
// but never takes their share, whatever it says. Hints are not recorded: after a restart
// only the policy's order applies.
type hints struct {
	marked map[*item]struct{}
	all    bool
	fresh  bool    // new queries run at once, outside the grid
	order  []*item // marked queries that may run in the slot, in the order of their keys
}

// drop removes the mark of a query that starts or was removed.
func (t *hints) drop(c *item) {
	if t != nil {
		delete(t.marked, c)
	}
}

func (t *hints) has(c *item) bool {
	if t == nil {
		return false
	}
	_, marked := t.marked[c]
	return marked
}

// Hinted is the effect of a hint.
type Hinted struct {
	Affected int  `json:"affected"` // queries that may be affected
	Queries  int  `json:"queries"`  // queries of the endpoint
	All      bool `json:"all"`      // all queries may be affected
	Skipped  int  `json:"skipped"`  // lines that could not be parsed
}

// mark marks a query, and tells the policy.
func (t *hints) mark(c *item, r *roster) {
	t.marked[c] = struct{}{}
	if !c.Hinted {
		c.Hinted = true
		r.touch(c)
	}
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

// hint marks the queries that h may affect, and returns them unless all are affected.
func (p Proofs) hint(h registry.Hint) (done Hinted, affected map[*item]struct{}) {
	t := p.ownHints()
	done = Hinted{Queries: len(p.all), Skipped: h.Skipped}
	if !h.All {
		for p.GrowPatterns() {
		}
		affected, done.All = p.pattern.affected(&h)
	}
	if h.All || done.All {
		t.all, done.All, done.Affected = true, true, len(p.all)
		return done, nil
	}
	done.Affected = len(affected)
	for c := range affected {
		if t.mark(c, &p.roster); len(t.marked) > maxHinted {
			t.all = true
			clear(t.marked)
			break
		}
	}
	return done, affected
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
		for _, early := range [][]*item{p.slots.next(maxEarly), p.roster.resting(maxEarly)} {
			for _, c := range early {
				if !t.has(c) && p.follows(c) {
					t.order = append(t.order, c)
				}
			}
		}
	}
	slices.SortFunc(t.order, func(a, b *item) int { return p.roster.entryOf(a).compare(p.roster.entryOf(b)) })
}

// anyHinted reports whether a hint can still bring a query into the slot.
func (p *Planner) anyHinted() bool {
	return p.hints != nil && slices.ContainsFunc(p.hints.order, p.follows)
}
