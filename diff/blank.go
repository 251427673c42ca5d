package diff

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

// Canonical labels of blank nodes follow RDFC-1.0 (W3C, RDF Dataset
// Canonicalization), generalised from quads to rows: a row is a hyperedge over
// the blank nodes in it. For triples the hashes of nodes are RDFC's own.
//
//   - A node's first-degree hash covers its rows, with the node written "a" and
//     every other node "z". A row that occurs n times counts n times.
//   - If the hash is unique, the label is "b" and its first 16 digits.
//   - Nodes with the same hash and no neighbours are interchangeable.
//   - For other nodes RDFC's n-degree hash decides, with three differences. A
//     node that has been issued is written by its label instead of its identifier
//     ("c14n7", which counts all nodes), so that rows elsewhere do not change it.
//     A neighbour is written as the row with the two nodes marked instead of its
//     position and predicate. Rows with three or more nodes are hashed once more
//     when all of their nodes are issued, since pairs do not show which neighbours
//     share a row.
//   - Nodes with the same hash get the suffixes "-1", "-2", … after the first, in
//     the order in which RDFC issues identifiers. In an ordered result the
//     sequence decides instead.
//
// In rows with many blank nodes a node is hashed with its positions, see
// maxNarrowNodes. Options.BlankBudget bounds the work: colour.go describes what
// happens when it is spent.

var errBudget = errors.New("too much work for blank nodes")

// A labeller assigns labels to the blank nodes of one result.
type labeller struct {
	graph, ordered bool
	edges          []edge
	at             [][]int32 // node → its edges
	hole           []int32   // node → the hole of its first edge in which it occurs first
	stop           stopper
	budget         int
	hashed         int      // bytes hashed for neighbours: long rows cost more
	first          []string // node → first-degree hash, hexadecimal
	name           []string // node → label, once issued
	numbered       bool     // issue RDFC's c14n identifiers instead of labels
	order          []int32  // nodes in the order of issue
	used           map[string]int
	twin           map[int32]string
}

// relabel makes the labels of blank nodes canonical and rewrites the text.
func (r *Result) relabel(o Options) error {
	l, holes, err := r.edges(o)
	if err != nil {
		return err
	}
	l.budget = o.BlankBudget
	if l.budget <= 0 {
		// The default grows with the result, so that it suffices for many small
		// structures.
		l.budget = max(20000, 8*len(l.at))
	}
	err = l.label()
	if r.approximate = errors.Is(err, errBudget); r.approximate {
		err = l.approximate()
	}
	if err != nil {
		return err
	}
	text := make([]byte, 0, len(r.text))
	for i := range r.rows {
		from := len(text)
		if e := holes[i]; e < 0 {
			text = append(text, r.arrived(i)...)
		} else {
			edge := &l.edges[e]
			text = edge.render(text, func(hole int) string { return l.name[edge.nodes[hole]] })
		}
		r.rows[i] = span{from, len(text)}
	}
	r.text = text
	return nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func (l *labeller) spend(n int) error {
	if l.budget -= n; l.budget < 0 {
		return errBudget
	}
	return l.stop.spend(n << 10)
}

// firstDegree is RDFC-1.0 section 4.6.
func (l *labeller) firstDegree(v int32) (string, error) {
	var lines []string
	for _, n := range l.at[v] {
		e := &l.edges[n]
		line := string(append(e.renderFor(v), '\n'))
		if err := l.stop.spend(64 + len(line)*e.count); err != nil {
			return "", err
		}
		for range e.count {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return sum([]byte(strings.Join(lines, ""))), nil
}

// renderFor is the row with v written "a" and every other node "z".
func (e *edge) renderFor(v int32) []byte {
	if e.wide != nil {
		return []byte(e.wide.digest + e.wide.marks[v])
	}
	return e.render(nil, func(h int) string {
		if e.nodes[h] == v {
			return "a"
		}
		return "z"
	})
}

// label is RDFC-1.0 section 4.4.
func (l *labeller) label() error {
	l.first = make([]string, len(l.at))
	groups := map[string][]int32{}
	for v := range l.at {
		h, err := l.firstDegree(int32(v))
		if err != nil {
			return err
		}
		l.first[v] = h
		groups[h] = append(groups[h], int32(v))
	}
	hashes := make([]string, 0, len(groups))
	for h := range groups {
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	for _, h := range hashes {
		if g := groups[h]; len(g) == 1 {
			l.issue(g[0], h)
		}
	}
	if l.ordered {
		return l.labelSequence(hashes, groups)
	}
	for _, h := range hashes {
		if err := l.labelGroup(groups[h]); err != nil {
			return err
		}
	}
	return nil
}

// issue assigns v the label of its hash.
func (l *labeller) issue(v int32, hash string) {
	l.order = append(l.order, v)
	if l.numbered {
		l.name[v] = "c14n" + itoa(len(l.order)-1)
		return
	}
	label := "b" + hash[:16]
	n := l.used[label]
	l.used[label] = n + 1
	if n > 0 {
		label += "-" + itoa(n)
	}
	l.name[v] = label
}

// labelGroup labels nodes with the same first-degree hash, and the nodes
// connected to them.
func (l *labeller) labelGroup(group []int32) error {
	type candidate struct {
		hash string
		path *issuer
	}
	var list []candidate
	for _, v := range group {
		if l.name[v] != "" {
			continue
		}
		is := &issuer{}
		is.issue(v)
		if !l.hasNeighbours(v) {
			list = append(list, candidate{"", is})
			continue
		}
		h, is, err := l.nDegree(v, is)
		if err != nil {
			return err
		}
		list = append(list, candidate{h, is})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return strings.Compare(a.hash, b.hash) })
	for _, c := range list {
		for i, v := range c.path.order {
			if l.name[v] == "" {
				l.issue(v, l.labelHash(c.path.order[0], c.hash, i))
			}
		}
	}
	return nil
}

// labelHash is the content of the label of the i-th node on the path of root.
// The n-degree hash does not cover the root's own rows, so both are hashed.
func (l *labeller) labelHash(root int32, nDegree string, i int) string {
	switch {
	case nDegree == "":
		return l.first[root]
	case i == 0:
		return sum([]byte(l.first[root] + nDegree))
	}
	return sum([]byte(l.first[root] + nDegree + itoa(i)))
}

func (l *labeller) hasNeighbours(v int32) bool {
	return slices.ContainsFunc(l.at[v], func(n int32) bool {
		return slices.ContainsFunc(l.edges[n].nodes, func(w int32) bool { return w != v })
	})
}

// labelSequence labels the nodes of an ordered result. Nodes that the bag of
// rows does not distinguish are distinguished by where they occur first.
func (l *labeller) labelSequence(hashes []string, groups map[string][]int32) error {
	alike := map[string][]int32{}
	for _, h := range hashes {
		for _, v := range groups[h] {
			if l.name[v] != "" {
				continue
			}
			base := h
			if l.hasNeighbours(v) {
				is := &issuer{}
				is.issue(v)
				n, _, err := l.nDegree(v, is)
				if err != nil {
					return err
				}
				base = l.labelHash(v, n, 0)
			}
			alike[base] = append(alike[base], v)
		}
	}
	bases := make([]string, 0, len(alike))
	for b := range alike {
		bases = append(bases, b)
	}
	slices.Sort(bases)
	before, err := l.bySequence(alike)
	if err != nil {
		return err
	}
	for _, b := range bases {
		slices.SortStableFunc(alike[b], before)
		for _, v := range alike[b] {
			l.issue(v, b)
		}
	}
	return nil
}

// bySequence orders nodes by their first occurrence: within one row by column,
// within several tied rows by colours that depend on the sequence.
func (l *labeller) bySequence(alike map[string][]int32) (func(a, b int32) int, error) {
	where, rows := make([]int, len(l.at)), map[int]int{}
	for v, at := range l.at {
		where[v] = l.edges[at[0]].place // edges are in the order of rows
	}
	for i := range l.edges {
		rows[l.edges[i].place]++
	}
	var rank []int
	if l.needsRank(alike, where, rows) {
		var err error
		if rank, err = l.rankByPlace(alike); err != nil {
			return nil, err
		}
	}
	return func(a, b int32) int {
		if c := cmp.Compare(where[a], where[b]); c != 0 {
			return c
		}
		if rows[where[a]] == 1 {
			return cmp.Compare(l.hole[a], l.hole[b])
		}
		if rank == nil { // no nodes of such rows are alike
			return 0
		}
		return cmp.Compare(rank[a], rank[b])
	}, nil
}

// needsRank reports whether two indistinguishable nodes first occur in the same
// tied rows.
func (l *labeller) needsRank(alike map[string][]int32, where []int, rows map[int]int) bool {
	for _, nodes := range alike {
		seen := map[int]bool{}
		for _, v := range nodes {
			if seen[where[v]] && rows[where[v]] > 1 {
				return true
			}
			seen[where[v]] = true
		}
	}
	return false
}
