package plan

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/freshet/freshet/scheduler/internal/selection"
	"github.com/freshet/freshet/scheduler/policy"
)

// An order keeps items by their keys, which stay the same while an item is in it. What
// has entered and left is merged into the sorted entries in one pass, when they are read
// again. During a slot items only leave, and their entries are passed over. A Ranker
// gives all items new keys in every slot: then only those are sorted that the budget
// reaches.
type order struct {
	n       int     // items
	entries []entry // sorted up to sorted; the others come after these
	sorted  int
	from    int             // the entries before it are gone
	added   []entry         // of items that have entered since the last merge
	removed []entry         // of items that have left since
	least   []time.Duration // of each section of entries: a lower bound of the estimates, 0 if it is unknown
	rest    time.Duration   // a lower bound of those that are not sorted
	batch   int             // how many entries are sorted next
	costs   []time.Duration // of the entries before each one, nil if it is unknown
	merged  int             // how often entries were made again
}

// An entry is an item with its sort key: class, value, low, slot of the last execution, id.
type entry struct {
	value, low float64
	rank       uint64 // the class above the slot
	id         uint64 // the first bytes of the id, which are nearly always unique
	estimate   time.Duration
	c          *item
}

const (
	slotBits   = 48
	slotMask   = 1<<slotBits - 1
	section    = 256
	firstBatch = 128 // entries that are sorted at once
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
}

// remove removes c. Its key must be the same as when it was inserted.
func (t *order) remove(c *item) {
	c.in, t.costs = nil, nil
	t.n--
	if len(t.added) == 0 && t.from < t.sorted && t.entries[t.from].c == c {
		t.from++
		return
	}
	t.removed = append(t.removed, entryOf(c))
}

// load replaces the items by those of the entries, which are in no order. The first batch
// of them is sorted together.
func (t *order) load(list []entry, batch int) {
	*t = order{
		n: len(list), entries: list, rest: lowest(list), batch: max(firstBatch, batch), merged: t.merged + 1,
		added: t.added[:0], removed: t.removed[:0], least: t.least[:0],
	}
}

func lowest(list []entry) time.Duration {
	x := never
	for i := range list {
		x = min(x, list[i].estimate)
	}
	return x
}

// merge brings the entries up to date.
func (t *order) merge() {
	if len(t.added)+len(t.removed) == 0 {
		return
	}
	t.sortAll()
	if t.from > len(t.entries)/2 {
		t.entries = t.entries[:copy(t.entries, t.entries[t.from:])]
		t.from, t.least = 0, t.least[:0]
	}
	slices.SortFunc(t.added, entry.compare)
	slices.SortFunc(t.removed, entry.compare)
	first := min(t.mergeAdded(), t.mergeRemoved())
	t.least = t.least[:min(len(t.least), first/section)]
	t.added, t.removed, t.costs = t.added[:0], t.removed[:0], nil
	t.sorted = len(t.entries)
	t.merged++
}

// find returns the place of the first entry that is not before e.
func (t *order) find(e *entry) int {
	list := t.entries[t.from:]
	return t.from + sort.Search(len(list), func(i int) bool { return !list[i].before(e) })
}

// mergeAdded returns the place of the first entry that was added.
func (t *order) mergeAdded() (first int) {
	n := len(t.entries)
	if len(t.added) == 0 {
		return n
	}
	first = t.find(&t.added[0])
	t.entries = append(t.entries, t.added...)
	to := len(t.entries) - 1
	for i, k := n-1, len(t.added)-1; k >= 0; to-- { // from the back, so that none is overwritten
		if i >= first && t.added[k].before(&t.entries[i]) {
			t.entries[to] = t.entries[i]
			i--
		} else {
			t.entries[to] = t.added[k]
			k--
		}
	}
	return first
}

// mergeRemoved returns the place of the first entry that was removed. If the same key has
// entered and left several times, one entry goes for each time that it has left.
func (t *order) mergeRemoved() (first int) {
	if len(t.removed) == 0 {
		return len(t.entries)
	}
	first = t.find(&t.removed[0])
	to, gone := first, t.removed
	for i := first; i < len(t.entries); i++ {
		e := &t.entries[i]
		for len(gone) > 0 && gone[0].before(e) {
			gone = gone[1:]
		}
		if len(gone) == 0 {
			to += copy(t.entries[to:], t.entries[i:])
			break
		}
		same := slices.IndexFunc(gone, func(g entry) bool { return e.before(&g) || g.c == e.c })
		if same >= 0 && !e.before(&gone[same]) {
			gone[same], gone = gone[0], gone[1:]
			continue
		}
		t.entries[to] = *e
		to++
	}
	clear(t.entries[to:])
	t.entries = t.entries[:to]
	return first
}

// sortMore sorts the next entries, twice as many each time, and drops those whose items
// have left.
func (t *order) sortMore() {
	rest := t.entries[t.sorted:]
	n := min(t.batch, len(rest))
	if t.batch *= 2; 2*n > len(rest) {
		n = len(rest)
	}
	selection.MoveFirst(rest, n, (*entry).before)
	next := slices.DeleteFunc(rest[:n], func(e entry) bool { return e.c.in != t })
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

func (t *order) sortAll() {
	t.batch = max(t.batch, len(t.entries)-t.sorted)
	for t.sorted < len(t.entries) {
		t.sortMore()
	}
}

// at returns an entry by its place, sorted as far as that needs; nil after the last one.
// Its item may have left.
func (t *order) at(i int) *entry {
	for i >= t.sorted {
		if t.sorted == len(t.entries) {
			return nil
		}
		t.sortMore()
	}
	return &t.entries[i]
}

// all visits the items in order.
func (t *order) all(yield func(*item) bool) {
	if len(t.added) > 0 {
		t.merge()
	}
	for i := t.from; ; i++ {
		e := t.at(i)
		if e == nil || e.c.in == t && !yield(e.c) {
			return
		}
	}
}

// first returns the first item, nil if there is none.
func (t *order) first() *item { return t.fits(never - 1) }

// fits returns the first item whose estimate is at most left.
func (t *order) fits(left time.Duration) *item {
	if len(t.added) > 0 {
		t.merge()
	}
	c := t.search(left)
	for c == nil && t.sorted < len(t.entries) && t.rest <= left {
		t.sortMore()
		c = t.search(left)
	}
	return c
}

// search is fits for the sorted entries. The estimate of one whose item has left is never.
func (t *order) search(left time.Duration) *item {
	for s := t.from / section; s*section < t.sorted; s++ {
		for len(t.least) <= s {
			t.least = append(t.least, 0)
		}
		if t.least[s] > left {
			continue
		}
		low, end := never, (s+1)*section
		for i := max(t.from, s*section); i < min(end, t.sorted); i++ {
			e := &t.entries[i]
			if e.estimate <= left {
				if e.c.in == t {
					return e.c
				}
				e.estimate = never
			}
			low = min(low, e.estimate)
		}
		if end <= t.sorted {
			t.least[s] = low
		}
	}
	return nil
}

// place returns the rank of c, from 1, and the cost of all items before it.
func (t *order) place(c *item) (rank int, cost time.Duration) {
	t.merge()
	t.sortAll()
	if t.costs == nil {
		t.costs = make([]time.Duration, 0, len(t.entries)-t.from)
		sum := time.Duration(0)
		for _, e := range t.entries[t.from:] {
			t.costs = append(t.costs, sum)
			sum += e.estimate
		}
	}
	e := entryOf(c)
	i := t.find(&e) - t.from
	return i + 1, t.costs[i]
}
