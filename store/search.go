package store

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// A textSearch finds the queries whose id, text or name contains a text, in any case.
// It reads the stored bytes: decoding a registration costs far more, and a search without
// a match examines all of them. It keeps no index, so there is nothing to build, to
// update or to hold in memory.
type textSearch struct {
	text      string // in lower case; "" matches everything
	id, field *probe
}

func newTextSearch(text string) *textSearch {
	text = strings.ToLower(text)
	return &textSearch{text: text, id: newProbe(text), field: newProbe(text)}
}

// usualHolders is how many bytes after a text are searched with it. Most holders are
// shorter.
const usualHolders = 96

// finds reports whether a query contains the text. It also reports true if the
// registration cannot be read.
func (s *textSearch) finds(id []byte, h *registrationHead) bool {
	if s.text == "" || s.in(s.id, id) {
		return true
	}
	near := h.body[:min(len(h.body), len(h.text)+usualHolders)]
	excluded := !s.field.mayBeIn(near) // before the holders are read: memory is read fastest in order
	holders, count, ok := h.holders()
	switch {
	case !ok:
		return true
	case excluded && len(holders) < usualHolders-2*binary.MaxVarintLen64:
		return false
	case !excluded && s.in(s.field, h.text):
		return true
	}
	in := scan{b: holders}
	for range count {
		if s.in(s.field, []byte(in.holder().Name)) {
			return true
		}
	}
	return false
}

func (s *textSearch) in(p *probe, b []byte) bool {
	return p.mayBeIn(b) && (p.exact && !foreign(b) || strings.Contains(strings.ToLower(string(b)), s.text))
}

// foreign reports whether b contains a letter whose lower case is an ASCII letter or
// begins with one.
func foreign(b []byte) bool {
	return bytes.IndexByte(b, "\u212a"[0]) >= 0 && bytes.Contains(b, []byte("\u212a")) ||
		bytes.IndexByte(b, "\u0130"[0]) >= 0 && bytes.Contains(b, []byte("\u0130"))
}

// A probe excludes values that cannot contain a text, in any case.
type probe struct {
	text   []byte // the longest part of the text in ASCII, in lower case
	exact  bool   // this is all of the text
	ik     bool   // it contains i or k, which letters outside ASCII become in lower case
	rare   int    // index of the byte of text that is searched first
	seen   []int  // how often each byte of text occurred in the first values
	values int    // how many these were
}

func newProbe(text string) *probe {
	p := &probe{}
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if len(run) > len(p.text) {
			p.text = []byte(run)
		}
	}
	p.exact, p.ik = len(p.text) == len(text), bytes.ContainsAny(p.text, "ik")
	p.seen = make([]int, len(p.text))
	return p
}

// mayBeIn reports whether b may contain the text.
func (p *probe) mayBeIn(b []byte) bool {
	if len(p.text) == 0 || p.ik && foreign(b) {
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
