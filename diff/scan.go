package diff

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Words whose eight bytes are all 1, and all 0x80, to scan eight bytes at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// scanString returns the index of the first byte from i that must not occur
// unescaped in a JSON string: a quote, a backslash or a control character. It
// returns len(b) if there is none.
func scanString(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		q := x ^ (ones * '"')
		s := x ^ (ones * '\\')
		// In each word the lowest marked byte is exact, because carries only go
		// upwards.
		m := ((q-ones)&^q | (s-ones)&^s | (x-ones*0x20)&^x) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

// stringEnd returns the index of the quote that ends the string whose content
// begins at i, or -1.
func stringEnd(b []byte, i int) int {
	for i < len(b) {
		k := bytes.IndexByte(b[i:], '"')
		if k < 0 {
			return -1
		}
		i += k
		if !escapedAt(b, i) {
			return i
		}
		i++
	}
	return -1
}

// escapedAt reports whether an odd number of backslashes precedes b[i].
func escapedAt[S ~string | ~[]byte](b S, i int) bool {
	n := 0
	for i-n > 0 && b[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// A scanner reads JSON from a body that is valid UTF-8. Its methods stop at the
// first error, which is kept in err.
type scanner struct {
	b   []byte
	i   int
	err error
}

func (s *scanner) fail(reason string) {
	if s.err == nil {
		s.err = &SyntaxError{Offset: s.i, Reason: reason}
		s.i = len(s.b)
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// expect reads the next byte and fails if it is not c.
func (s *scanner) expect(c byte) bool {
	if s.peek() != c {
		if s.i >= len(s.b) {
			s.fail("document ends early")
		} else {
			s.fail("expected '" + string(c) + "'")
		}
		return false
	}
	s.i++
	return true
}

// str reads a string and returns its raw content and whether that has escapes.
func (s *scanner) str() (raw []byte, escaped bool) {
	if !s.expect('"') {
		return nil, false
	}
	from := s.i
	for {
		j := scanString(s.b, s.i)
		if j >= len(s.b) {
			s.fail("string without an end")
			return nil, false
		}
		switch s.b[j] {
		case '"':
			s.i = j + 1
			return s.b[from:j], escaped
		case '\\':
			escaped = true
			s.i = min(j+2, len(s.b))
		default:
			s.i = j
			s.fail("control character in a string")
			return nil, false
		}
	}
}

// text reads a string and returns its value.
func (s *scanner) text() []byte {
	raw, escaped := s.str()
	if !escaped {
		return raw
	}
	out, ok := unescape(make([]byte, 0, len(raw)), raw)
	if !ok {
		s.fail("bad escape in a string")
	}
	return out
}

// object calls f with each member's name, and f reads the value. Names must be
// unique.
func (s *scanner) object(f func(name []byte)) {
	if !s.expect('{') {
		return
	}
	if s.peek() == '}' {
		s.i++
		return
	}
	var seen names
	for s.err == nil {
		name := s.text()
		if s.err == nil && seen.twice(name) {
			s.fail("member twice in one object")
		}
		if !s.expect(':') {
			return
		}
		f(name)
		if s.peek() != ',' {
			s.expect('}')
			return
		}
		s.i++
	}
}

// names holds the member names of one object; most objects have few.
type names struct {
	few  [][]byte
	many map[string]struct{}
}

func (n *names) twice(name []byte) bool {
	if n.many != nil {
		_, ok := n.many[string(name)]
		n.many[string(name)] = struct{}{}
		return ok
	}
	for _, x := range n.few {
		if string(x) == string(name) {
			return true
		}
	}
	if n.few = append(n.few, name); len(n.few) > 16 {
		n.many = make(map[string]struct{}, 64)
		for _, x := range n.few {
			n.many[string(x)] = struct{}{}
		}
	}
	return false
}

// array calls f for each element, and f reads it.
func (s *scanner) array(f func()) {
	if !s.expect('[') {
		return
	}
	if s.peek() == ']' {
		s.i++
		return
	}
	for s.err == nil {
		f()
		if s.peek() != ',' {
			s.expect(']')
			return
		}
		s.i++
	}
}

// maxDepth bounds the nesting of skipped values.
const maxDepth = 64

// skip reads and discards any value.
func (s *scanner) skip(depth int) {
	if depth > maxDepth {
		s.fail("nested too deeply")
		return
	}
	switch c := s.peek(); {
	case c == '{':
		s.object(func([]byte) { s.skip(depth + 1) })
	case c == '[':
		s.array(func() { s.skip(depth + 1) })
	case c == '"':
		s.text()
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if s.word(word) {
				return
			}
		}
		s.fail("expected a value")
	}
}

// word reads w if it comes next.
func (s *scanner) word(w string) bool {
	s.peek()
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) number() {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		s.digits()
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		s.digits()
	}
}

func (s *scanner) digits() {
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		s.fail("bad number")
	}
}
