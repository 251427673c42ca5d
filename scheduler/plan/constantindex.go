package plan

import (
	"cmp"
	"slices"

	"github.com/freshet/freshet/scheduler/policy"
)

// A keyIndex finds an endpoint's queries by keys that follow from their texts. It is
// empty until the first use and is then built in pieces, so that the plan's lock is
// never held for long. It contains the first upto of the planner's queries.
type keyIndex[K comparable] struct {
	keys  func(*item) []K // of a query, each once
	each  int             // what a piece counts for each query, besides its keys
	begun bool
	upto  int
	by    map[K]holders
}

// holders are the queries that have a key, in no order.
type holders struct {
	list []*item
	at   map[*item]int // positions in the list, nil if the list is short
}

const (
	// maxRelated is the largest number of queries that a shared constant relates.
	maxRelated = 60
	// maxIndexed is the largest number of constants, and of patterns, for which a query
	// is indexed. A query with more is related to no other, and every hint may affect it.
	maxIndexed = 1000
	// growBy is how many keys are indexed in one piece.
	growBy = 10_000
)

// A constantIndex finds queries by their constants, for related queries.
type constantIndex struct{ keyIndex[string] }

func newConstantIndex() constantIndex {
	return constantIndex{keyIndex[string]{keys: (*item).indexed, each: 1}}
}

// grow indexes the next piece of the planner's queries. It reports whether some are
// left.
func (x *keyIndex[K]) grow(order []*item) (more bool) {
	if !x.begun {
		x.begun, x.by = true, map[K]holders{}
	}
	for room := growBy; x.upto < len(order) && room > 0; x.upto++ {
		room -= x.each + x.add(order[x.upto])
	}
	return x.upto < len(order)
}

// has reports whether the index contains a query of the planner.
func (x *keyIndex[K]) has(c *item) bool { return c.planned && int(c.Number) < x.upto }

// indexLast indexes the last of the planner's queries if all others are indexed.
func (x *keyIndex[K]) indexLast(c *item) {
	if x.begun && x.upto == int(c.Number) {
		x.add(c)
		x.upto++
	}
}

// replace changes a query by edit. The query is indexed before if it is afterwards.
func (x *keyIndex[K]) replace(c *item, edit func()) {
	if !x.has(c) {
		edit()
		x.indexLast(c)
		return
	}
	x.drop(c)
	edit()
	x.add(c)
}

// leave removes a query. last, the last of the planner's queries, takes its number.
func (x *keyIndex[K]) leave(c, last *item) {
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

// add returns the number of keys.
func (x *keyIndex[K]) add(c *item) int {
	keys := x.keys(c)
	for _, k := range keys {
		h := x.by[k]
		h.add(c)
		x.by[k] = h
	}
	return len(keys)
}

func (x *keyIndex[K]) drop(c *item) {
	for _, k := range x.keys(c) {
		h := x.by[k]
		if h.drop(c); len(h.list) == 0 {
			delete(x.by, k)
		} else {
			x.by[k] = h
		}
	}
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
