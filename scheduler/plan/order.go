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
	rest    time.Duration // a lower bound of the estimates that are not sorted
	from    int           // the items of the entries before it have left
	passed  int           // those of the entries before it have left or have estimates above limit
	limit   time.Duration
	costs   []time.Duration // of the entries before each one, empty if it is unknown
}

// An entry is an item with its sort key: class, value, low, slot of the last execution, id.
type entry struct {
	value, low float64
	rank       uint64 // the class above the slot
	id         uint64 // the first bytes of the id, which are nearly always unique
	estimate   time.Duration
	due        uint64 // the policy leaves it out until then, 0 = it does not, see roster
	exits      uint32 // of the item before it entered
	c          *item
}

const (
	slotBits = 48
	slotMask = 1<<slotBits - 1
	never    = time.Duration(math.MaxInt64)
)

func entryOf(c *item) entry {
	e := entry{c: c, exits: c.exits, id: c.Prefix, estimate: c.Estimate, rank: c.Stats.Last & slotMask}
	e.set(&c.key)
	return e
}

// set sets another key.
func (e *entry) set(k *policy.Key) {
	e.value, e.low, e.rank = k.Value, k.Low, uint64(k.Class-classRefresh)<<slotBits|e.rank&slotMask
}

func (e entry) compare(f entry) int {
	switch a, b := e.rank>>slotBits, f.rank>>slotBits; {
	case a < b, a == b && e.value < f.value:
		return -1
	case a > b, e.value > f.value:
		return 1
	}
	if x := cmp.Or(cmp.Compare(e.value, f.value), cmp.Compare(e.low, f.low), cmp.Compare(e.rank, f.rank), cmp.Compare(e.id, f.id)); x != 0 {
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
	c.in, t.costs = nil, t.costs[:0]
	c.exits++
	t.n--
}

// left reports whether the item of an entry has left since.
func (t *order) left(e entry) bool { return e.c.in != t || e.c.exits != e.exits }

// load replaces the items by those of the entries, which are in no order.
func (t *order) load(list []entry) {
	*t = order{n: len(list), entries: list, added: t.added[:0], costs: t.costs[:0]}
}

// merge adds the items that have entered to the sorted entries.
func (t *order) merge() {
	if len(t.added) == 0 {
		return
	}
	t.sortAll()
	for t.from < t.sorted && t.left(t.entries[t.from]) {
		t.from++
	}
	gone := len(t.entries) - t.from + len(t.added) - t.n
	if gone > 0 {
		t.added = slices.DeleteFunc(t.added, t.left)
	}
	if n := len(t.entries); 8*gone > n {
		t.deleteLeft()
	} else if 2*t.from > n {
		t.entries, t.from, t.sorted = slices.Delete(t.entries, 0, t.from), 0, n-t.from
	}
	slices.SortFunc(t.added, entry.compare)
	end := len(t.entries)
	t.entries = append(t.entries, t.added...)
	for k, e := range slices.Backward(t.added) { // so that none is overwritten
		i, _ := slices.BinarySearchFunc(t.entries[t.from:end], e, entry.compare)
		i += t.from
		copy(t.entries[i+k+1:], t.entries[i:end])
		t.entries[i+k], end = e, i
	}
	clear(t.added)
	t.added, t.sorted, t.costs, t.passed = t.added[:0], len(t.entries), t.costs[:0], t.from
}

// deleteLeft deletes the entries of items that have left. All are sorted.
func (t *order) deleteLeft() {
	t.entries = slices.DeleteFunc(t.entries, t.left)
	t.from, t.passed, t.sorted = 0, 0, len(t.entries)
}

// sortNext sorts the next n entries, which come before the rest.
func (t *order) sortNext(n int) {
	if n > 0 {
		slices.SortFunc(t.entries[t.sorted:t.sorted+n], entry.compare)
		t.sorted, t.costs = t.sorted+n, t.costs[:0]
	}
}

func (t *order) sortAll() { t.sortNext(len(t.entries) - t.sorted) }

// sortMore sorts about a thirtieth of the rest, or all of a short rest.
func (t *order) sortMore() {
	list, n := t.entries[t.sorted:], 0
	var sample [64]entry
	if len(list) < 4*len(sample) {
		t.sortAll()
		return
	}
	for i := range sample {
		sample[i] = list[len(list)/len(sample)*i]
	}
	slices.SortFunc(sample[:], entry.compare)
	t.rest = never
	for i, e := range list {
		if e.before(sample[2]) {
			list[n], list[i] = e, list[n]
			n++
		} else {
			t.rest = min(t.rest, e.estimate)
		}
	}
	t.sortNext(n)
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
	if len(t.costs) == 0 {
		if len(t.entries) > t.n {
			t.deleteLeft()
		}
		sum := time.Duration(0)
		for _, e := range t.entries {
			t.costs = append(t.costs, sum)
			sum += e.estimate
		}
	}
	i, _ := slices.BinarySearchFunc(t.entries, e, entry.compare)
	return i + 1, t.costs[i]
}
