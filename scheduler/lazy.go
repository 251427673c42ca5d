package scheduler

import (
	"math"
	"slices"
	"time"
)

// A tail is what a tree has not put in order yet: everything in it comes after
// edge, and what the tree's nodes hold does not. A policy that gives new keys
// to all in each slot would otherwise sort all for the few that the budget
// reaches.
type tail struct {
	rest   []entry
	edge   entry
	least  time.Duration // at most the smallest estimate in it
	wave   int           // how many are put in order next
	source *source       // has others that come before those in rest, or nil
	// run is what was put in order last, from next on: it comes after what the
	// nodes hold, and before the rest. Mostly it is taken from its beginning.
	run    []entry
	next   int
	sorter sorter
}

const firstWave = 128

// load makes the tree hold exactly these candidates, in whatever order they
// come, in time that grows with their number; they are put in order as far as
// somebody asks.
func (t *tree) load(list []*candidate) {
	t.empty()
	for _, c := range list {
		c.in = t
		t.postpone(entryOf(c), c.Estimate)
	}
}

func (t *tree) empty() {
	clear(t.rest)
	t.root, t.depth = nil, 0
	t.rest, t.run, t.next = t.rest[:0], nil, 0
	t.edge, t.least, t.wave = entry{value: math.Inf(-1)}, math.MaxInt64, firstWave
}

// reload leaves what the source holds to the source, which has a new plan, and in
// order only what goes before all policies.
func (t *tree) reload() {
	var first []*candidate
	for c := t.look(math.MaxInt64); c != nil && c.tier == TierRefresh; c = t.look(math.MaxInt64) {
		first = append(first, c)
		t.cut(entryOf(c))
	}
	t.empty()
	t.edge.rank = 1 << slotBits
	for _, c := range first {
		t.put(entryOf(c), c.Estimate)
	}
}

func (t *tree) postpone(e entry, estimate time.Duration) {
	t.rest = append(t.rest, e)
	t.least = min(t.least, estimate)
}

// deferred says whether an entry is, or belongs, in the tail.
func (t *tree) deferred(e *entry) bool { return t.late() > 0 && t.edge.before(e) }

// late counts what is not in order.
func (t *tree) late() int { return len(t.rest) + t.source.len() }

// behind counts what is not in the nodes.
func (t *tree) behind() int { return len(t.run) - t.next + t.late() }

// leads returns the first of the run, if its estimate is at most left. If it is
// not, the run is looked through as the nodes are.
func (t *tree) leads(left time.Duration) *candidate {
	if t.next == len(t.run) {
		return nil
	}
	if c := t.run[t.next].c; c.Estimate <= left {
		return c
	}
	t.settle()
	return t.look(left)
}

// settle moves the run into the nodes.
func (t *tree) settle() {
	run := t.run[t.next:]
	t.run, t.next = nil, 0
	for _, e := range run {
		t.put(e, e.c.Estimate)
	}
}

// step goes on in the run, whose candidates it looks at a little earlier.
func (t *tree) step() {
	if t.next++; t.next%several == 0 {
		for _, e := range t.run[t.next:min(t.next+several, len(t.run))] {
			t.seen += e.c.warm()
		}
	}
}

// runs says whether an entry is, or belongs, in the run.
func (t *tree) runs(e *entry) bool { return t.next < len(t.run) && !e.before(&t.run[t.next]) }

// more says whether the tail may hold one whose estimate is at most left.
func (t *tree) more(left time.Duration) bool {
	return len(t.rest) > 0 && t.least <= left || t.source.len() > 0 && (left == math.MaxInt64 || t.source.least() <= left)
}

// pull puts the next ones of the tail in order, more each time.
func (t *tree) pull() {
	if t.source.len() > 0 {
		t.receive(t.source.next())
		return
	}
	n := min(t.wave, len(t.rest))
	t.wave *= 2
	if 2*n > len(t.rest) {
		n = len(t.rest)
	}
	nearest(t.rest, n)
	t.append(t.rest[:n])
	kept := copy(t.rest, t.rest[n:])
	clear(t.rest[kept:])
	t.rest, t.least = t.rest[:kept], math.MaxInt64
	for i := range t.rest {
		t.least = min(t.least, t.rest[i].c.Estimate)
	}
}

// append puts entries in order that come after all that are.
func (t *tree) append(next []entry) {
	if len(next) == 0 {
		return
	}
	t.settle()
	t.run = t.sorter.sort(next)
	t.edge = t.run[len(t.run)-1]
}

// receive takes in what comes from the source. Its last ones may be worth nothing,
// so they need not come before those that have entered since.
func (t *tree) receive(next []entry) {
	if t.source.len() > 0 || len(t.rest) == 0 {
		t.append(next)
		return
	}
	for _, e := range next {
		t.postpone(e, e.c.Estimate)
	}
}

// sort puts everything in order.
func (t *tree) sort() {
	defer t.settle()
	if t.source.len() > 0 {
		t.receive(t.source.all())
	}
	for len(t.rest) > 0 {
		t.wave = len(t.rest)
		t.pull()
	}
}

// withdraw takes an entry out of the tail.
func (t *tree) withdraw(c *candidate) {
	i := slices.IndexFunc(t.rest, func(e entry) bool { return e.c == c })
	last := len(t.rest) - 1
	t.rest[i], t.rest[last] = t.rest[last], entry{}
	t.rest = t.rest[:last]
}

// unordered appends all candidates to a list, in no order. It is for orders
// without a source.
func (t *tree) unordered(list []*candidate) []*candidate {
	list = t.root.head(math.MaxInt, list)
	for i := range t.run[t.next:] {
		list = append(list, t.run[t.next+i].c)
	}
	for i := range t.rest {
		list = append(list, t.rest[i].c)
	}
	return list
}

// nearest moves the n smallest entries to the front.
//
// Source: C. A. R. Hoare, "Algorithm 65: find", 1961.
func nearest(list []entry, n int) {
	for n > 0 && n < len(list) {
		pivot := list[len(list)/2]
		i, j := 0, len(list)-1
		for i <= j {
			for list[i].before(&pivot) {
				i++
			}
			for pivot.before(&list[j]) {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i++
				j--
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
