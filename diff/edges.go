package diff

import (
	"bytes"
	"crypto/sha256"
	"strconv"
)

// An edge is a row with holes in the places of blank nodes: pieces[0],
// nodes[0], pieces[1], … , pieces[len(nodes)].
type edge struct {
	pieces [][]byte
	nodes  []int32
	count  int // how often the result has the row
	place  int // ordered: the first tie group of the row
	size   int // total length of pieces in bytes
	wide   *wideRow
}

// maxNarrowNodes is the maximum number of blank nodes in a row for each of
// which the row is rendered and hashed on its own. For longer rows this would
// be quadratic: they are hashed once, and each node with its positions.
const maxNarrowNodes = 16

// A wideRow describes a row with more than maxNarrowNodes blank nodes.
type wideRow struct {
	digest string           // of the row with "z" for every node
	marks  map[int32]string // node → its positions in the row
}

// widen prepares a row with many nodes.
func (e *edge) widen() {
	w := &wideRow{marks: make(map[int32]string, len(e.nodes))}
	w.digest = sum(e.render(nil, func(int) string { return "z" }))
	places := make(map[int32][]byte, len(e.nodes))
	for i, v := range e.nodes {
		places[v] = strconv.AppendInt(append(places[v], ' '), int64(i), 10)
	}
	for v, at := range places {
		if w.marks[v] = string(at); len(at) > sha256.Size {
			w.marks[v] = " " + sum(at)
		}
	}
	e.wide = w
}

// render appends the row, with name(hole) in the place of each hole.
func (e *edge) render(dst []byte, name func(hole int) string) []byte {
	for i, p := range e.pieces {
		dst = append(dst, p...)
		if i < len(e.nodes) {
			dst = append(dst, name(i)...)
		}
	}
	return dst
}

// edges finds the blank nodes. The second result is the edge of every row, -1
// for rows without blank nodes.
func (r *Result) edges(o Options) (*labeller, []int, error) {
	l := &labeller{graph: r.form.Graph(), ordered: r.ordered, used: map[string]int{}, twin: map[int32]string{}, stop: stopper{ask: o.Stop}}
	ids, known := map[string]int32{}, map[string]int{}
	out := make([]int, len(r.rows))
	places := r.places(o.OrderKeys)
	stop := stopper{ask: o.Stop}
	for i := range r.rows {
		row := r.arrived(i)
		if err := stop.spend(64 + len(row)); err != nil {
			return nil, nil, err
		}
		holes := blanksIn(row, l.graph)
		if out[i] = -1; len(holes) == 0 {
			continue
		}
		if e, ok := known[string(row)]; ok {
			l.edges[e].count++
			out[i] = e
			continue
		}
		e := edge{count: 1, place: places(i), size: len(row)}
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
			at := l.at[id]
			if len(at) == 0 {
				l.hole = append(l.hole, int32(k))
			}
			if len(at) == 0 || at[len(at)-1] != int32(n) {
				l.at[id] = append(at, int32(n))
			}
		}
		if len(e.nodes) > maxNarrowNodes {
			e.widen()
		}
		out[i], known[string(row)] = n, n
		l.edges = append(l.edges, e)
	}
	l.name = make([]string, len(l.at))
	return l, out, nil
}

// blanksIn finds the blank node labels in a row.
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
