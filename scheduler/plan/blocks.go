package plan

import (
	"math"
	"slices"
	"sort"
	"time"
)

// blocks keep entries in order. Each block holds a section of the order, the sum of
// its estimates and a lower bound of them. So the first entry that fits, the rank of
// an entry and the cost before it are found without reading the items, which are
// probably not in the cache. 1,000,000 entries make about 8,000 blocks, and an
// operation reads at most their headers.
type blocks []block

// full is the largest number of entries in a block.
const full = 256

type block struct {
	entries []listEntry   // never empty
	sum     time.Duration // of the estimates
	least   time.Duration // lower bound of the estimates
}

func (b *block) measure() {
	b.sum, b.least = 0, math.MaxInt64
	for i := range b.entries {
		b.sum += b.entries[i].estimate
		b.least = min(b.least, b.entries[i].estimate)
	}
}

// find returns the block that contains e or would contain it, and the position of e
// there.
func (l blocks) find(e *listEntry) (b, i int) {
	b = max(0, sort.Search(len(l), func(b int) bool { return e.before(&l[b].entries[0]) })-1)
	if b == len(l) {
		return b, 0
	}
	list := l[b].entries
	return b, sort.Search(len(list), func(i int) bool { return !list[i].before(e) })
}

func (l *blocks) put(e *listEntry) {
	b, i := l.find(e)
	if b == len(*l) || b == len(*l)-1 && i == full {
		*l = append(*l, block{entries: append(make([]listEntry, 0, full), *e), sum: e.estimate, least: e.estimate})
		return
	}
	if len((*l)[b].entries) == full {
		*l = slices.Insert(*l, b+1, block{entries: append(make([]listEntry, 0, full), (*l)[b].entries[full/2:]...)})
		(*l)[b].entries = (*l)[b].entries[:full/2]
		clear((*l)[b].entries[full/2 : full])
		(*l)[b].measure()
		(*l)[b+1].measure()
		if i > full/2 {
			b, i = b+1, i-full/2
		}
	}
	k := &(*l)[b]
	k.entries = append(k.entries, listEntry{})
	copy(k.entries[i+1:], k.entries[i:])
	k.entries[i] = *e
	k.sum += e.estimate
	k.least = min(k.least, e.estimate)
}

// append adds sorted entries that come after all others.
func (l *blocks) append(list []listEntry) {
	for piece := range slices.Chunk(list, full) {
		b := block{entries: slices.Clone(piece)}
		b.measure()
		*l = append(*l, b)
	}
}

// last is the last entry, nil if there is none.
func (l blocks) last() *listEntry {
	if len(l) == 0 {
		return nil
	}
	list := l[len(l)-1].entries
	return &list[len(list)-1]
}

func (l blocks) startsWith(c *item) bool { return len(l) > 0 && l[0].entries[0].c == c }

// cut removes an entry. Its order must be the same as when it was put.
func (l *blocks) cut(e *listEntry) {
	if l.startsWith(e.c) { // this is usual
		l.shift()
		return
	}
	b, i := l.find(e)
	if b == len(*l) || i == len((*l)[b].entries) || (*l)[b].entries[i].c != e.c {
		panic("scheduler: what a query is ordered by has changed while it was in the order")
	}
	k := &(*l)[b]
	k.sum -= k.entries[i].estimate
	k.entries = slices.Delete(k.entries, i, i+1)
	if len(k.entries) == 0 {
		*l = slices.Delete(*l, b, b+1)
	}
	l.join(b)
}

// shift removes the first entry.
func (l *blocks) shift() {
	k := &(*l)[0]
	k.sum -= k.entries[0].estimate
	k.entries[0], k.entries = listEntry{}, k.entries[1:]
	if len(k.entries) == 0 {
		*l = slices.Delete(*l, 0, 1)
	}
}

// keep deletes the entries up to e whose items are not wanted.
func (l *blocks) keep(e *listEntry, wanted func(*item) bool) {
	last, _ := l.find(e)
	last = min(last, len(*l)-1)
	for b := last; b >= 0; b-- {
		k := &(*l)[b]
		k.entries = slices.DeleteFunc(k.entries, func(e listEntry) bool { return !wanted(e.c) })
		if len(k.entries) == 0 {
			*l = slices.Delete(*l, b, b+1)
			continue
		}
		k.measure()
		l.join(b + 1)
	}
}

// join moves the entries of block b to the block before it if both are small.
func (l *blocks) join(b int) {
	if b == 0 || b >= len(*l) || len((*l)[b-1].entries)+len((*l)[b].entries) > full/2 {
		return
	}
	k := &(*l)[b-1]
	k.entries = append(k.entries, (*l)[b].entries...)
	k.measure()
	*l = slices.Delete(*l, b, b+1)
}

// fits returns the first entry whose estimate is at most left.
func (l blocks) fits(left time.Duration) *item {
	for b := range l {
		if l[b].least > left {
			continue
		}
		least := time.Duration(math.MaxInt64)
		for i := range l[b].entries {
			e := &l[b].entries[i]
			if e.estimate <= left {
				return e.c
			}
			least = min(least, e.estimate)
		}
		l[b].least = least // exact again: smaller entries were cut
	}
	return nil
}

// after returns the first entry of a class above the given one.
func (l blocks) after(class int) *item {
	b := sort.Search(len(l), func(b int) bool { return l[b].entries[len(l[b].entries)-1].class() > class })
	if b == len(l) {
		return nil
	}
	list := l[b].entries
	return list[sort.Search(len(list), func(i int) bool { return list[i].class() > class })].c
}

// place returns the rank of an entry, from 1, and the cost of all entries before it.
func (l blocks) place(e *listEntry) (rank int, cost time.Duration) {
	b, i := l.find(e)
	for k := range l[:b] {
		rank += len(l[k].entries)
		cost += l[k].sum
	}
	for k := range l[b].entries[:i] {
		cost += l[b].entries[k].estimate
	}
	return rank + i + 1, cost
}

// take calls accept, in order, for each entry whose estimate is at most left. accept
// returns the new value of left.
func (l blocks) take(left time.Duration, accept func(*item) time.Duration) {
	for b := range l {
		for i := 0; i < len(l[b].entries) && l[b].least <= left; i++ {
			if e := &l[b].entries[i]; e.estimate <= left {
				left = accept(e.c)
			}
		}
	}
}

// visit calls accept, in order, for the entries after e until it returns false. The zero
// entry precedes all others.
func (l blocks) visit(e *listEntry, accept func(*listEntry) (more bool)) {
	b, i := 0, 0
	if e.c != nil {
		if b, i = l.find(e); b < len(l) && i < len(l[b].entries) && l[b].entries[i].c == e.c {
			i++
		}
	}
	for ; b < len(l); b, i = b+1, 0 {
		for ; i < len(l[b].entries); i++ {
			if !accept(&l[b].entries[i]) {
				return
			}
		}
	}
}

// list appends the items in order.
func (l blocks) list(to []*item) []*item {
	for b := range l {
		for i := range l[b].entries {
			to = append(to, l[b].entries[i].c)
		}
	}
	return to
}
