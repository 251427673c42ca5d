package scheduler

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// Bounds on what hints may take. They hold whatever is sent.
const (
	hintShare = 4      // hinted queries get at most 1/hintShare of the budget before their turn
	maxHinted = 10_000 // marks at a time; more tell nothing apart and stand for all
	maxEarly  = 1024   // queries not yet due that a hint about all brings into a slot
)

// hints remember which queries may have changed. They go first among the
// ranked ones in the slots to come, until each has run, in at most a quarter of
// the budget; a hint also brings queries into a slot that their policy does not
// have due yet, but none that is paused, backs off or waits for its
// min_interval. So a hint of whatever content costs others order, never their
// share: three quarters of what refresh requests and new queries leave go by the
// policy's order, and its head, passed over, begins the next slot. Nothing of
// this is recorded: after a restart the order is the policy's.
//
// The index of constants is made when the first hint comes, and costs nothing
// before.
type hints struct {
	marked map[*item]struct{}
	all    bool
	order  []*item // of the slot: what is marked and may run, in the order of keys
}

// Hinted says what a hint did.
type Hinted struct {
	Affected int  `json:"affected"` // queries that may be affected
	Queries  int  `json:"queries"`  // of so many
	All      bool `json:"all"`      // it tells nothing apart: everything may be affected
	Skipped  int  `json:"skipped"`  // lines of it that could not be read
}

// Hint marks the queries that may be affected by what h tells, for the next
// slot. It may be called at any time and as often as one likes.
func (l *Loop) Hint(h registry.Hint) (Hinted, error) {
	now := l.clock.Now()
	l.index()
	if !l.mu.TryLockPlan(readerWait) {
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	switch {
	case l.merging: // those that are there are marked at once
		l.late = both(l.late, h)
	case !l.running && l.mu.half == nil:
		if err := l.merge(now); err != nil {
			return Hinted{}, err
		}
	}
	return l.planner.hint(h), nil
}

// both is a hint that marks what either of two does, or all.
func both(a *registry.Hint, b registry.Hint) *registry.Hint {
	if a != nil {
		b.All = b.All || a.All || len(a.Touched)+len(b.Touched) > maxHinted
		b.Touched = append(slices.Clip(a.Touched), b.Touched...)
	}
	if b.All {
		b.Touched = nil
	}
	return &b
}

// index makes the index of constants, as far as it is not made. Between two
// pieces others may have the lock.
func (l *Loop) index() {
	for more := true; more; {
		l.mu.Lock()
		more = l.planner.index.grow(l.planner.order)
		l.mu.Unlock()
	}
}

// Hint is Loop.Hint for an endpoint.
func (m *Manager) Hint(endpoint string, h registry.Hint) (Hinted, error) {
	l, err := m.loop(endpoint)
	if err != nil {
		return Hinted{}, err
	}
	return l.Hint(h)
}

func (p *planner) hint(h registry.Hint) Hinted {
	if p.hints == nil {
		p.hints = &hints{marked: map[*item]struct{}{}}
	}
	for p.index.grow(p.order) {
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

// affected finds the queries that may be; all says that there are more than
// can be told apart.
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

// drop takes back the mark of a query that starts, or is gone.
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

// follows says whether a hint may let a query run now: it is ranked, or just
// not due.
func (p *planner) follows(c *item) bool {
	return !c.ran && (c.in == &p.ranked && c.tier == TierRanked || c.in == nil && c.why == notDue) && c.Estimate <= p.budget/hintShare
}

// applyHints puts what hints say in order for the slot that begins.
func (p *planner) applyHints() {
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

// hinted says whether a hint still brings a query into the slot.
func (p *planner) hinted() bool {
	return p.hints != nil && slices.ContainsFunc(p.hints.order, p.follows)
}

// early lists those that fit the share of hinted queries and would not run
// without: their policy does not have them due yet.
func (p *planner) early() (list []*item) {
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

// hinted picks the next query that a hint puts before its turn, if what is left
// of their share allows one. One that does not fit keeps its place in the order
// of the policy, and its mark for the next slot.
func (s *slotBudget) hinted(now time.Time, room time.Duration) *item {
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
