package plan

import (
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/internal/selection"
)

// A waitList keeps items in order. A policy that assigns new keys in each slot would
// have to sort all items for the few that the budget reaches. So the items after edge
// stay pending, or in the policy's table, until they are needed. The riders of a request
// leave the middle of the order; their entries are deleted later, many at once.
type waitList struct {
	sorted  blocks
	n       int       // entries in sorted, without those that are to be deleted
	gone    int       // entries in sorted that are to be deleted: their items have left the list
	last    listEntry // the last of them
	pending []listEntry
	edge    listEntry
	least   time.Duration // lower bound of the estimates of pending
	batch   int           // entries that flush sorts next
	source  *source       // has more items, which precede pending; or nil
	made    uint64        // how often the order was made again
}

const (
	firstBatch = 128
	mostGone   = 4 * full
)

func (t *waitList) len() int { return t.n + t.unsorted() }

// unsorted counts the items that are not in sorted.
func (t *waitList) unsorted() int { return len(t.pending) + t.source.len() }

func (t *waitList) insert(c *item) {
	t.tidy()
	c.in = t
	if t.source.put(c) {
		return
	}
	if e := listEntryOf(c); t.deferred(&e) {
		t.postpone(e)
	} else {
		t.sorted.put(&e)
		t.n++
	}
}

// remove removes c. Its order must be the same as when it was inserted.
func (t *waitList) remove(c *item) {
	c.in = nil
	if t.source.remove(c) {
		return
	}
	if t.sorted.startsWith(c) {
		t.sorted.shift()
		t.n--
		return
	}
	if e := listEntryOf(c); t.deferred(&e) {
		t.withdraw(c)
	} else {
		t.sorted.cut(&e)
		t.n--
	}
}

// removeAll is remove for many items, of which some may not be in the list.
func (t *waitList) removeAll(items []*item) {
	pending := 0
	for _, c := range items {
		if c.in != t {
			continue
		}
		c.in = nil
		if t.source.remove(c) {
			continue
		}
		e := listEntryOf(c)
		if t.deferred(&e) {
			pending++
			continue
		}
		if t.gone == 0 || t.last.before(&e) {
			t.last = e
		}
		t.n, t.gone = t.n-1, t.gone+1
	}
	if pending > 0 {
		t.pending = slices.DeleteFunc(t.pending, func(e listEntry) bool { return e.c.in != t })
	}
	if t.gone > mostGone {
		t.tidy()
	}
}

// tidy deletes the entries of items that removeAll has removed.
func (t *waitList) tidy() {
	if t.gone > 0 {
		t.sorted.keep(&t.last, func(c *item) bool { return c.in == t })
		t.gone, t.last = 0, listEntry{}
	}
}

// deferred reports whether an entry is pending or would be. Refresh requests beside a
// source are not.
func (t *waitList) deferred(e *listEntry) bool {
	return t.unsorted() > 0 && (t.source == nil || e.class() != classRefresh) && t.edge.before(e)
}

func (t *waitList) postpone(e listEntry) {
	t.pending = append(t.pending, e)
	t.least = min(t.least, e.estimate)
}

// withdraw removes a pending item.
func (t *waitList) withdraw(c *item) {
	i := slices.IndexFunc(t.pending, func(e listEntry) bool { return e.c == c })
	last := len(t.pending) - 1
	t.pending[i], t.pending[last] = t.pending[last], listEntry{}
	t.pending = t.pending[:last]
}

// load replaces the items by these, which are in no order. It takes linear time.
func (t *waitList) load(list []*item) {
	t.empty()
	for _, c := range list {
		c.in = t
		t.postpone(listEntryOf(c))
	}
}

func (t *waitList) empty() {
	t.made++
	clear(t.pending)
	t.sorted, t.n, t.pending = nil, 0, t.pending[:0]
	t.gone, t.last = 0, listEntry{}
	t.edge, t.least, t.batch = listEntry{value: math.Inf(-1)}, math.MaxInt64, firstBatch
}

// reload leaves the items of the source to its new plan. Only refresh requests stay in
// order.
func (t *waitList) reload() {
	t.tidy()
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

// ahead returns up to n of the first entries, as far as they are at hand.
func (t *waitList) ahead(n int) []listEntry {
	if len(t.sorted) == 0 {
		return nil
	}
	return t.sorted[0].entries[:min(n, len(t.sorted[0].entries))]
}

// first returns the first item, nil if there is none.
func (t *waitList) first() *item { return t.fits(math.MaxInt64) }

// fits returns the first item whose estimate is at most left.
func (t *waitList) fits(left time.Duration) *item {
	c := t.fitting(left)
	for c == nil && t.more(left) {
		t.flush()
		c = t.fitting(left)
	}
	return c
}

// fitting is fits for the sorted items.
func (t *waitList) fitting(left time.Duration) *item {
	for t.gone > 0 && t.sorted[0].entries[0].c.in != t {
		t.sorted.shift()
		t.gone--
	}
	c := t.sorted.fits(left)
	if c != nil && c.in != t {
		t.tidy()
		c = t.sorted.fits(left)
	}
	return c
}

// more reports whether an item that is not sorted may have an estimate of at most
// left.
func (t *waitList) more(left time.Duration) bool {
	return len(t.pending) > 0 && t.least <= left || t.source.len() > 0 && (left == math.MaxInt64 || t.source.least() <= left)
}

// flush sorts the next items, twice as many each time.
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

// append adds entries that come after all sorted ones, except for those that were
// inserted since the source made its plan: these can precede others of the kind.
func (t *waitList) append(next []listEntry) {
	if len(next) == 0 {
		return
	}
	slices.SortFunc(next, listEntry.compare)
	t.n += len(next)
	if last := t.sorted.last(); last == nil || last.before(&next[0]) {
		t.sorted.append(next)
		t.edge = next[len(next)-1]
		return
	}
	for i := range next {
		t.sorted.put(&next[i])
	}
	t.edge = *t.sorted.last()
}

// receive adds entries of the source. The last ones of a plan may have the lowest
// rank, so they need not precede the entries inserted since.
func (t *waitList) receive(next []listEntry) {
	if t.source.len() > 0 || len(t.pending) == 0 {
		t.append(next)
		return
	}
	for _, e := range next {
		t.postpone(e)
	}
}

// visit calls accept, in order, for the entries after e until it returns false. The zero
// entry precedes all others.
func (t *waitList) visit(e *listEntry, accept func(*listEntry) (more bool)) {
	after, more := *e, true
	for {
		t.sorted.visit(&after, func(e *listEntry) bool {
			after = *e
			more = accept(e)
			return more
		})
		if !more || t.unsorted() == 0 {
			return
		}
		t.flush()
	}
}

// sort sorts all items.
func (t *waitList) sort() {
	t.tidy()
	if t.source.len() > 0 {
		t.receive(t.source.all())
	}
	for len(t.pending) > 0 {
		t.batch = len(t.pending)
		t.flush()
	}
}

// after returns the first item of a class above the given one.
func (t *waitList) after(class int) *item {
	t.sort()
	return t.sorted.after(class)
}

// place returns the rank of c, from 1, and the cost of all items before it.
func (t *waitList) place(c *item) (rank int, cost time.Duration) {
	t.sort()
	e := listEntryOf(c)
	return t.sorted.place(&e)
}

// take calls accept, in order, for each item whose estimate is at most left. accept
// returns the new value of left.
func (t *waitList) take(left time.Duration, accept func(*item) time.Duration) {
	t.sort()
	t.sorted.take(left, accept)
}

// all lists the items in order.
func (t *waitList) all() []*item {
	t.sort()
	return t.sorted.list(make([]*item, 0, t.len()))
}

// unordered appends all items to a list, in no order. The waitList must have no
// source.
func (t *waitList) unordered(list []*item) []*item {
	t.tidy()
	list = t.sorted.list(list)
	for i := range t.pending {
		list = append(list, t.pending[i].c)
	}
	return list
}
