package plan

import (
	"cmp"
	"slices"

	"github.com/freshet/freshet/scheduler/policy"
)

// A constantIndex finds an endpoint's queries by their constants, for hints and for
// related queries. It is empty until the first use and is then built in pieces, so
// that the plan's lock is never held for long. It contains the first upto of the
// planner's queries.
type constantIndex struct {
	begun bool
	upto  int
	by    map[string]holders
	open  map[*item]struct{} // queries that any triple may affect
}

// holders are the queries that contain a constant, in no order.
type holders struct {
	list []*item
	at   map[*item]int // positions in the list, nil if the list is short
}

const (
	// maxRelated is the largest number of queries that a shared constant relates.
	maxRelated = 60
	// maxIndexed is the largest number of constants for which a query is indexed. A
	// query with more is related to no other, and every hint may affect it.
	maxIndexed = 1000
	// growBy is how many constants are indexed in one piece.
	growBy = 10_000
)

// grow indexes the next piece of the planner's queries. It reports whether some are
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

// has reports whether the index contains a query of the planner.
func (x *constantIndex) has(c *item) bool { return c.planned && int(c.Number) < x.upto }

// enter indexes the last of the planner's queries if all others are indexed.
func (x *constantIndex) enter(c *item) {
	if x.begun && x.upto == int(c.Number) {
		x.add(c)
		x.upto++
	}
}

// leave removes a query. last, the last of the planner's queries, takes its number.
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
	} else if len(h.list) > maxRelated { // too long to search
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

// indexed returns the distinct constants of a query that are indexed, none if there
// are too many. The constants of a query are sorted.
func (c *item) indexed() []string {
	if len(c.Query.Constants) > maxIndexed {
		return nil
	}
	return slices.Compact(slices.Clone(c.Query.Constants))
}

// related returns the other queries that share a constant with c, each once, ordered
// by id.
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
