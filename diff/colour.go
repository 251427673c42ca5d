package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Colour refinement is used when the budget is spent, and for the ties of ordered results.
//
// Nodes with a first-degree hash of their own keep the label of it, and the others are labelled
// one component at a time: nodes are connected that share a row. The hashes of each node's
// neighbours are mixed into its own until no more nodes are told apart. Of nodes that remain
// alike, one gets another colour, and so on, until each node of the component has its own or the
// component's work is spent. A label is the hash of the component and the node's place in it. So a
// change elsewhere does not affect it as long as the work suffices and the budget is spent again, and
// equal components are interchangeable. The labels are
// canonical if nodes that remain alike are interchangeable, as in trees, chains, cycles and nearly
// all graphs; because this is not certain, the result is Approximate.

// A component may visit workPerPlace times as many places of nodes in rows as it has. What of
// colourWork the places of the result leave is divided among them.
const (
	colourWork   = 300_000
	workPerPlace = 48
)

type colours struct {
	l      *labeller
	colour []string
	places bool                 // rows are distinguished by their tie group
	before func(a, b int32) int // which of two nodes that are alike goes first; nil: any
	work   int                  // that is left for the component
	marks  int                  // how many of its nodes have got a colour that no other has
	size   map[string]int       // colour → the component's nodes that have it
	whole  map[int32]string     // wide rows with their current colours
}

// A component is a set of connected nodes in canonical order.
type component struct {
	nodes  []int32
	places int    // of nodes in the rows of each node
	hash   string // of its rows
}

// approximate relabels all nodes by their colours.
func (l *labeller) approximate() error {
	l.order, l.used = nil, map[string]int{}
	clear(l.name)
	alike := map[string][]int32{}
	for v, h := range l.first {
		alike[h] = append(alike[h], int32(v))
	}
	for _, h := range slices.Sorted(maps.Keys(alike)) {
		if g := alike[h]; len(g) == 1 {
			l.issue(g[0], h)
			delete(alike, h)
		}
	}
	c := colours{l: l, colour: slices.Clone(l.first)}
	if l.ordered {
		before, err := l.bySequence(alike)
		if err != nil {
			return err
		}
		c.before = before
	}
	all, err := c.components()
	if err != nil {
		return err
	}
	for _, k := range all {
		for i, v := range k.nodes {
			if l.hasNeighbours(v) {
				l.issue(v, sum([]byte(k.hash+" "+itoa(i))))
			} else {
				l.issue(v, l.first[v])
			}
		}
	}
	return nil
}

// rankByPlace ranks the nodes of an ordered result by colours that include the
// positions of rows.
func (l *labeller) rankByPlace(alike map[string][]int32) ([]int, error) {
	c := colours{l: l, colour: slices.Clone(l.first), places: true}
	for base, nodes := range alike {
		for _, v := range nodes {
			c.colour[v] = base
		}
	}
	all, err := c.components()
	rank, n := make([]int, len(l.at)), 0
	for _, k := range all {
		for _, v := range k.nodes {
			rank[v] = n
			n++
		}
	}
	return rank, err
}

// components returns the nodes without a label, by component. Those with the same hash are
// equal, if no work was spent.
func (c *colours) components() ([]component, error) {
	for v, label := range c.l.name {
		if label != "" {
			c.colour[v] = label
		}
	}
	var all []component
	total, seen := 0, make([]bool, len(c.l.at))
	for v := range c.l.at {
		if seen[v] || c.l.name[v] != "" {
			continue
		}
		k := component{}
		for next := []int32{int32(v)}; len(next) > 0; {
			fresh := slices.DeleteFunc(next, func(w int32) bool { return seen[w] })
			for _, w := range fresh {
				seen[w] = true
				k.places += c.placesAround(w)
			}
			k.nodes = append(k.nodes, fresh...)
			next = c.near(fresh)
		}
		total += k.places
		all = append(all, k)
	}
	for i := range all {
		k := &all[i]
		c.work = k.places * max(workPerPlace, colourWork/total)
		if c.before != nil {
			slices.SortStableFunc(k.nodes, c.before)
		}
		if err := c.settle(k); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b component) int {
		d := strings.Compare(a.hash, b.hash)
		if d == 0 && c.before != nil {
			d = c.before(a.nodes[0], b.nodes[0])
		}
		return d
	})
	return all, nil
}

// near returns the nodes without a label that share rows with some nodes, and these nodes.
func (c *colours) near(nodes []int32) (all []int32) {
	rows := map[int32]bool{}
	for _, v := range nodes {
		for _, k := range c.l.at[v] {
			if rows[k] {
				continue
			}
			rows[k] = true
			for _, w := range c.l.edges[k].nodes {
				if c.l.name[w] == "" {
					all = append(all, w)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// placesAround returns how many places for nodes the rows of a node have. A row with many nodes is hashed once for all.
func (c *colours) placesAround(v int32) (n int) {
	for _, k := range c.l.at[v] {
		if e := &c.l.edges[k]; e.wide != nil {
			n += 2 + e.size/1024/len(e.nodes)
		} else {
			n += len(e.nodes) + e.size/1024
		}
	}
	return n
}

// settle puts the nodes of a component into their order and hashes it.
func (c *colours) settle(k *component) error {
	c.size, c.whole, c.marks = map[string]int{}, map[int32]string{}, 0
	for _, v := range k.nodes {
		c.size[c.colour[v]]++
	}
	touched := k.nodes
	for {
		if err := c.refine(touched); err != nil {
			return err
		}
		classes := c.alike(k.nodes)
		if len(classes) == 0 || c.work <= 0 {
			break
		}
		touched = nil
		for _, x := range classes {
			for _, v := range x.nodes {
				if c.colour[v] != x.colour || c.size[x.colour] == 1 || c.work <= 0 {
					continue
				}
				c.marks++
				c.recolour(v, sum([]byte("!"+itoa(c.marks)+x.colour)))
				if err := c.refine(c.near([]int32{v})); err != nil {
					return err
				}
			}
		}
	}
	slices.SortStableFunc(k.nodes, func(a, b int32) int { return strings.Compare(c.colour[a], c.colour[b]) })
	return c.hash(k)
}

// A class is the nodes of a component with the same colour.
type class struct {
	colour string
	nodes  []int32
}

// alike returns the classes of more than one node, the smallest first.
func (c *colours) alike(nodes []int32) (all []class) {
	c.work -= len(nodes)
	of := map[string][]int32{}
	for _, v := range nodes {
		if h := c.colour[v]; c.size[h] > 1 {
			of[h] = append(of[h], v)
		}
	}
	for h, list := range of {
		all = append(all, class{h, list})
	}
	slices.SortFunc(all, func(a, b class) int {
		return cmp.Or(cmp.Compare(len(a.nodes), len(b.nodes)), strings.Compare(a.colour, b.colour))
	})
	return all
}

func (c *colours) recolour(v int32, colour string) {
	if c.size[c.colour[v]]--; c.size[c.colour[v]] == 0 {
		delete(c.size, c.colour[v])
	}
	c.colour[v] = colour
	c.size[colour]++
	for _, k := range c.l.at[v] {
		delete(c.whole, k)
	}
}

// refine tells nodes apart by the colours of their neighbours, as long as that brings new colours and the work lasts.
// touched are the nodes whose neighbours have new colours. Those of a colour that see no new one keep it, or else the most
// of those that see the same: so their neighbours need not be looked at again.
func (c *colours) refine(touched []int32) error {
	for len(touched) > 0 && c.work > 0 {
		next, classes := map[int32]string{}, map[string][]int32{}
		for _, v := range touched {
			if class := c.colour[v]; c.size[class] > 1 {
				var err error
				if next[v], err = c.mixed(v); err != nil {
					return err
				}
				classes[class] = append(classes[class], v)
			}
		}
		var changed []int32
		for class, nodes := range classes {
			keeps := ""
			if len(nodes) == c.size[class] {
				keeps = mostOf(nodes, next)
			}
			for _, v := range nodes {
				if next[v] != keeps {
					c.recolour(v, next[v])
					changed = append(changed, v)
				}
			}
		}
		touched = c.near(changed)
	}
	return nil
}

// mostOf returns the colour that the most nodes get, of several the first.
func mostOf(nodes []int32, next map[int32]string) (most string) {
	n := map[string]int{}
	for _, v := range nodes {
		n[next[v]]++
	}
	for h := range n {
		if most == "" || cmp.Or(cmp.Compare(n[most], n[h]), strings.Compare(h, most)) < 0 {
			most = h
		}
	}
	return most
}

// wideRow hashes a row with many nodes once for all of these nodes.
func (c *colours) wideRow(k int32) (string, error) {
	if h, ok := c.whole[k]; ok {
		return h, nil
	}
	e := &c.l.edges[k]
	c.work -= len(e.nodes) + e.size/1024
	if err := c.l.stop.spend(e.size + 64*len(e.nodes)); err != nil {
		return "", err
	}
	c.whole[k] = sum(e.render(nil, func(h int) string { return c.colour[e.nodes[h]] }))
	return c.whole[k], nil
}

func (c *colours) mixed(v int32) (string, error) {
	rows := make([]string, 0, len(c.l.at[v]))
	for _, k := range c.l.at[v] {
		e := &c.l.edges[k]
		var text []byte
		if e.wide != nil {
			c.work--
			whole, err := c.wideRow(k)
			if err != nil {
				return "", err
			}
			text = []byte(whole + e.wide.marks[v] + " ")
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
		rows = append(rows, sum(append(text, itoa(e.count)+c.place(e)...)))
	}
	slices.Sort(rows)
	return sum([]byte(c.colour[v] + strings.Join(rows, ""))), nil
}

func (c *colours) place(e *edge) string {
	if !c.places {
		return ""
	}
	return " " + itoa(e.place)
}

// hash hashes the rows of a component, with its nodes written as their places in it.
func (c *colours) hash(k *component) error {
	at, seen := make(map[int32]string, len(k.nodes)), map[int32]bool{}
	for i, v := range k.nodes {
		at[v] = itoa(i)
	}
	var rows []string
	for _, v := range k.nodes {
		for _, n := range c.l.at[v] {
			if seen[n] {
				continue
			}
			seen[n] = true
			e := &c.l.edges[n]
			text := e.render(nil, func(h int) string { return cmp.Or(at[e.nodes[h]], c.colour[e.nodes[h]]) })
			if err := c.l.stop.spend(64 + len(text)); err != nil {
				return err
			}
			rows = append(rows, sum(append(text, " "+itoa(e.count)+c.place(e)...)))
		}
	}
	slices.Sort(rows)
	k.hash = sum([]byte(strings.Join(rows, "")))
	return nil
}
