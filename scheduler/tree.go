package scheduler

import "time"

// A tree keeps candidates in order, and with every subtree how many it holds,
// the smallest estimate and the sum of the estimates. So the first one that
// fits what is left, the rank of any one, and the cost of all that come before
// it are found in logarithmic time. It is a treap; priorities come from a
// counter, and the order never depends on them.
type tree struct {
	root *node
	seed uint64
}

type node struct {
	c           *candidate
	left, right *node
	priority    uint64
	size        int
	least       time.Duration
	sum         time.Duration
}

// before is the total order of candidates: key, then age, then id.
func before(a, b *candidate) bool {
	x, y := &a.key, &b.key // nearly always decided by the first two
	switch {
	case x.Class != y.Class:
		return x.Class < y.Class
	case x.Value != y.Value:
		return x.Value < y.Value
	case x.Low != y.Low:
		return x.Low < y.Low
	case a.Stats.Last != b.Stats.Last:
		return a.Stats.Last < b.Stats.Last
	}
	return a.Query.ID < b.Query.ID
}

func (n *node) count() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node) cost() time.Duration {
	if n == nil {
		return 0
	}
	return n.sum
}

func (n *node) refresh() {
	n.size, n.least, n.sum = 1, n.c.Estimate, n.c.Estimate
	for _, k := range [2]*node{n.left, n.right} {
		if k != nil {
			n.size += k.size
			n.sum += k.sum
			n.least = min(n.least, k.least)
		}
	}
}

func (t *tree) len() int { return t.root.count() }

func (t *tree) insert(c *candidate) {
	t.seed += 0x9e3779b97f4a7c15
	x := t.seed
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	t.root = t.root.insert(&node{c: c, priority: x ^ x>>31})
	c.in = t
}

func (n *node) insert(k *node) *node {
	if n == nil {
		k.refresh()
		return k
	}
	if k.priority > n.priority {
		k.left, k.right = n.split(k.c)
		k.refresh()
		return k
	}
	if before(k.c, n.c) {
		n.left = n.left.insert(k)
	} else {
		n.right = n.right.insert(k)
	}
	n.refresh()
	return n
}

// split parts the subtree into what comes before c and the rest.
func (n *node) split(c *candidate) (l, r *node) {
	if n == nil {
		return nil, nil
	}
	if before(n.c, c) {
		n.right, r = n.right.split(c)
		n.refresh()
		return n, r
	}
	l, n.left = n.left.split(c)
	n.refresh()
	return l, n
}

func join(l, r *node) *node {
	switch {
	case l == nil:
		return r
	case r == nil:
		return l
	case l.priority > r.priority:
		l.right = join(l.right, r)
		l.refresh()
		return l
	}
	r.left = join(l, r.left)
	r.refresh()
	return r
}

// rebuild makes the tree hold exactly the candidates of a sorted list, in time
// that grows with its length. room, of that length, is where the nodes live.
func (t *tree) rebuild(list []*candidate, room []node) {
	t.root = grow(list, room)
	for _, c := range list {
		c.in = t
	}
}

// grow builds a balanced subtree. Its priorities are about those of a random
// one of its size, and smaller below, so that later insertions keep it flat.
func grow(list []*candidate, room []node) *node {
	if len(list) == 0 {
		return nil
	}
	m := len(list) / 2
	n := &room[m]
	*n = node{c: list[m], priority: ^uint64(0) - ^uint64(0)/uint64(len(list)+1)}
	n.left, n.right = grow(list[:m], room[:m]), grow(list[m+1:], room[m+1:])
	n.refresh()
	return n
}

// remove takes out c, whose place in the order must be that of its insertion.
func (t *tree) remove(c *candidate) {
	t.root = t.root.remove(c)
	c.in = nil
}

func (n *node) remove(c *candidate) *node {
	if n.c == c {
		return join(n.left, n.right)
	}
	if before(c, n.c) {
		n.left = n.left.remove(c)
	} else {
		n.right = n.right.remove(c)
	}
	n.refresh()
	return n
}

func (t *tree) first() *candidate {
	if t.root == nil {
		return nil
	}
	n := t.root
	for n.left != nil {
		n = n.left
	}
	return n.c
}

// after returns the first candidate of a higher class.
func (t *tree) after(class int) *candidate {
	var found *candidate
	for n := t.root; n != nil; {
		if n.c.key.Class > class {
			found, n = n.c, n.left
		} else {
			n = n.right
		}
	}
	return found
}

// fits returns the first candidate whose estimate is at most left.
func (t *tree) fits(left time.Duration) *candidate {
	n := t.root
	if n == nil || n.least > left {
		return nil
	}
	for {
		switch {
		case n.left != nil && n.left.least <= left:
			n = n.left
		case n.c.Estimate <= left:
			return n.c
		default:
			n = n.right
		}
	}
}

// place tells the rank of c, from 1, and the cost of all before it.
func (t *tree) place(c *candidate) (rank int, cost time.Duration) {
	rank = 1
	for n := t.root; n != nil; {
		if n.c == c {
			return rank + n.left.count(), cost + n.left.cost()
		}
		if before(c, n.c) {
			n = n.left
			continue
		}
		rank += n.left.count() + 1
		cost += n.left.cost() + n.c.Estimate
		n = n.right
	}
	return rank, cost
}

// take walks in order and calls accept for each candidate whose estimate is at
// most what accept last returned, without looking at the others one by one.
func (t *tree) take(left time.Duration, accept func(*candidate) time.Duration) time.Duration {
	return t.root.take(left, accept)
}

func (n *node) take(left time.Duration, accept func(*candidate) time.Duration) time.Duration {
	if n == nil || n.least > left {
		return left
	}
	left = n.left.take(left, accept)
	if n.c.Estimate <= left {
		left = accept(n.c)
	}
	return n.right.take(left, accept)
}

// all lists the candidates in order.
func (t *tree) all() []*candidate {
	out := make([]*candidate, 0, t.len())
	var walk func(n *node)
	walk = func(n *node) {
		if n != nil {
			walk(n.left)
			out = append(out, n.c)
			walk(n.right)
		}
	}
	walk(t.root)
	return out
}
