package store

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A textSearch finds the queries whose id, text or name contains a text, in any case.
// It reads the stored bytes: decoding a registration costs a hundred times as much,
// and a search without a match examines all of them. It keeps no index, so there is
// nothing to build, to update or to hold in memory.
type textSearch struct {
	text  string // in lower case; "" matches everything
	probe *probe
	room  []byte
}

func newTextSearch(text string) *textSearch {
	text = strings.ToLower(text)
	return &textSearch{text: text, probe: newProbe(text)}
}

// verbatim reports whether JSON writes a text without escapes.
func verbatim(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || strings.IndexByte("\"\\<>&", c) >= 0 {
			return false
		}
	}
	return true
}

// Keys of the searched fields. A value cannot contain these bytes, because JSON
// escapes the quotes within it.
var (
	textField = []byte(`"text":"`)
	nameField = []byte(`"name":"`)
)

// finds reports whether a query contains the text. v is its stored registration.
func (s *textSearch) finds(id, v []byte) (bool, error) {
	switch {
	case s.text == "":
		return true, nil
	case !s.probe.mayBeIn(v): // v includes the id
		return false, nil
	case strings.Contains(strings.ToLower(string(id)), s.text):
		return true, nil
	}
	for _, key := range [][]byte{textField, nameField} {
		for rest := v; ; {
			i := bytes.Index(rest, key)
			if i < 0 {
				break
			}
			rest = rest[i+len(key)-1:]
			n := quotedLen(rest)
			if found, err := s.inField(rest[:n]); found || err != nil {
				return found, err
			}
			rest = rest[n:]
		}
	}
	return false, nil
}

// quotedLen returns the length of the JSON string at the front of b.
func quotedLen(b []byte) int {
	for n := 1; n < len(b); n++ {
		i := bytes.IndexByte(b[n:], '"')
		if i < 0 {
			break
		}
		n += i
		escapes := n
		for b[escapes-1] == '\\' {
			escapes--
		}
		if (n-escapes)%2 == 0 {
			return n + 1
		}
	}
	return len(b)
}

// inField reports whether a JSON string contains the text.
func (s *textSearch) inField(quoted []byte) (found bool, err error) {
	if !s.probe.mayBeIn(quoted) {
		return false, nil
	}
	if s.room, err = jsontext.AppendUnquote(s.room[:0], quoted); err != nil {
		return false, fmt.Errorf("%w: a registration cannot be read: %w", ErrDamaged, err)
	}
	return strings.Contains(strings.ToLower(string(s.room)), s.text), nil
}

// A probe excludes stored values that cannot contain a text, in any case.
type probe struct {
	text     []byte // the longest part of the text that JSON writes without escapes, in lower case
	foldable bool   // a letter of it is also the lower case of a non-ASCII letter
	rare     int    // index of the byte of text that is searched first
	seen     []int  // how often each byte of text occurred in the first values
	values   int    // how many these were
}

func newProbe(text string) *probe {
	p := &probe{}
	for run := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !verbatim(string(r)) }) {
		if len(run) > len(p.text) {
			p.text = []byte(run)
		}
	}
	p.foldable = bytes.ContainsAny(p.text, "ik")
	p.seen = make([]int, len(p.text))
	return p
}

// mayBeIn reports whether b may contain the text. It is exact where JSON writes all of
// the text without escapes.
func (p *probe) mayBeIn(b []byte) bool {
	if len(p.text) == 0 || p.foldable && (bytes.Contains(b, []byte("\u212a")) || bytes.Contains(b, []byte("\u0130"))) {
		return true
	}
	if len(b) < len(p.text) {
		return false
	}
	p.learn(b)
	c := p.text[p.rare]
	return p.occurs(b, c) || upper(c) != c && p.occurs(b, upper(c))
}

// learn chooses the byte to search first: the rarest in the first few values.
func (p *probe) learn(b []byte) {
	if p.values == 16 {
		return
	}
	p.values++
	for i, c := range p.text {
		p.seen[i] += bytes.Count(b, []byte{c})
		if u := upper(c); u != c {
			p.seen[i] += bytes.Count(b, []byte{u})
		}
	}
	p.rare = slices.Index(p.seen, slices.Min(p.seen))
}

// occurs reports whether b contains the probe's text, in any case, with its rare byte
// written as c.
func (p *probe) occurs(b []byte, c byte) bool {
	last := len(b) - len(p.text) // where the text may begin
	for from := 0; from <= last; from++ {
		i := bytes.IndexByte(b[from+p.rare:last+p.rare+1], c)
		if i < 0 {
			return false
		}
		from += i
		if sameFolded(b[from:from+len(p.text)], p.text) {
			return true
		}
	}
	return false
}

// sameFolded reports whether b is text, which is in lower case, apart from the case of
// ASCII letters.
func sameFolded(b, text []byte) bool {
	for i, c := range text {
		if b[i] != c && b[i] != upper(c) {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
