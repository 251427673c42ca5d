package diff

import (
	"slices"
	"strings"
)

// Colour refinement is used when the budget is spent. It mixes the hashes of
// each node's neighbours into its own until no more nodes are distinguished. A
// search orders the nodes that remain alike, see search.go. The labels are
// canonical if nodes that the search cannot distinguish are interchangeable, as
// in nearly all graphs; because this is not certain, the result is Approximate.

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
	order, err := c.search().order()
	for _, v := range order {
		l.issue(v, c.colour[v])
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
	order, err := c.search().order()
	rank := make([]int, len(l.at))
	for i, v := range order {
		rank[v] = i
	}
	return rank, err
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
