package scheduler

import (
	"math"
	"time"
)

// A tree keeps candidates in order, and with every subtree how many it holds,
// the smallest estimate and the sum of the estimates. So the first one that
// fits what is left, the rank of any one, and the cost of all that come before
// it are found in logarithmic time. It is a B+ tree: keys lie side by side in
// wide nodes, so that hardly any step has to look at a candidate, which is
// likely far away in memory.
type tree struct {
	tail
	root  *node
	path  [maxDepth]spot // to what was looked up last; see found
	depth int            // of it, 0 = it is not known any more
	near  int            // candidates to come that were looked at, see ahead
	seen  uint64         // of no meaning
}

const (
	fan      = 32 // entries or children of a node at most
	few      = fan / 4
	maxDepth = 16
)

// A node is a leaf, whose entries are candidates, or an inner one, whose
// entries are the least keys that may stand in its children; that of the first
// child means nothing, there is no least one.
type node struct {
	n       int
	count   int           // candidates below
	sum     time.Duration // of their estimates
	kids    *[fan]*node   // nil in a leaf
	entries [fan]entry
	least   [fan]time.Duration // the estimate of each entry, or the smallest below each child
}

// A spot is a place in a node.
type spot struct {
	n *node
	i int
}

// An entry is a candidate with its place in the order: by class, value, low,
// slot of the last execution, and id.
type entry struct {
	value, low float64
	rank       uint64 // the class above the slot
	id         uint64 // the first bytes of the id, which nearly always tell it from others
	c          *candidate
}

const (
	slotBits = 48
	slotMask = 1<<slotBits - 1
)

func entryOf(c *candidate) entry {
	return entry{
		value: c.key.Value, low: c.key.Low, rank: uint64(c.key.Class-classRefresh)<<slotBits | c.Stats.Last&slotMask,
		id: c.prefix, c: c,
	}
}

func (e *entry) class() int { return int(e.rank>>slotBits) + classRefresh }

// prefixOf orders ids by their first eight bytes.
func prefixOf(id string) (x uint64) {
	for i := range 8 {
		x <<= 8
		if i < len(id) {
			x |= uint64(id[i])
		}
	}
	return x
}

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

// before is the total order of candidates: key, then age, then id.
func before(a, b *candidate) bool {
	e, f := entryOf(a), entryOf(b)
	return e.before(&f)
}

func (e entry) compare(f entry) int {
	if e.before(&f) {
		return -1
	}
	return 1
}

// up counts the entries that do not come after e.
func (n *node) up(e *entry) int {
	low, high := 0, n.n
	for low < high {
		if m := int(uint(low+high) >> 1); e.before(&n.entries[m]) {
			high = m
		} else {
			low = m + 1
		}
	}
	return low
}

// child finds the child in which e belongs.
func (n *node) child(e *entry) int {
	return max(0, n.up(e)-1)
}

func (t *tree) len() int {
	if t.root == nil {
		return t.behind()
	}
	return t.root.count + t.behind()
}

func (t *tree) push(n *node, i int) {
	t.path[t.depth] = spot{n, i}
	t.depth++
}

// first returns the first candidate, nil when there is none.
func (t *tree) first() *candidate { return t.fits(math.MaxInt64) }

// fits returns the first candidate whose estimate is at most left.
func (t *tree) fits(left time.Duration) *candidate {
	c := t.look(left)
	if c == nil {
		c = t.leads(left)
	}
	for c == nil && t.more(left) {
		t.pull()
		c = t.leads(left)
	}
	return c
}

// look is fits among what is in order.
func (t *tree) look(left time.Duration) *candidate {
	t.depth = 0
	for n := t.root; n != nil; {
		i := 0
		for i < n.n && n.least[i] > left {
			i++
		}
		if i == n.n { // of the root; below it is known to be there
			return nil
		}
		t.push(n, i)
		if n.kids == nil {
			return n.entries[i].c
		}
		n = n.kids[i]
	}
	return nil
}

// after returns the first candidate of a higher class.
func (t *tree) after(class int) *candidate {
	t.sort()
	var next *node // what follows on the node that is looked at
	for n := t.root; n != nil; {
		i := 0
		if n.kids != nil {
			i = 1
		}
		for i < n.n && n.entries[i].class() <= class {
			i++
		}
		if n.kids == nil {
			if i < n.n {
				return n.entries[i].c
			}
			break
		}
		if i < n.n {
			next = n.kids[i]
		}
		n = n.kids[i-1]
	}
	for next != nil && next.kids != nil {
		next = next.kids[0]
	}
	if next == nil {
		return nil
	}
	return next.entries[0].c
}

// found says whether the path leads to c, as it was looked up.
func (t *tree) found(c *candidate) bool {
	if t.depth == 0 {
		return false
	}
	s := t.path[t.depth-1]
	return s.n.kids == nil && s.i < s.n.n && s.n.entries[s.i].c == c
}

// find makes the path that of an entry as it was put.
func (t *tree) find(e entry) {
	if t.found(e.c) {
		return
	}
	t.depth = 0
	n := t.root
	for n.kids != nil {
		i := n.child(&e)
		t.push(n, i)
		n = n.kids[i]
	}
	t.push(n, n.up(&e)-1)
	if s := t.path[t.depth-1]; s.i < 0 || s.n.entries[s.i].c != e.c {
		panic("scheduler: what a query is ordered by has changed while it stood in the order")
	}
}

// place tells the rank of c, from 1, and the cost of all before it.
func (t *tree) place(c *candidate) (rank int, cost time.Duration) {
	t.sort()
	t.find(entryOf(c))
	rank = 1
	for _, s := range t.path[:t.depth] {
		if s.n.kids == nil {
			rank += s.i
			for _, e := range s.n.least[:s.i] {
				cost += e
			}
			continue
		}
		for _, k := range s.n.kids[:s.i] {
			rank += k.count
			cost += k.sum
		}
	}
	return rank, cost
}

// take walks in order and calls accept for each candidate whose estimate is at
// most what accept last returned, without looking at the others one by one.
func (t *tree) take(left time.Duration, accept func(*candidate) time.Duration) time.Duration {
	t.sort()
	return t.root.take(left, accept)
}

func (n *node) take(left time.Duration, accept func(*candidate) time.Duration) time.Duration {
	for i := 0; n != nil && i < n.n; i++ {
		switch {
		case n.least[i] > left:
		case n.kids == nil:
			left = accept(n.entries[i].c)
		default:
			left = n.kids[i].take(left, accept)
		}
	}
	return left
}

// all lists the candidates in order.
func (t *tree) all() []*candidate { return t.head(t.len()) }

// head lists so many of the first ones at most.
func (t *tree) head(most int) []*candidate {
	t.sort()
	return t.root.head(most, make([]*candidate, 0, min(most, t.len())))
}

func (n *node) head(most int, list []*candidate) []*candidate {
	for i := 0; n != nil && i < n.n && len(list) < most; i++ {
		if n.kids == nil {
			list = append(list, n.entries[i].c)
		} else {
			list = n.kids[i].head(most, list)
		}
	}
	return list
}
