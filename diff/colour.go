package diff

import (
	"slices"
	"strings"
)

// Colours are what remains when the budget is spent. Colour refinement mixes
// into each node's hash those of its neighbours until no more nodes are told
// apart. Nodes that stay alike are then ordered by a search, see search.go. That
// is canonical whenever nodes that it cannot tell apart are interchangeable, as
// they are in nearly all graphs, but not always: the result says Approximate.

// colourWork bounds the rows visited by all refinement of one result.
const colourWork = 300_000

type colours struct {
	l      *labeller
	colour []string
	places bool // rows are told apart by their tie group
	work   int
}

// approximate labels all nodes anew by colours.
func (l *labeller) approximate() {
	l.order, l.used = nil, map[string]int{}
	c := colours{l: l, colour: slices.Clone(l.first), work: colourWork}
	c.refine()
	base := slices.Clone(c.colour)
	for _, v := range c.search().order() {
		l.issue(v, base[v])
	}
}

// rankByPlace ranks the nodes of an ordered result by colours that know where
// rows stand.
func (l *labeller) rankByPlace(alike map[string][]int32) []int {
	c := colours{l: l, colour: slices.Clone(l.first), places: true, work: colourWork}
	for base, nodes := range alike {
		for _, v := range nodes {
			c.colour[v] = base
		}
	}
	c.refine()
	rank := make([]int, len(l.at))
	for i, v := range c.search().order() {
		rank[v] = i
	}
	return rank
}

// refine goes on until the number of colours stands still or the work is done.
func (c *colours) refine() {
	for n := c.distinct(); n < len(c.colour) && c.work > 0; {
		next := make([]string, len(c.colour))
		for v := range next {
			next[v] = c.mixed(int32(v))
		}
		c.colour = next
		m := c.distinct()
		if m == n {
			return
		}
		n = m
	}
}

func (c *colours) distinct() int {
	seen := make(map[string]struct{}, len(c.colour))
	for _, h := range c.colour {
		seen[h] = struct{}{}
	}
	return len(seen)
}

func (c *colours) mixed(v int32) string {
	rows := make([]string, 0, len(c.l.at[v]))
	for _, k := range c.l.at[v] {
		e := &c.l.edges[k]
		c.work -= len(e.nodes)
		text := e.render(nil, func(h int) string {
			if e.nodes[h] == v {
				return "a"
			}
			return c.colour[e.nodes[h]]
		})
		place := ""
		if c.places {
			place = " " + itoa(e.place)
		}
		rows = append(rows, sum(append(text, itoa(e.count)+place...)))
	}
	slices.Sort(rows)
	return sum([]byte(c.colour[v] + strings.Join(rows, "")))
}
