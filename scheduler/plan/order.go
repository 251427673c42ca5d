package plan

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// An order keeps items by their keys, which stay the same while an item is in it. Items
// that have entered are merged into the sorted entries when these are read again. The
// entries of items that have left are marked, and deleted many at once. A Ranker gives all
// items new keys in every slot: then only those are sorted that the budget reaches.
type order struct {
	n       int     // items
	entries []entry // sorted up to sorted; the others come after these
	sorted  int
	from    int            // the entries before it are gone
	holes   int            // other sorted entries that are gone
	added   []entry        // of items that have entered since the last merge
	left    map[*item]bool // items that have left while their entries were not sorted
	rest    time.Duration  // a lower bound of the estimates that are not sorted
	batch   int            // how many entries are sorted next
	passed  int            // the entries before it are gone or have estimates above limit
	limit   time.Duration
	costs   []time.Duration // of the entries before each one, nil if it is unknown
}

// An entry is an item with its sort key: class, value, low, slot of the last execution, id.
type entry struct {
	value, low float64
	rank       uint64        // the class above the slot
	id         uint64        // the first bytes of the id, which are nearly always unique
	estimate   time.Duration // gone if the item has left
	c          *item
}

const (
	slotBits   = 48
	slotMask   = 1<<slotBits - 1
	firstBatch = 128 // entries that are sorted at once
	gone       = time.Duration(-1)
	never      = time.Duration(math.MaxInt64)
)

func entryOf(c *item) entry {
	return entry{c: c, id: c.Prefix, estimate: c.Estimate, rank: c.Stats.Last & slotMask}.with(c.key)
}

// with is the entry with another key.
func (e entry) with(k policy.Key) entry {
	e.value, e.low, e.rank = k.Value, k.Low, uint64(k.Class-classRefresh)<<slotBits|e.rank&slotMask
	return e
}

func (e *entry) class() int { return int(e.rank>>slotBits) + classRefresh }

func (e *entry) before(f *entry) bool {
	switch {
	case (e.rank^f.rank)>>slotBits != 0:
		return e.rank < f.rank
	case e.value != f.value:
		return e.value < f.value
	case e.low != f.low:
		return e.low < f.low
	case e.rank != f.rank:
		return e.rank < f.rank
	case e.id != f.id:
		return e.id < f.id
	}
	return e.c.Query.ID < f.c.Query.ID
}

func (e entry) compare(f entry) int {
	switch {
	case e.before(&f):
		return -1
	case f.before(&e):
		return 1
	}
	return 0
}

func compareItems(a, b *item) int { return entryOf(a).compare(entryOf(b)) }

func (t *order) insert(c *item) {
	c.in = t
	t.n++
	t.added = append(t.added, entryOf(c))
	c.at = int32(len(t.added))
}

// remove removes c. Its key must be the same as when it was inserted.
func (t *order) remove(c *item) {
	c.in, t.costs = nil, nil
	t.n--
	if c.at > 0 {
		last := len(t.added) - 1
		t.added[c.at-1] = t.added[last]
		t.added[c.at-1].c.at, c.at = c.at, 0
		t.added[last], t.added = entry{}, t.added[:last]
		return
	}
	if i := t.sortedAt(c); i >= 0 {
		t.entries[i].estimate = gone
		t.holes++
	} else if t.sorted < len(t.entries) { // it may enter again before its entry is sorted
		if t.left == nil {
			t.left = map[*item]bool{}
		}
		t.left[c] = true
	}
	for t.from < t.sorted && t.entries[t.from].estimate == gone {
		t.from, t.holes = t.from+1, t.holes-1
	}
}

// sortedAt returns the place of the entry of c, -1 if it is not sorted.
func (t *order) sortedAt(c *item) int {
	e := entryOf(c)
	for i := t.find(&e); i < t.sorted && !e.before(&t.entries[i]); i++ {
		if f := &t.entries[i]; f.c == c && f.estimate != gone {
			return i
		}
	}
	return -1
}

// find returns the place of the first sorted entry that is not before e.
func (t *order) find(e *entry) int {
	list := t.entries[t.from:t.sorted]
	if len(list) > 0 && !list[0].before(e) {
		return t.from
	}
	return t.from + sort.Search(len(list), func(i int) bool { return !list[i].before(e) })
}

// load replaces the items by those of the entries, which are in no order. The first batch
// of them is sorted together.
func (t *order) load(list []entry, batch int) {
	*t = order{n: len(list), entries: list, rest: lowest(list), batch: max(firstBatch, batch), added: t.added[:0]}
}

func lowest(list []entry) time.Duration {
	x := never
	for i := range list {
		x = min(x, list[i].estimate)
	}
	return x
}

// merge adds the items that have entered to the sorted entries.
func (t *order) merge() {
	if len(t.added) == 0 {
		return
	}
	t.sortAll()
	if 8*(t.from+t.holes) > len(t.entries) {
		t.deleteGone()
	}
	slices.SortFunc(t.added, entry.compare)
	i, to := len(t.entries)-1, len(t.entries)+len(t.added)-1
	t.entries = append(t.entries, t.added...)
	for k := len(t.added) - 1; k >= 0; to-- { // from the back, so that none is overwritten
		if i >= t.from && t.added[k].before(&t.entries[i]) {
			t.entries[to] = t.entries[i]
			i--
		} else {
			t.entries[to] = t.added[k]
			t.added[k].c.at = 0
			k--
		}
	}
	clear(t.added)
	t.added, t.sorted, t.costs, t.passed = t.added[:0], len(t.entries), nil, 0
}

// deleteGone deletes the entries of items that have left. All are sorted.
func (t *order) deleteGone() {
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool { return e.estimate == gone })
	t.from, t.holes, t.passed, t.sorted = 0, 0, 0, len(t.entries)
}

// sortMore sorts the next entries, twice as many each time, and drops those whose items
// have left.
func (t *order) sortMore() {
	rest := t.entries[t.sorted:]
	n := min(t.batch, len(rest))
	if t.batch *= 2; 2*n > len(rest) {
		n = len(rest)
	}
	moveFirst(rest, n)
	next := slices.DeleteFunc(rest[:n], func(e entry) bool { return e.c.in != t || t.left[e.c] })
	slices.SortFunc(next, entry.compare)
	for i := range next {
		next[i].c.key = policy.Key{Class: next[i].class(), Value: next[i].value, Low: next[i].low}
	}
	if len(next) < n {
		rest = rest[:len(next)+copy(rest[len(next):], rest[n:])]
		t.entries = t.entries[:t.sorted+len(rest)]
	}
	t.sorted, t.costs = t.sorted+len(next), nil
	t.rest = lowest(rest[len(next):])
}

// moveFirst moves the n first entries to the front, in no order, in time that grows with
// the length of the list.
//
// Source: C. A. R. Hoare, "Algorithm 65: find", 1961.
func moveFirst(list []entry, n int) {
	for n > 0 && n < len(list) {
		pivot, i, j := list[len(list)/2], 0, len(list)-1
		for i <= j {
			for list[i].before(&pivot) {
				i++
			}
			for pivot.before(&list[j]) {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		switch { // list[:j+1] ≤ pivot ≤ list[i:]
		case n <= j:
			list = list[:j+1]
		case n >= i:
			list, n = list[i:], n-i
		default:
			return
		}
	}
}

func (t *order) sortAll() {
	t.batch = max(t.batch, len(t.entries)-t.sorted)
	for t.sorted < len(t.entries) {
		t.sortMore()
	}
}

// all visits the items in order.
func (t *order) all(yield func(*item) bool) {
	t.merge()
	for i := t.from; ; i++ {
		for i == t.sorted && t.sorted < len(t.entries) {
			t.sortMore()
		}
		if i >= t.sorted || t.entries[i].estimate != gone && !yield(t.entries[i].c) {
			return
		}
	}
}

// first returns the first item, nil if there is none.
func (t *order) first() *item { return t.fits(never) }

// fits returns the first item whose estimate is at most left.
func (t *order) fits(left time.Duration) *item {
	t.merge()
	i := t.from
	if left <= t.limit {
		i = max(i, t.passed)
	}
	for t.limit = left; ; i++ {
		for i == t.sorted && t.sorted < len(t.entries) && t.rest <= left {
			t.sortMore()
		}
		t.passed = i
		if i >= t.sorted {
			return nil
		}
		if e := &t.entries[i]; e.estimate <= left && e.estimate != gone {
			return e.c
		}
	}
}

// place returns the rank of c, from 1, and the cost of all items before it.
func (t *order) place(c *item) (rank int, cost time.Duration) {
	t.merge()
	t.sortAll()
	if t.costs == nil {
		t.deleteGone()
		t.costs = make([]time.Duration, 0, len(t.entries))
		sum := time.Duration(0)
		for _, e := range t.entries {
			t.costs = append(t.costs, sum)
			sum += e.estimate
		}
	}
	e := entryOf(c)
	i := t.find(&e)
	return i + 1, t.costs[i]
}
