package diff

import "bytes"

// The rows of one result are similar: their values differ, the bytes between
// them repeat. The decoder therefore keeps the structure of rows that it has
// parsed. A shape is the constant bytes before a value, from the closing quote
// of the previous value (or the row's brace) to the opening quote; the shapes
// that have followed it; and, if it ends a row, how to write that row. The same
// bytes after the same bytes parse the same way, so a row that matches a path
// of shapes only needs the ends of its values to be found.
type shape struct {
	seg  []byte // of the body
	next []*shape
	out  *layout
}

// A layout writes a row whose values are known.
type layout struct {
	before [][]byte // canonical text before each value, in head order
	value  []int    // index of the value in the input
	tail   []byte
	blank  bool
}

const (
	maxShapes  = 4096 // in total
	maxFollows = 32   // after one shape
)

// A piece is a value as it occurs in the body.
type piece struct {
	from, to int
	escaped  bool
}

// readKnown reads the row at the brace d.i by a known path of shapes. It
// returns false if there is none.
func (d *decoder) readKnown() bool {
	b, i, at := d.b, d.i, &d.root
	d.values = d.values[:0]
	for {
		at = at.follow(b[i:])
		if at == nil {
			return false
		}
		i += len(at.seg)
		if at.out != nil {
			d.i = i
			d.write(at.out)
			return true
		}
		j, escaped := scanString(b, i), false
		for j < len(b) && b[j] == '\\' {
			escaped = true
			j = scanString(b, min(j+2, len(b)))
		}
		if j >= len(b) || b[j] != '"' {
			return false
		}
		d.values = append(d.values, piece{i, j, escaped})
		i = j
	}
}

// follow finds the shape that comes next in b, and moves it to the front.
func (s *shape) follow(b []byte) *shape {
	for k, n := range s.next {
		if len(b) >= len(n.seg) && string(b[:len(n.seg)]) == string(n.seg) {
			if k > 0 {
				s.next[k], s.next[k-1] = s.next[k-1], n
			}
			return n
		}
	}
	return nil
}

// write appends the row whose values have been read.
func (d *decoder) write(o *layout) {
	r := d.out.res
	from, text := len(r.text), r.text
	for k, p := range o.before {
		v := d.values[o.value[k]]
		text = d.appendValue(append(text, p...), d.b[v.from:v.to], v.escaped)
	}
	r.text = append(text, o.tail...)
	d.out.blank = d.out.blank || o.blank
	d.endRow(from)
}

// addPath adds the shapes of the row just parsed, from from to d.i. met lists
// its bindings in the order of the input.
func (d *decoder) addPath(from int, met []int) {
	at := &d.root
	for k := 0; k <= len(met); k++ {
		to := d.i
		if k < len(met) {
			to = d.bindings[met[k]].valueAt
		}
		seg := d.b[from:to]
		n := at.exact(seg)
		if n == nil {
			if d.shapes >= maxShapes || len(at.next) >= maxFollows {
				return
			}
			d.shapes++
			n = &shape{seg: seg}
			at.next = append(at.next, n)
		}
		if at = n; k < len(met) {
			from = to + len(d.bindings[met[k]].value)
		}
	}
	at.out = d.layout(met)
}

func (s *shape) exact(seg []byte) *shape {
	for _, n := range s.next {
		if bytes.Equal(n.seg, seg) {
			return n
		}
	}
	return nil
}

// layout returns how to write the current row.
func (d *decoder) layout(met []int) *layout {
	o := &layout{}
	text := []byte{'{'}
	for k, slot := range met {
		d.bindings[slot].nth = k
	}
	for _, i := range d.inHeadOrder() {
		t := &d.bindings[i]
		if len(o.before) > 0 {
			text = append(text, ',')
		}
		text = append(append(text, d.names[i]...), termPrefix(t.kind)...)
		o.before = append(o.before, text)
		o.value = append(o.value, t.nth)
		o.blank = o.blank || t.kind == Blank
		text = appendTermSuffix(nil, t.lang, t.dt)
	}
	o.tail = append(text, '}')
	return o
}
