package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// An order keeps items by their keys, which stay the same while an item is in it. Items
// that have entered are merged into the sorted entries when these are read again. An entry
// stays when its item leaves, until many are deleted at once. A Ranker gives all items new
// keys in every slot: then only those are sorted that the budget reaches.
type order struct {
	n       int     // items
	entries []entry // sorted up to sorted; the others come after these
	sorted  int
	added   []entry       // of items that have entered since the last merge
	parted  int           // the entries before it precede the others
	rest    time.Duration // a lower bound of the estimates that are not sorted
	from    int           // the items of the entries before it have left
	passed  int           // those of the entries before it have left or have estimates above limit
	limit   time.Duration
	costs   []time.Duration // of the entries before each one, nil if it is unknown
}

// An entry is an item with its sort key: class, value, low, slot of the last execution, id.
type entry struct {
	value, low float64
	rank       uint64 // the class above the slot
	id         uint64 // the first bytes of the id, which are nearly always unique
	estimate   time.Duration
	exits      uint32 // of the item before it entered
	rests      bool   // the policy leaves it out, see roster
	c          *item
}

const (
	slotBits = 48
	slotMask = 1<<slotBits - 1
	never    = time.Duration(math.MaxInt64)
)

func entryOf(c *item) entry {
	return entry{c: c, exits: c.exits, id: c.Prefix, estimate: c.Estimate, rank: c.Stats.Last & slotMask}.with(c.key)
}

// with is the entry with another key.
func (e entry) with(k policy.Key) entry {
	e.value, e.low, e.rank = k.Value, k.Low, uint64(k.Class-classRefresh)<<slotBits|e.rank&slotMask
	return e
}

func (e entry) class() int { return int(e.rank>>slotBits) + classRefresh }

func (e entry) compare(f entry) int {
	if x := cmp.Or(cmp.Compare(e.class(), f.class()), cmp.Compare(e.value, f.value)); x != 0 {
		return x
	}
	if x := cmp.Or(cmp.Compare(e.low, f.low), cmp.Compare(e.rank, f.rank), cmp.Compare(e.id, f.id)); x != 0 {
		return x
	}
	return strings.Compare(e.c.Query.ID, f.c.Query.ID)
}

func (e entry) before(f entry) bool { return e.compare(f) < 0 }

func (t *order) insert(c *item) {
	c.in = t
	t.n++
	if t.added = append(t.added, entryOf(c)); len(t.added) > 2*t.n {
		t.added = slices.DeleteFunc(t.added, t.left)
	}
}

func (t *order) remove(c *item) {
	c.in, t.costs = nil, nil
	c.exits++
	t.n--
}

// left reports whether the item of an entry has left since.
func (t *order) left(e entry) bool { return e.c.in != t || e.c.exits != e.exits }

// load replaces the items by those of the entries, which are in no order.
func (t *order) load(list []entry) {
	*t = order{n: len(list), entries: list, added: t.added[:0]}
}

// merge adds the items that have entered to the sorted entries.
func (t *order) merge() {
	if t.added = slices.DeleteFunc(t.added, t.left); len(t.added) == 0 {
		return
	}
	t.sortAll()
	if 8*(len(t.entries)+len(t.added)-t.n) > len(t.entries) {
		t.deleteLeft()
	}
	slices.SortFunc(t.added, entry.compare)
	i, to := len(t.entries)-1, len(t.entries)+len(t.added)-1
	t.entries = append(t.entries, t.added...)
	for k := len(t.added) - 1; k >= 0; to-- { // from the back, so that none is overwritten
		if i >= t.from && t.added[k].before(t.entries[i]) {
			t.entries[to] = t.entries[i]
			i--
		} else {
			t.entries[to] = t.added[k]
			k--
		}
	}
	clear(t.added)
	t.added, t.sorted, t.costs, t.passed = t.added[:0], len(t.entries), nil, t.from
}

// deleteLeft deletes the entries of items that have left. All are sorted.
func (t *order) deleteLeft() {
	t.entries = slices.DeleteFunc(t.entries, t.left)
	t.from, t.passed, t.sorted = 0, 0, len(t.entries)
}

// sortNext sorts the next n entries, which come before the rest.
func (t *order) sortNext(n int) {
	slices.SortFunc(t.entries[t.sorted:t.sorted+n], entry.compare)
	t.sorted, t.costs = t.sorted+n, nil
}

// sortMore sorts about a sixteenth of a sixteenth of the rest.
func (t *order) sortMore() {
	if t.parted <= t.sorted {
		t.rest = never
		for _, e := range t.entries[t.sorted:] {
			t.rest = min(t.rest, e.estimate)
		}
		t.parted = t.sorted + moveFirst(t.entries[t.sorted:])
	}
	t.sortNext(moveFirst(t.entries[t.sorted:t.parted]))
}

func (t *order) sortAll() {
	if t.sorted < len(t.entries) {
		t.sortNext(len(t.entries) - t.sorted)
	}
}

// moveFirst moves the first entries of a list to its front, in no order, and returns how
// many: about a sixteenth, or all of a short list.
func moveFirst(list []entry) (n int) {
	var sample [64]entry
	if len(list) < 4*len(sample) {
		return len(list)
	}
	for i := range sample {
		sample[i] = list[len(list)/len(sample)*i]
	}
	slices.SortFunc(sample[:], entry.compare)
	for i := range list {
		if list[i].before(sample[len(sample)/16]) {
			list[n], list[i] = list[i], list[n]
			n++
		}
	}
	return n
}

// all visits the items in order.
func (t *order) all(yield func(*item) bool) {
	t.merge()
	for i := t.from; i < len(t.entries); i++ {
		if i == t.sorted {
			t.sortMore()
		}
		if !t.left(t.entries[i]) && !yield(t.entries[i].c) {
			return
		}
	}
}

// first returns the first item, nil if there is none.
func (t *order) first() *item { return t.fits(never) }

// fits returns the first item whose estimate is at most left.
func (t *order) fits(left time.Duration) *item {
	t.merge()
	if left > t.limit {
		t.passed = t.from
	}
	for t.limit = left; ; t.passed++ {
		if t.passed == t.sorted && t.sorted < len(t.entries) && t.rest <= left {
			t.sortMore()
		}
		if t.passed >= t.sorted {
			return nil
		}
		switch e := &t.entries[t.passed]; {
		case e.estimate > left:
		case !t.left(*e):
			return e.c
		case t.passed == t.from:
			t.from++
		}
	}
}

// place returns the rank of an item's entry, from 1, and the cost of all items before it.
func (t *order) place(e entry) (rank int, cost time.Duration) {
	t.merge()
	t.sortAll()
	if t.costs == nil {
		t.deleteLeft()
		t.costs = make([]time.Duration, 0, len(t.entries))
		sum := time.Duration(0)
		for _, e := range t.entries {
			t.costs = append(t.costs, sum)
			sum += e.estimate
		}
	}
	i, _ := slices.BinarySearchFunc(t.entries, e, entry.compare)
	return i + 1, t.costs[i]
}
