package diff

import (
	"bytes"
	"slices"
)

// An edge is a row with holes where blank nodes stand: pieces[0], nodes[0],
// pieces[1], … , pieces[len(nodes)].
type edge struct {
	pieces [][]byte
	nodes  []int32
	count  int // times the row stands in the result
	place  int // ordered: the first tie group it stands in
}

// render appends the row, with name giving what is written for each hole.
func (e *edge) render(dst []byte, name func(hole int) string) []byte {
	for i, p := range e.pieces {
		dst = append(dst, p...)
		if i < len(e.nodes) {
			dst = append(dst, name(i)...)
		}
	}
	return dst
}

// edges finds the blank nodes. The second list gives the edge of every row, -1
// for rows without blank nodes.
func (r *Result) edges(keys []string) (*labeller, []int) {
	l := &labeller{graph: r.form.Graph(), ordered: r.ordered, used: map[string]int{}, twin: map[int32]string{}}
	ids, known := map[string]int32{}, map[string]int{}
	out := make([]int, len(r.rows))
	places := r.places(keys)
	for i := range r.rows {
		row := r.arrived(i)
		holes := blanksIn(row, l.graph)
		if out[i] = -1; len(holes) == 0 {
			continue
		}
		if e, ok := known[string(row)]; ok {
			l.edges[e].count++
			out[i] = e
			continue
		}
		e := edge{count: 1, place: places(i)}
		end := 0
		for _, h := range holes {
			label := string(row[h.from:h.to])
			id, ok := ids[label]
			if !ok {
				id = int32(len(ids))
				ids[label] = id
				l.at = append(l.at, nil)
			}
			e.pieces, e.nodes = append(e.pieces, row[end:h.from]), append(e.nodes, id)
			end = h.to
		}
		e.pieces = append(e.pieces, row[end:])
		n := len(l.edges)
		for k, id := range e.nodes {
			if !slices.Contains(e.nodes[:k], id) {
				l.at[id] = append(l.at[id], int32(n))
			}
		}
		out[i], known[string(row)] = n, n
		l.edges = append(l.edges, e)
	}
	l.name = make([]string, len(l.at))
	return l, out
}

// blanksIn finds the labels in a row.
func blanksIn(row []byte, graph bool) (out []span) {
	if !graph {
		for i := 0; ; {
			k := bytes.Index(row[i:], []byte(blankPrefix))
			if k < 0 {
				return out
			}
			from := i + k + len(blankPrefix)
			i = stringEnd(row, from)
			out = append(out, span{from, i})
		}
	}
	p := bytes.IndexByte(row, ' ')
	if row[0] == '_' {
		out = append(out, span{2, p})
	}
	o := p + 1 + bytes.IndexByte(row[p+1:], ' ') + 1
	if row[o] == '_' {
		out = append(out, span{o + 2, len(row) - 2})
	}
	return out
}
