package plan

import (
	"cmp"
	"slices"

	"github.com/freshet/freshet/scheduler/policy"
)

// A constantIndex finds an endpoint's queries by the constants that they
// name, for kin and for hints. It holds nothing until it is first asked for, and
// is then made piece by piece, so that the lock which pages and the API need is
// never held for long. It holds the first upto of the planner's queries.
type constantIndex struct {
	begun bool
	upto  int
	by    map[string]holders
	open  map[*item]struct{} // any triple may concern them
}

// holders are the queries that name a constant, in no order.
type holders struct {
	list []*item
	at   map[*item]int // places in the list, nil in a short one
}

const (
	// maxRelated is the most queries that may share a constant for it to relate them.
	maxRelated = 60
	// maxIndexed is the most constants of a query that are indexed. A query that
	// names more is about too much to be kin of others, or for a hint to pass it
	// by.
	maxIndexed = 1000
	// growBy is how many constants are indexed in one piece.
	growBy = 10_000
)

// grow takes another piece of the planner's queries in. It says whether some are
// left.
func (x *constantIndex) grow(order []*item) (more bool) {
	if !x.begun {
		x.begun, x.by, x.open = true, map[string]holders{}, map[*item]struct{}{}
	}
	for room := growBy; x.upto < len(order) && room > 0; x.upto++ {
		c := order[x.upto]
		x.add(c)
		room -= 1 + min(len(c.Query.Constants), maxIndexed)
	}
	return x.upto < len(order)
}

// has says whether the index holds a query that the planner holds.
func (x *constantIndex) has(c *item) bool { return c.planned && int(c.Number) < x.upto }

// enter takes in the last of the planner's queries, once all others are in.
func (x *constantIndex) enter(c *item) {
	if x.begun && x.upto == int(c.Number) {
		x.add(c)
		x.upto++
	}
}

// leave takes a query out; last, the last of the planner's queries, gets its
// place in their order.
func (x *constantIndex) leave(c, last *item) {
	if !x.has(c) {
		return
	}
	x.drop(c)
	if !x.has(last) {
		x.add(last)
		return
	}
	x.upto--
}

func (x *constantIndex) add(c *item) {
	for _, iri := range c.indexed() {
		h := x.by[iri]
		h.add(c)
		x.by[iri] = h
	}
	if c.Query.MatchesAnyTriple() || len(c.Query.Constants) > maxIndexed {
		x.open[c] = struct{}{}
	}
}

func (x *constantIndex) drop(c *item) {
	for _, iri := range c.indexed() {
		h := x.by[iri]
		if h.drop(c); len(h.list) == 0 {
			delete(x.by, iri)
		} else {
			x.by[iri] = h
		}
	}
	delete(x.open, c)
}

func (h *holders) add(c *item) {
	h.list = append(h.list, c)
	if h.at != nil {
		h.at[c] = len(h.list) - 1
	} else if len(h.list) > maxRelated { // looking through it would take long
		h.at = make(map[*item]int, len(h.list))
		for i, o := range h.list {
			h.at[o] = i
		}
	}
}

func (h *holders) drop(c *item) {
	i, last := h.find(c), len(h.list)-1
	if h.list[i] = h.list[last]; h.at != nil {
		h.at[h.list[i]] = i
		delete(h.at, c)
	}
	h.list[last] = nil
	h.list = h.list[:last]
}

func (h *holders) find(c *item) int {
	if h.at != nil {
		return h.at[c]
	}
	return slices.Index(h.list, c)
}

// indexed lists the constants of a query that the index holds, each once: none
// where they are too many. Queries have them sorted.
func (c *item) indexed() []string {
	if len(c.Query.Constants) > maxIndexed {
		return nil
	}
	return slices.Compact(slices.Clone(c.Query.Constants))
}

// related lists the queries that share a constant with c, each once, in the order
// of ids.
func (x *constantIndex) related(c *policy.Candidate) []*policy.Candidate {
	var out []*policy.Candidate
	constants := c.Query.Constants
	if len(constants) > maxIndexed {
		return nil
	}
	for _, iri := range constants {
		l := x.by[iri].list
		if len(l) > maxRelated {
			continue
		}
		for _, o := range l {
			if &o.Candidate != c {
				out = append(out, &o.Candidate)
			}
		}
	}
	slices.SortFunc(out, func(a, b *policy.Candidate) int { return cmp.Compare(a.Query.ID, b.Query.ID) })
	return slices.Compact(out)
}
