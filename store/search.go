package store

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// A textSearch finds the queries whose id, text or name contains a text, in any case.
// It reads the stored bytes: decoding a registration costs far more, and a search without
// a match examines all of them. It keeps no index, so there is nothing to build, to
// update or to hold in memory.
type textSearch struct {
	text  string // in lower case; "" matches everything
	probe probe
}

func newTextSearch(text string) *textSearch {
	text = strings.ToLower(text)
	return &textSearch{text: text, probe: newProbe(text)}
}

// usualHolders is how many bytes after a text are searched with it. Most holders are
// shorter.
const usualHolders = 96

// finds reports whether a query contains the text. It also reports true if the
// registration cannot be read.
func (s *textSearch) finds(id []byte, h *registrationHead) bool {
	if s.text == "" || s.in(id) {
		return true
	}
	near := h.body[:min(len(h.body), len(h.text)+usualHolders)]
	excluded := !s.probe.mayBeIn(near) // before the holders are read: memory is read fastest in order
	holders, count, ok := h.holders()
	switch {
	case !ok:
		return true
	case excluded && len(holders) < usualHolders-2*binary.MaxVarintLen64:
		return false
	case !excluded && s.in(h.text):
		return true
	}
	in := scan{b: holders}
	for range count {
		if s.in([]byte(in.holder().Name)) {
			return true
		}
	}
	return false
}

func (s *textSearch) in(b []byte) bool {
	return s.probe.mayBeIn(b) && (s.probe.exact && !foreign(b) || strings.Contains(strings.ToLower(string(b)), s.text))
}

// foreign reports whether b contains a letter whose lower case is an ASCII letter or
// begins with one.
func foreign(b []byte) bool {
	return bytes.IndexByte(b, "\u212a"[0]) >= 0 && bytes.Contains(b, []byte("\u212a")) ||
		bytes.IndexByte(b, "\u0130"[0]) >= 0 && bytes.Contains(b, []byte("\u0130"))
}

// A probe excludes values that cannot contain a text, in any case.
type probe struct {
	text        []byte // the longest part of the text in ASCII, in lower case
	exact       bool   // this is all of the text
	ik          bool   // it contains i or k, which letters outside ASCII become in lower case
	first, last uint64 // its first and its last byte, folded and eight times
}

func newProbe(text string) probe {
	var p probe
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if len(run) > len(p.text) {
			p.text = []byte(run)
		}
	}
	p.exact, p.ik = len(p.text) == len(text), bytes.ContainsAny(p.text, "ik")
	if n := len(p.text); n > 0 {
		p.first, p.last = uint64(p.text[0])*eachByte|foldCase, uint64(p.text[n-1])*eachByte|foldCase
	}
	return p
}

// Of eight bytes in a word.
const (
	eachByte = 0x0101010101010101 // times a byte: eight of it
	foldCase = 0x20 * eachByte    // the bit in which the cases of ASCII letters differ
	highBits = 0x80 * eachByte
)

// mayBeIn reports whether b may contain the text. It compares the first and the last byte
// at eight places at a time, so its time hardly depends on how frequent the letters are.
func (p *probe) mayBeIn(b []byte) bool {
	if len(p.text) == 0 || p.ik && foreign(b) {
		return true
	}
	end := len(p.text) - 1
	places := len(b) - end // where the text may begin
	for i := 0; i < places; i += 8 {
		if i+8 > places {
			if places < 8 {
				return p.isAtOneOf(b, places)
			}
			i = places - 8
		}
		differs := (binary.LittleEndian.Uint64(b[i:]) | foldCase) ^ p.first
		differs |= (binary.LittleEndian.Uint64(b[i+end:]) | foldCase) ^ p.last
		// The high bit of each byte that is zero is set, and of some after it.
		for same := (differs - eachByte) &^ differs & highBits; same != 0; same &= same - 1 {
			if at := i + bits.TrailingZeros64(same)/8; sameFolded(b[at:at+end+1], p.text) {
				return true
			}
		}
	}
	return false
}

// isAtOneOf reports whether the text is at one of the first places in b.
func (p *probe) isAtOneOf(b []byte, places int) bool {
	for at := range places {
		if sameFolded(b[at:at+len(p.text)], p.text) {
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
