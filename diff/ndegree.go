package diff

import (
	"maps"
	"slices"
	"strings"
)

// An issuer numbers nodes in the order in which a path reaches them.
type issuer struct {
	order []int32
	name  map[int32]string
}

func (s *issuer) issue(v int32) string {
	if n, ok := s.name[v]; ok {
		return n
	}
	if s.name == nil {
		s.name = map[int32]string{}
	}
	n := "_:b" + itoa(len(s.order))
	s.name[v] = n
	s.order = append(s.order, v)
	return n
}

func (s *issuer) clone() *issuer {
	return &issuer{order: slices.Clone(s.order), name: maps.Clone(s.name)}
}

// related is the hash of RDFC-1.0 section 4.7: of the neighbour in a hole of e,
// as seen from v.
func (l *labeller) related(v int32, e *edge, hole int, is *issuer) string {
	in := l.position(v, e, hole)
	w := e.nodes[hole]
	if l.name[w] != "" {
		in = append(append(in, "_:"...), l.name[w]...)
	} else if n, ok := is.name[w]; ok {
		in = append(in, n...)
	} else {
		in = append(in, l.first[w]...)
	}
	l.hashed += len(in)
	return sum(in)
}

// position describes the relation of the neighbour in a hole to v: "s" or "o"
// and the predicate for triples, the row with both nodes marked for rows.
func (l *labeller) position(v int32, e *edge, hole int) []byte {
	if e.wide != nil {
		in := append([]byte(e.wide.digest), e.wide.marks[v]...)
		return append(append(append(append(in, ' '), itoa(hole)...), " "+itoa(e.count)...), ' ')
	}
	if !l.graph {
		in := e.render(nil, func(h int) string {
			switch {
			case h == hole:
				return "r"
			case e.nodes[h] == v:
				return "a"
			}
			return "z"
		})
		return append(append(in, itoa(e.count)...), ' ')
	}
	// Two nodes in one triple: only the predicate is between them.
	between := strings.TrimSuffix(strings.TrimPrefix(string(e.pieces[1]), " "), " _:")
	return append([]byte{"so"[hole]}, between...)
}

// nDegree is RDFC-1.0 section 4.8.
func (l *labeller) nDegree(v int32, is *issuer) (string, *issuer, error) {
	near := map[string][]int32{}
	n, before := 0, l.hashed
	for _, k := range l.at[v] {
		e := &l.edges[k]
		for hole, w := range e.nodes {
			if w != v {
				h := l.related(v, e, hole, is)
				near[h] = append(near[h], w)
				n++
			}
			if n/4+(l.hashed-before)/1024 > l.budget { // more than is left
				return "", nil, errBudget
			}
		}
	}
	if err := l.spend(1 + n/4 + (l.hashed-before)/1024); err != nil {
		return "", nil, err
	}
	var data strings.Builder
	for _, h := range slices.Sorted(maps.Keys(near)) {
		data.WriteString(h)
		path, next, err := l.bestPath(near[h], is)
		if err != nil {
			return "", nil, err
		}
		data.WriteString(path)
		is = next
	}
	if err := l.wholeRows(&data, v, is); err != nil {
		return "", nil, err
	}
	return sum([]byte(data.String())), is, nil
}

// bestPath tries the orders in which neighbours with the same hash can be
// numbered, and returns the smallest description and its issuer.
func (l *labeller) bestPath(nodes []int32, is *issuer) (best string, bestIs *issuer, err error) {
	err = l.permute(nodes, func(p []int32) error {
		if err := l.spend(1 + len(p)/4 + len(is.order)/16); err != nil {
			return err
		}
		path, next, err := l.walk(p, is.clone(), best)
		if err == nil && next != nil && (best == "" || path < best) {
			best, bestIs = path, next
		}
		return err
	})
	return best, bestIs, err
}

// walk describes one order. A nil issuer means that it is not smaller than
// best.
func (l *labeller) walk(p []int32, is *issuer, best string) (string, *issuer, error) {
	var path strings.Builder
	worse := func() bool { return best != "" && path.Len() >= len(best) && path.String() > best }
	var open []int32
	for _, w := range p {
		if l.name[w] != "" {
			path.WriteString("_:" + l.name[w])
		} else {
			if _, ok := is.name[w]; !ok {
				open = append(open, w)
			}
			path.WriteString(is.issue(w))
		}
		if worse() {
			return "", nil, nil
		}
	}
	for _, w := range open {
		h, next, err := l.nDegree(w, is)
		if err != nil {
			return "", nil, err
		}
		path.WriteString(is.issue(w) + "<" + h + ">")
		if is = next; worse() {
			return "", nil, nil
		}
	}
	return path.String(), is, nil
}

// wholeRows adds the rows in which v meets at least two other nodes, all of
// which are numbered by now.
func (l *labeller) wholeRows(data *strings.Builder, v int32, is *issuer) error {
	var rows []string
	for _, k := range l.at[v] {
		if e := &l.edges[k]; len(e.nodes) > 2 {
			// The cost of narrow rows was counted with their neighbours.
			if e.wide != nil {
				if err := l.spend(e.size / 1024); err != nil {
					return err
				}
			}
			rows = append(rows, string(e.render(nil, func(h int) string {
				if n := l.name[e.nodes[h]]; n != "" {
					return "_:" + n
				}
				return is.name[e.nodes[h]]
			}))+"\n")
		}
	}
	slices.Sort(rows)
	for _, r := range rows {
		data.WriteString(r)
	}
	return nil
}

// permute visits the orders of nodes whose outcomes may differ. Swapping two
// nodes that share all their rows changes nothing.
func (l *labeller) permute(nodes []int32, f func([]int32) error) error {
	class, members, err := l.interchangeable(nodes)
	if err != nil {
		return err
	}
	order := make([]int32, len(nodes))
	for {
		taken := make([]int, len(members))
		for i, c := range class {
			order[i] = members[c][taken[c]]
			taken[c]++
		}
		if err := f(order); err != nil || !nextPermutation(class) {
			return err
		}
	}
}

// interchangeable numbers the classes of interchangeable nodes. class is
// ascending.
func (l *labeller) interchangeable(nodes []int32) (class []int, members [][]int32, err error) {
	nodes = slices.Sorted(slices.Values(nodes))
	repeated := len(slices.Compact(slices.Clone(nodes))) < len(nodes)
	known := map[string]int{}
	for _, v := range nodes {
		key := itoa(int(v))
		if !repeated && len(nodes) > 2 {
			if key, err = l.signature(v); err != nil {
				return nil, nil, err
			}
		}
		c, ok := known[key]
		if !ok {
			c = len(members)
			known[key] = c
			members = append(members, nil)
		}
		members[c] = append(members[c], v)
	}
	for c, m := range members {
		for range m {
			class = append(class, c)
		}
	}
	return class, members, nil
}

// signature is the same for two nodes exactly if swapping them gives the same
// rows. Nodes of wide rows never count as interchangeable.
func (l *labeller) signature(v int32) (string, error) {
	if s, ok := l.twin[v]; ok {
		return s, nil
	}
	var rows []string
	for _, k := range l.at[v] {
		e := &l.edges[k]
		if e.wide != nil {
			return itoa(int(v)), nil
		}
		if err := l.stop.spend(64 + e.size); err != nil {
			return "", err
		}
		rows = append(rows, itoa(e.count)+" "+string(e.render(nil, func(h int) string {
			if e.nodes[h] == v {
				return "a"
			}
			return "n" + itoa(int(e.nodes[h]))
		})))
	}
	slices.Sort(rows)
	l.twin[v] = sum([]byte(strings.Join(rows, "\n")))
	return l.twin[v], nil
}

// nextPermutation steps to the next order of a multiset. It returns false after
// the last one.
func nextPermutation(a []int) bool {
	i := len(a) - 2
	for i >= 0 && a[i] >= a[i+1] {
		i--
	}
	if i < 0 {
		return false
	}
	j := len(a) - 1
	for a[j] <= a[i] {
		j--
	}
	a[i], a[j] = a[j], a[i]
	slices.Reverse(a[i+1:])
	return true
}
