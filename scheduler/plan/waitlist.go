package plan

import (
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/internal/selection"
)

// A waitList keeps candidates in order. A policy that gives new keys to all in each
// slot would sort all for the few that the budget reaches; so those that come after
// edge are pending, or still in the policy's table, until they are asked for.
type waitList struct {
	sorted  blocks
	n       int // entries in order
	pending []listEntry
	edge    listEntry
	least   time.Duration // at most the smallest estimate of those that are pending
	batch   int           // how many are put in order next
	source  *source       // has others, which come before those that are pending; or nil
}

const firstBatch = 128

func (t *waitList) len() int { return t.n + t.unsorted() }

// unsorted counts what is not in order.
func (t *waitList) unsorted() int { return len(t.pending) + t.source.len() }

// insert puts c in its place.
func (t *waitList) insert(c *item) {
	c.in = t
	t.source.put(c)
	if e := listEntryOf(c); t.deferred(&e) {
		t.postpone(e)
	} else {
		t.sorted.put(e)
		t.n++
	}
}

// remove takes out c, whose place in the order must be that of its insertion.
func (t *waitList) remove(c *item) {
	c.in = nil
	if t.source.remove(c) {
		return
	}
	if e := listEntryOf(c); t.deferred(&e) {
		t.withdraw(c)
	} else {
		t.sorted.cut(e)
		t.n--
	}
}

// deferred says whether an entry is, or belongs, among those that are pending.
func (t *waitList) deferred(e *listEntry) bool { return t.unsorted() > 0 && t.edge.before(e) }

func (t *waitList) postpone(e listEntry) {
	t.pending = append(t.pending, e)
	t.least = min(t.least, e.estimate)
}

// withdraw takes out one that is pending.
func (t *waitList) withdraw(c *item) {
	i := slices.IndexFunc(t.pending, func(e listEntry) bool { return e.c == c })
	last := len(t.pending) - 1
	t.pending[i], t.pending[last] = t.pending[last], listEntry{}
	t.pending = t.pending[:last]
}

// load makes the list hold exactly these candidates, which come in no order, in
// time that grows with their number.
func (t *waitList) load(list []*item) {
	t.empty()
	for _, c := range list {
		c.in = t
		t.postpone(listEntryOf(c))
	}
}

func (t *waitList) empty() {
	clear(t.pending)
	t.sorted, t.n, t.pending = nil, 0, t.pending[:0]
	t.edge, t.least, t.batch = listEntry{value: math.Inf(-1)}, math.MaxInt64, firstBatch
}

// reload leaves what the source holds to the source, which has a new plan, and in
// order only what goes before all policies.
func (t *waitList) reload() {
	var first []listEntry
	for _, b := range t.sorted {
		for i := 0; i < len(b.entries) && b.entries[i].c.tier == TierRefresh; i++ {
			first = append(first, b.entries[i])
		}
	}
	t.empty()
	t.edge.rank = 1 << slotBits
	t.sorted.append(first)
	t.n = len(first)
}

// first returns the first candidate, nil when there is none.
func (t *waitList) first() *item { return t.fits(math.MaxInt64) }

// fits returns the first candidate whose estimate is at most left.
func (t *waitList) fits(left time.Duration) *item {
	c := t.sorted.fits(left)
	for c == nil && t.more(left) {
		t.flush()
		c = t.sorted.fits(left)
	}
	return c
}

// more says whether those not in order may hold one whose estimate is at most left.
func (t *waitList) more(left time.Duration) bool {
	return len(t.pending) > 0 && t.least <= left || t.source.len() > 0 && (left == math.MaxInt64 || t.source.least() <= left)
}

// flush puts the next ones in order, more each time.
func (t *waitList) flush() {
	if t.source.len() > 0 {
		t.receive(t.source.next())
		return
	}
	n := min(t.batch, len(t.pending))
	if t.batch *= 2; 2*n > len(t.pending) {
		n = len(t.pending)
	}
	selection.MoveFirst(t.pending, n, (*listEntry).before)
	t.append(t.pending[:n])
	kept := copy(t.pending, t.pending[n:])
	clear(t.pending[kept:])
	t.pending, t.least = t.pending[:kept], math.MaxInt64
	for i := range t.pending {
		t.least = min(t.least, t.pending[i].estimate)
	}
}

// append puts entries in order that come after all that are.
func (t *waitList) append(next []listEntry) {
	if len(next) == 0 {
		return
	}
	slices.SortFunc(next, listEntry.compare)
	t.sorted.append(next)
	t.n += len(next)
	t.edge = next[len(next)-1]
}

// receive takes in what comes from the source. Its last ones may be worth nothing,
// so they need not come before those that were inserted since.
func (t *waitList) receive(next []listEntry) {
	if t.source.len() > 0 || len(t.pending) == 0 {
		t.append(next)
		return
	}
	for _, e := range next {
		t.postpone(e)
	}
}

// sort puts everything in order.
func (t *waitList) sort() {
	if t.source.len() > 0 {
		t.receive(t.source.all())
	}
	for len(t.pending) > 0 {
		t.batch = len(t.pending)
		t.flush()
	}
}

// after returns the first candidate of a higher class.
func (t *waitList) after(class int) *item {
	t.sort()
	return t.sorted.after(class)
}

// place returns the rank of c, from 1, and the cost of all before it.
func (t *waitList) place(c *item) (rank int, cost time.Duration) {
	t.sort()
	e := listEntryOf(c)
	return t.sorted.place(&e)
}

// take walks in order and calls accept for each candidate whose estimate is at
// most what accept last returned.
func (t *waitList) take(left time.Duration, accept func(*item) time.Duration) {
	t.sort()
	t.sorted.take(left, accept)
}

// all lists the candidates in order.
func (t *waitList) all() []*item {
	t.sort()
	return t.sorted.list(make([]*item, 0, t.len()))
}

// unordered appends all candidates to a list, in no order. It is for lists without
// a source.
func (t *waitList) unordered(list []*item) []*item {
	list = t.sorted.list(list)
	for i := range t.pending {
		list = append(list, t.pending[i].c)
	}
	return list
}
