package diff

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"
)

// Bounds on the search in one result, in holes of rows visited: for refining
// the chosen path, and for trying nodes in order to choose it.
const (
	refineWork = 3_000_000
	tryWork    = 10_000_000
)

// A search orders all nodes, including those of the same colour: it
// individualises one of these and refines the colours, until every node has its
// own. The choice matters: two presentations of a graph are recognised as equal
// only if the search continues from corresponding nodes. It therefore tries
// every candidate and takes the one with the smallest resulting colours.
// Candidates with equal outcomes count as interchangeable; if trying all is too
// much work, so do those not tried. This is the first step of practical
// canonical labelling (B. D. McKay, A. Piperno, Practical graph isomorphism,
// II), without backtracking. Connected components are searched separately.
type search struct {
	l      *labeller
	colour []uint64
	kind   []uint64         // of a row: its content apart from its nodes
	whole  map[int32]uint64 // wide rows with their current colours
}

// search continues from the colours found so far.
func (c *colours) search() *search {
	s := &search{l: c.l, colour: make([]uint64, len(c.colour)), kind: make([]uint64, len(c.l.edges)), whole: map[int32]uint64{}}
	for v, h := range c.colour {
		s.colour[v] = xxh3.HashString(h)
	}
	for k := range c.l.edges {
		e := &c.l.edges[k]
		place := 0
		if c.places {
			place = e.place + 1
		}
		s.kind[k] = fmix(xxh3.Hash(bytes.Join(e.pieces, []byte{0})) ^ fmix(uint64(e.count)<<32|uint64(place)))
	}
	return s
}

// A component is a set of connected nodes.
type component struct {
	nodes []int32
	wide  []int32 // rows with many nodes
	size  int     // holes visited when all colours are mixed once
	work  int     // remaining work for refining
	tries int     // remaining work for trying candidates
	key   uint64  // digest of the outcome: equal for isomorphic components
}

// order returns the nodes by their initial colours; within a colour by
// component, and within a component by the outcome of the search.
func (s *search) order() ([]int32, error) {
	first := slices.Clone(s.colour)
	parts, of := s.components()
	for i := range parts {
		if err := s.makeDiscrete(&parts[i]); err != nil {
			return nil, err
		}
	}
	order := make([]int32, len(s.colour))
	for v := range order {
		order[v] = int32(v)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		p, q := of[a], of[b]
		return cmp.Or(cmp.Compare(first[a], first[b]), cmp.Compare(parts[p].key, parts[q].key), cmp.Compare(p, q),
			cmp.Compare(s.colour[a], s.colour[b]))
	})
	return order, nil
}

// components finds the connected components. Each gets its share of the work,
// so that its outcome does not depend on their order.
func (s *search) components() (parts []component, of []int) {
	of = make([]int, len(s.colour))
	for v := range of {
		of[v] = -1
	}
	total := 0
	for v := range of {
		if of[v] >= 0 {
			continue
		}
		p := component{nodes: []int32{int32(v)}}
		of[v] = len(parts)
		for i := 0; i < len(p.nodes); i++ {
			for _, k := range s.l.at[p.nodes[i]] {
				if s.l.edges[k].wide != nil {
					p.size++
					if _, seen := s.whole[k]; seen {
						continue
					}
					s.whole[k] = 0
					p.wide = append(p.wide, k)
				}
				p.size += len(s.l.edges[k].nodes)
				for _, w := range s.l.edges[k].nodes {
					if of[w] < 0 {
						of[w] = len(parts)
						p.nodes = append(p.nodes, w)
					}
				}
			}
		}
		total += p.size
		parts = append(parts, p)
	}
	for i := range parts {
		share := float64(parts[i].size) / float64(total)
		parts[i].work, parts[i].tries = int(refineWork*share), int(tryWork*share)
	}
	return parts, of
}

// makeDiscrete gives every node of a component its own colour, as far as the
// work allows.
func (s *search) makeDiscrete(p *component) error {
	if err := s.refine(p, &p.work); err != nil {
		return err
	}
	for p.work > 0 {
		class := s.smallestClass(p)
		if class == nil {
			break
		}
		v, err := s.chooseNode(p, class)
		if err != nil {
			return err
		}
		s.individualise(v)
		if err := s.refine(p, &p.work); err != nil {
			return err
		}
	}
	p.key = s.outcome(p)
	return nil
}

func (s *search) individualise(v int32) { s.colour[v] = fmix(s.colour[v] ^ 0x5bd1e9955bd1e995) }

// chooseNode chooses the node of one colour to individualise. Trying all
// candidates takes the same work in any order, so that whether it is too much
// is a property of the graph.
func (s *search) chooseNode(p *component, class []int32) (int32, error) {
	if len(class)*p.size > p.tries {
		return class[0], nil
	}
	before := make([]uint64, len(p.nodes))
	for i, v := range p.nodes {
		before[i] = s.colour[v]
	}
	best, least := class[0], uint64(0)
	for i, v := range class {
		s.individualise(v)
		if err := s.refine(p, &p.tries); err != nil {
			return 0, err
		}
		if out := s.outcome(p); i == 0 || out < least {
			best, least = v, out
		}
		for i, v := range p.nodes {
			s.colour[v] = before[i]
		}
		if p.tries <= 0 {
			return class[0], nil
		}
	}
	return best, nil
}

// refine mixes the colours of neighbours until no more nodes are distinguished.
func (s *search) refine(p *component, work *int) error {
	next := make([]uint64, len(p.nodes))
	for n := s.distinct(p); n < len(p.nodes) && *work > 0; {
		if err := s.l.stop.spend(32 * p.size); err != nil {
			return err
		}
		s.wideRows(p)
		for i, v := range p.nodes {
			next[i] = s.mixed(v)
		}
		for i, v := range p.nodes {
			s.colour[v] = next[i]
		}
		*work -= p.size
		m := s.distinct(p)
		if m == n {
			return nil
		}
		n = m
	}
	return nil
}

// wideRows hashes each row with many nodes once for all of these nodes.
func (s *search) wideRows(p *component) {
	for _, k := range p.wide {
		h := s.kind[k]
		for _, w := range s.l.edges[k].nodes {
			h = fmix(h*0x9e3779b97f4a7c15 + s.colour[w])
		}
		s.whole[k] = h
	}
}

func (s *search) mixed(v int32) uint64 {
	rows := uint64(0)
	for _, k := range s.l.at[v] {
		if wide := s.l.edges[k].wide; wide != nil {
			rows += fmix(s.whole[k] + xxh3.HashString(wide.marks[v]))
			continue
		}
		h := s.kind[k]
		for _, w := range s.l.edges[k].nodes {
			c := uint64(1)
			if w != v {
				c = s.colour[w]
			}
			h = fmix(h*0x9e3779b97f4a7c15 + c)
		}
		rows += fmix(h) // a sum, because their order is arbitrary
	}
	return fmix(s.colour[v]*0x9e3779b97f4a7c15 + rows)
}

func (s *search) sorted(p *component) []uint64 {
	out := make([]uint64, len(p.nodes))
	for i, v := range p.nodes {
		out[i] = s.colour[v]
	}
	slices.Sort(out)
	return out
}

func (s *search) distinct(p *component) int { return len(slices.Compact(s.sorted(p))) }

// outcome digests the colours of a component.
func (s *search) outcome(p *component) uint64 {
	h := uint64(len(p.nodes))
	for _, c := range s.sorted(p) {
		h = fmix(h*0x9e3779b97f4a7c15 + c)
	}
	return h
}

// smallestClass returns the nodes of the colour that the fewest nodes, but at
// least two, share; nil if there is none.
func (s *search) smallestClass(p *component) []int32 {
	nodes := slices.Clone(p.nodes)
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(s.colour[a], s.colour[b]) })
	var best []int32
	for from := 0; from < len(nodes); {
		to := from + 1
		for to < len(nodes) && s.colour[nodes[to]] == s.colour[nodes[from]] {
			to++
		}
		if n := to - from; n > 1 && (best == nil || n < len(best)) {
			best = nodes[from:to]
		}
		from = to
	}
	return best
}
