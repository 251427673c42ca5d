package diff

import (
	"cmp"
	"slices"
	"strings"
)

// Colour refinement is used when the budget is spent. It mixes the hashes of
// each node's neighbours into its own until no more nodes are distinguished. Of nodes
// that remain alike, it gives one another colour and goes on, until every node with
// neighbours has its own or the work is spent. The labels are canonical if nodes that
// remain alike are interchangeable, as in nearly all graphs; because this is not certain,
// the result is Approximate.

// colourWork bounds the rows visited by the refinement of one result.
const colourWork = 300_000

type colours struct {
	l      *labeller
	colour []string
	places bool // rows are distinguished by their tie group
	work   int
	whole  map[int32]string // wide rows with their current colours
}

// approximate relabels all nodes by their colours.
func (l *labeller) approximate() error {
	l.order, l.used = nil, map[string]int{}
	c := colours{l: l, colour: slices.Clone(l.first), work: colourWork}
	if err := c.refine(); err != nil {
		return err
	}
	first := c.colour
	order, err := c.order()
	for _, v := range order {
		l.issue(v, first[v])
	}
	return err
}

// rankByPlace ranks the nodes of an ordered result by colours that include the
// positions of rows.
func (l *labeller) rankByPlace(alike map[string][]int32) ([]int, error) {
	c := colours{l: l, colour: slices.Clone(l.first), places: true, work: colourWork}
	for base, nodes := range alike {
		for _, v := range nodes {
			c.colour[v] = base
		}
	}
	if err := c.refine(); err != nil {
		return nil, err
	}
	order, err := c.order()
	rank := make([]int, len(l.at))
	for i, v := range order {
		rank[v] = i
	}
	return rank, err
}

// order returns the nodes by their colours, and within a colour by those that follow when
// nodes that are alike get colours of their own.
func (c *colours) order() ([]int32, error) {
	first := c.colour
	for v := c.alike(); v >= 0 && c.work > 0; v = c.alike() {
		c.colour = slices.Clone(c.colour)
		c.colour[v] = sum([]byte("!" + c.colour[v]))
		if err := c.refine(); err != nil {
			return nil, err
		}
	}
	order := make([]int32, len(first))
	for v := range order {
		order[v] = int32(v)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(strings.Compare(first[a], first[b]), strings.Compare(c.colour[a], c.colour[b]))
	})
	return order, nil
}

// alike returns a node of the colour that the fewest nodes with neighbours, but at least
// two, share; -1 if there is none.
func (c *colours) alike() int32 {
	nodes := map[string][]int32{}
	for v, h := range c.colour {
		if c.l.hasNeighbours(int32(v)) {
			nodes[h] = append(nodes[h], int32(v))
		}
	}
	best := int32(-1)
	for h, list := range nodes {
		if b := best; len(list) > 1 {
			if b < 0 || len(list) < len(nodes[c.colour[b]]) || len(list) == len(nodes[c.colour[b]]) && h < c.colour[b] {
				best = list[0]
			}
		}
	}
	return best
}

// refine repeats until the number of colours no longer grows or the work is
// spent.
func (c *colours) refine() error {
	for n := c.distinct(); n < len(c.colour) && c.work > 0; {
		if err := c.wideRows(); err != nil {
			return err
		}
		next := make([]string, len(c.colour))
		for v := range next {
			var err error
			if next[v], err = c.mixed(int32(v)); err != nil {
				return err
			}
		}
		c.colour = next
		m := c.distinct()
		if m == n {
			return nil
		}
		n = m
	}
	return nil
}

// wideRows hashes each row with many nodes once for all of these nodes.
func (c *colours) wideRows() error {
	c.whole = map[int32]string{}
	for k := range c.l.edges {
		e := &c.l.edges[k]
		if e.wide == nil {
			continue
		}
		c.work -= len(e.nodes) + e.size/1024
		if err := c.l.stop.spend(e.size + 64*len(e.nodes)); err != nil {
			return err
		}
		c.whole[int32(k)] = sum(e.render(nil, func(h int) string { return c.colour[e.nodes[h]] }))
	}
	return nil
}

func (c *colours) distinct() int {
	seen := make(map[string]struct{}, len(c.colour))
	for _, h := range c.colour {
		seen[h] = struct{}{}
	}
	return len(seen)
}

func (c *colours) mixed(v int32) (string, error) {
	rows := make([]string, 0, len(c.l.at[v]))
	for _, k := range c.l.at[v] {
		e := &c.l.edges[k]
		var text []byte
		if e.wide != nil {
			c.work--
			text = []byte(c.whole[k] + e.wide.marks[v] + " ")
		} else {
			c.work -= len(e.nodes) + e.size/1024
			text = e.render(nil, func(h int) string {
				if e.nodes[h] == v {
					return "a"
				}
				return c.colour[e.nodes[h]]
			})
		}
		if err := c.l.stop.spend(64 + len(text)); err != nil {
			return "", err
		}
		place := ""
		if c.places {
			place = " " + itoa(e.place)
		}
		rows = append(rows, sum(append(text, itoa(e.count)+place...)))
	}
	slices.Sort(rows)
	return sum([]byte(c.colour[v] + strings.Join(rows, ""))), nil
}
