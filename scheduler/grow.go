package scheduler

import (
	"slices"
	"time"
)

// insert puts c in its place.
func (t *tree) insert(c *candidate) {
	c.in = t
	t.source.put(c)
	if e := entryOf(c); t.deferred(&e) {
		t.postpone(e, c.Estimate)
	} else {
		if t.runs(&e) {
			t.settle()
		}
		t.put(e, c.Estimate)
	}
}

// remove takes out c, whose place in the order must be that of its insertion.
func (t *tree) remove(c *candidate) {
	c.in = nil
	if t.source.remove(c) {
		return
	}
	if t.next < len(t.run) && t.run[t.next].c == c {
		t.step()
		return
	}
	if t.found(c) {
		t.prune()
	} else if e := entryOf(c); t.deferred(&e) {
		t.withdraw(c)
	} else {
		if t.runs(&e) {
			t.settle()
		}
		t.cut(e)
	}
}

func (t *tree) put(e entry, estimate time.Duration) {
	if t.root == nil {
		t.root = newNode(false)
	}
	t.depth = 0
	n, last := t.root, true // last: nothing comes after the node
	for n.kids != nil {
		i := n.n - 1
		if !last || e.before(&n.entries[i]) {
			i = n.child(&e)
			last = last && i == n.n-1
		}
		t.push(n, i)
		n.count++
		n.sum += estimate
		n.least[i] = min(n.least[i], estimate)
		n = n.kids[i]
	}
	n.count++
	n.sum += estimate
	i := n.n
	if !last || i > 0 && e.before(&n.entries[i-1]) {
		i = n.up(&e)
	}
	if n.n < fan {
		n.open(i)
		n.entries[i], n.least[i] = e, estimate
		t.depth = 0
		return
	}
	k, to := n.split(last && i == fan), n
	if i > n.n || n.n == fan {
		i, to = i-n.n, k
	}
	to.open(i)
	to.entries[i], to.least[i] = e, estimate
	n.total()
	k.total()
	t.adopt(n, k)
}

// open makes room for an entry.
func (n *node) open(i int) {
	copy(n.entries[i+1:n.n+1], n.entries[i:n.n])
	copy(n.least[i+1:n.n+1], n.least[i:n.n])
	if n.kids != nil {
		copy(n.kids[i+1:n.n+1], n.kids[i:n.n])
	}
	n.n++
}

// shut takes an entry out.
func (n *node) shut(i int) {
	n.n--
	copy(n.entries[i:n.n], n.entries[i+1:n.n+1])
	copy(n.least[i:n.n], n.least[i+1:n.n+1])
	n.entries[n.n].c = nil
	if n.kids != nil {
		copy(n.kids[i:n.n], n.kids[i+1:n.n+1])
		n.kids[n.n] = nil
	}
}

// split moves the second half of a full node to a new one, or nothing where
// more is expected to follow at the end: what grows there leaves full nodes.
func (n *node) split(atEnd bool) *node {
	k := newNode(n.kids != nil)
	if !atEnd {
		n.move(k, fan/2)
	}
	return k
}

// move appends the entries from i on to another node of the same level.
func (n *node) move(to *node, i int) {
	copy(to.entries[to.n:], n.entries[i:n.n])
	copy(to.least[to.n:], n.least[i:n.n])
	if n.kids != nil {
		copy(to.kids[to.n:], n.kids[i:n.n])
		clear(n.kids[i:n.n])
	}
	to.n += n.n - i
	clear(n.entries[i:n.n])
	n.n = i
}

// total counts what is in a node.
func (n *node) total() {
	n.count, n.sum = n.n, 0
	if n.kids == nil {
		for _, e := range n.least[:n.n] {
			n.sum += e
		}
		return
	}
	n.count = 0
	for _, k := range n.kids[:n.n] {
		n.count += k.count
		n.sum += k.sum
	}
}

func (n *node) min() time.Duration { return slices.Min(n.least[:n.n]) }

// adopt puts k, split from n, after n, which the path leads to.
func (t *tree) adopt(n, k *node) {
	for t.depth > 0 {
		t.depth--
		p, i := t.path[t.depth].n, t.path[t.depth].i
		p.least[i] = n.min()
		if p.n < fan {
			p.place(i+1, k)
			t.depth = 0
			return
		}
		q := p.split(i == fan-1 && t.outermost())
		if i+1 > p.n || p.n == fan {
			q.place(i+1-p.n, k)
		} else {
			p.place(i+1, k)
		}
		p.total()
		q.total()
		n, k = p, q
	}
	root := newNode(true)
	root.place(0, n)
	root.place(1, k)
	root.total()
	t.root = root
}

// outermost says that nothing comes after what the path leads to.
func (t *tree) outermost() bool {
	for _, s := range t.path[:t.depth] {
		if s.i != s.n.n-1 {
			return false
		}
	}
	return true
}

// place makes k the i-th child.
func (n *node) place(i int, k *node) {
	n.open(i)
	n.entries[i], n.least[i], n.kids[i] = k.entries[0], k.min(), k
}

func (t *tree) cut(e entry) {
	t.find(e)
	t.prune()
}

// prune takes out what the path leads to.
func (t *tree) prune() {
	leaf := t.path[t.depth-1]
	estimate := leaf.n.least[leaf.i]
	leaf.n.shut(leaf.i)
	t.ahead(leaf)
	leaf.n.count--
	leaf.n.sum -= estimate
	n := leaf.n
	for d := t.depth - 2; d >= 0; d-- {
		p, i := t.path[d].n, t.path[d].i
		p.count--
		p.sum -= estimate
		switch {
		case n.n == 0:
			p.shut(i)
		case n.n < few && t.join(p, i):
		case p.least[i] == estimate && !slices.Contains(n.least[:n.n], estimate):
			p.least[i] = n.min()
		}
		n = p
	}
	t.depth = 0
	for t.root != nil && t.root.kids != nil && t.root.n == 1 {
		t.root = t.root.kids[0]
	}
	if t.root != nil && t.root.n == 0 {
		t.root = nil
	}
}

// ahead looks at the candidates that are likely next. They are spread over all
// of memory, and looking at several at once takes hardly longer than at one.
func (t *tree) ahead(s spot) {
	if t.near--; t.near > 0 {
		return
	}
	t.near = min(several, s.n.n-s.i)
	t.seen += s.n.warm(s.i, t.near)
	if t.near == several || t.depth < 2 {
		return
	}
	if p := t.path[t.depth-2]; p.i+1 < p.n.n {
		n := p.n.kids[p.i+1]
		more := min(several-t.near, n.n)
		t.seen += n.warm(0, more)
		t.near += more
	}
}

// several candidates are looked at at once.
const several = 16

// warm reads a little of each cache line that a slot needs of candidates.
func warm(list []*candidate) (sum uint64) {
	for _, c := range list {
		sum += c.warm()
	}
	return sum
}

// warm is that for some of a leaf.
func (n *node) warm(i, many int) (sum uint64) {
	for _, e := range n.entries[i : i+max(0, many)] {
		sum += e.c.warm()
	}
	return sum
}

func (c *candidate) warm() uint64 {
	return c.key.Due + c.slot + c.Overdue + c.Stats.NotBefore + c.past.warm()
}

// join empties a child that holds few into a neighbour, if there is room. The
// first one is let be: queries leave the tree at its beginning.
func (t *tree) join(p *node, i int) bool {
	if i == 0 {
		return false
	}
	to, n := p.kids[i-1], p.kids[i]
	if to.n+n.n > fan-few {
		return false
	}
	if n.kids != nil { // the key of its first child has meant nothing so far
		n.entries[0] = p.entries[i]
	}
	n.move(to, 0)
	to.count += n.count
	to.sum += n.sum
	p.least[i-1] = to.min()
	p.shut(i)
	return true
}

func newNode(inner bool) *node {
	n := &node{}
	if inner {
		n.kids = new([fan]*node)
	}
	return n
}
