package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// Limits on the effect of hints, whatever their content.
const (
	hintShare = 4      // hinted queries get at most 1/hintShare of the budget before their turn
	maxHinted = 10_000 // marks at a time; more count as a hint about all queries
	maxEarly  = 1024   // queries not yet due that a hint about all queries brings into a slot
)

// hints are the queries that may have changed. In the following slots they run
// before the other ranked queries, until each has run, in at most a quarter of the
// budget. A hint also brings a query into a slot in which its policy does not have
// it due yet, unless the query is paused, backs off or waits for its min_interval.
//
// So a hint, whatever its content, changes the order of other queries but never
// takes their share. Refresh requests and new queries come first; three quarters of
// the rest follow the policy's order, and if the first query of that order is
// passed over, it begins the next slot. Hints are not recorded: after a restart
// only the policy's order applies.
//
// The index of constants is built when the first hint arrives; before that it costs
// nothing.
type hints struct {
	marked map[*item]struct{}
	all    bool
	order  []*item // of the slot: marked queries that may run, in the order of their keys
}

// Hinted is the effect of a hint.
type Hinted struct {
	Affected int  `json:"affected"` // queries that may be affected
	Queries  int  `json:"queries"`  // queries of the endpoint
	All      bool `json:"all"`      // the hint is not specific: all queries may be affected
	Skipped  int  `json:"skipped"`  // lines that could not be parsed
}

// JoinHints returns a hint that marks the queries of two hints, or all.
func JoinHints(a *registry.Hint, b registry.Hint) *registry.Hint {
	if a != nil {
		b.All = b.All || a.All || len(a.Touched)+len(b.Touched) > maxHinted
		b.Touched = append(slices.Clip(a.Touched), b.Touched...)
	}
	if b.All {
		b.Touched = nil
	}
	return &b
}

// GrowIndex indexes the constants of more queries, for hints and related queries. It
// reports whether some are left.
func (p *Planner) GrowIndex() (more bool) { return p.index.grow(p.order) }

// Hint marks the queries that h may affect, for the next slot.
func (p *Planner) Hint(h registry.Hint) Hinted {
	if p.hints == nil {
		p.hints = &hints{marked: map[*item]struct{}{}}
	}
	for p.GrowIndex() {
	}
	t := p.hints
	done := Hinted{Queries: len(p.all), Skipped: h.Skipped}
	var affected map[*item]struct{}
	if !h.All {
		affected, done.All = p.index.affected(h.Touched)
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

// affected finds the queries that may be affected. all reports that there are too
// many to distinguish.
func (x *constantIndex) affected(touched []string) (found map[*item]struct{}, all bool) {
	found = map[*item]struct{}{}
	if len(touched) == 0 {
		return found, false
	}
	for c := range x.open {
		if found[c] = struct{}{}; len(found) > maxHinted {
			return nil, true
		}
	}
	for _, iri := range touched {
		for _, c := range x.by[iri].list {
			if found[c] = struct{}{}; len(found) > maxHinted {
				return nil, true
			}
		}
	}
	return found, false
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

// follows reports whether a hint may let a query run now: it is ranked, or only not
// due.
func (p *Planner) follows(c *item) bool {
	return !c.ran && (c.in == &p.ranked && c.tier == TierRanked || c.in == nil && c.why == notDue) && c.Estimate <= p.budget/hintShare
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

// hinted reports whether a hint still brings a query into the slot.
func (p *Planner) hinted() bool {
	return p.hints != nil && slices.ContainsFunc(p.hints.order, p.follows)
}

// early lists the queries that run only because of a hint, as their policy does not
// have them due yet, and that fit the share of hinted queries.
func (p *Planner) early() (list []*item) {
	if p.hints == nil {
		return nil
	}
	left := p.budget / hintShare
	for _, c := range p.hints.order {
		if c.Estimate > left {
			continue
		}
		left -= c.Estimate
		if c.in == nil {
			list = append(list, c)
		}
	}
	return list
}

// hinted returns the next query that a hint puts before its turn, if it fits what
// is left of the hinted queries' share. A query that does not fit keeps its place
// in the policy's order, and its mark for the next slot.
func (s *SlotBudget) hinted(now time.Time, room time.Duration) *item {
	t := s.p.hints
	if t == nil || len(t.order) == 0 {
		return nil
	}
	left := s.budget/hintShare - s.onHints
	for _, r := range s.runs {
		if r.tier == TierHinted {
			left -= r.reserve(now)
		}
	}
	if left = min(left, room); left <= 0 {
		return nil
	}
	for len(t.order) > 0 {
		c := t.order[0]
		t.order[0], t.order = nil, t.order[1:]
		if s.p.follows(c) && c.Estimate <= left {
			return c
		}
	}
	return nil
}
