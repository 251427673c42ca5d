package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Colours are what remains when the budget is spent. Colour refinement mixes
// into each node's hash those of its neighbours until no more nodes are told
// apart. Nodes that stay alike are then ordered by singling out one after the
// other and refining again. That is canonical whenever alike nodes are really
// interchangeable, as they are in nearly all symmetric graphs, but not always:
// the result says Approximate.

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
	for _, v := range c.total() {
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
	for i, v := range c.total() {
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

// total orders all nodes: it singles out the first node of the first colour
// that several share, refines, and so on.
func (c *colours) total() []int32 {
	for c.work > 0 && c.singleOut() {
		c.refine()
	}
	order := make([]int32, len(c.colour))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(c.colour[a], c.colour[b]) })
	return order
}

func (c *colours) singleOut() bool {
	classes := map[string][]int32{}
	for v, h := range c.colour {
		classes[h] = append(classes[h], int32(v))
	}
	for _, h := range slices.Sorted(maps.Keys(classes)) {
		if g := classes[h]; len(g) > 1 {
			c.colour[g[0]] = sum([]byte("single " + h))
			return true
		}
	}
	return false
}
