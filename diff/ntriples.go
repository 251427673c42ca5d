package diff

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// appendLine appends the canonical N-Triples line of a triple without its line
// feed. The terms are in normal form.
func appendLine(dst []byte, s, p, o Term) []byte {
	dst = appendNT(dst, s)
	dst = append(dst, ' ')
	dst = appendNT(dst, p)
	dst = append(dst, ' ')
	dst = appendNT(dst, o)
	return append(dst, " ."...)
}

func appendNT(dst []byte, t Term) []byte {
	switch t.Kind {
	case IRI:
		return appendIRI(dst, t.Value)
	case Blank:
		dst = append(dst, "_:"...)
		return append(dst, t.Value...)
	}
	dst = append(dst, '"')
	dst = appendNTString(dst, t.Value)
	dst = append(dst, '"')
	if t.Lang != "" {
		dst = append(dst, '@')
		return append(dst, t.Lang...)
	}
	if t.Datatype != "" {
		dst = append(dst, "^^"...)
		return appendIRI(dst, t.Datatype)
	}
	return dst
}

// appendIRI escapes only what an IRIREF must not contain, so that every string
// is restored when it is read.
func appendIRI(dst []byte, s string) []byte {
	dst = append(dst, '<')
	from := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c <= 0x20, c == '<', c == '>', c == '"', c == '{', c == '}', c == '|', c == '^', c == '`', c == '\\':
			dst = append(dst, s[from:i]...)
			dst = append(dst, '\\', 'u', '0', '0', upperHex[c>>4], upperHex[c&15])
			from = i + 1
		}
	}
	return append(append(dst, s[from:]...), '>')
}

func appendNTString(dst []byte, s string) []byte {
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		if k := strings.IndexByte("\"\\\n\r\t\b\f", c); k >= 0 {
			dst = append(dst, '\\', `"\nrtbf`[k])
			continue
		}
		dst = append(dst, '\\', 'u', '0', '0', upperHex[c>>4], upperHex[c&15])
	}
	return append(dst, s[from:]...)
}

// parseLine reads one N-Triples statement, canonical or not.
func parseLine(line []byte) (t [3]Term, err error) {
	rest := line
	for i := range t {
		if t[i], rest, err = parseNT(bytes.TrimLeft(rest, " \t")); err != nil {
			return t, err
		}
		if t[i], err = t[i].normal(); err != nil {
			return t, err
		}
	}
	rest = bytes.TrimLeft(rest, " \t")
	if len(rest) == 0 || rest[0] != '.' || len(bytes.TrimSpace(rest[1:])) > 0 {
		return t, malformed("triple without its full stop")
	}
	return t, checkTriple(t[0], t[1], t[2])
}

func checkTriple(s, p, o Term) error {
	switch {
	case s.Kind != IRI && s.Kind != Blank:
		return malformed("subject is neither an IRI nor a blank node")
	case p.Kind != IRI:
		return malformed("predicate is not an IRI")
	case o.Kind == Unbound:
		return malformed("triple without an object")
	}
	return nil
}

// parseNT reads one term at the start of b.
func parseNT(b []byte) (t Term, rest []byte, err error) {
	switch {
	case len(b) > 0 && b[0] == '<':
		t.Kind = IRI
		t.Value, rest, err = parseIRI(b)
	case len(b) > 2 && b[0] == '_' && b[1] == ':':
		n := bytes.IndexAny(b, " \t")
		if n < 0 {
			n = len(b)
		}
		t, rest = Term{Kind: Blank, Value: string(b[2:n])}, b[n:]
		if !validLabel(t.Value) {
			err = malformed("bad blank node label")
		}
	case len(b) > 0 && b[0] == '"':
		return parseNTLiteral(b)
	default:
		err = malformed("triple without a term where one is required")
	}
	return t, rest, err
}

// validLabel reports whether s is valid after "_:" in a canonical line.
func validLabel(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= 0x20 || strings.ContainsRune(`<>"\`, r)
	})
}

func parseIRI(b []byte) (string, []byte, error) {
	n := bytes.IndexByte(b, '>')
	if n < 0 {
		return "", nil, malformed("IRI without an end")
	}
	s, ok := unescapeNT(b[1:n], false)
	if !ok {
		return "", nil, malformed("bad escape in an IRI")
	}
	return s, b[n+1:], nil
}

func parseNTLiteral(b []byte) (t Term, rest []byte, err error) {
	n := stringEnd(b, 1)
	if n < 0 {
		return t, nil, malformed("string without an end")
	}
	v, ok := unescapeNT(b[1:n], true)
	if !ok {
		return t, nil, malformed("bad escape in a string")
	}
	t, rest = Term{Kind: Literal, Value: v}, b[n+1:]
	switch {
	case bytes.HasPrefix(rest, []byte("^^<")):
		t.Datatype, rest, err = parseIRI(rest[2:])
	case len(rest) > 0 && rest[0] == '@':
		n := 1
		for n < len(rest) && isLang(rest[n]) {
			n++
		}
		if n == 1 {
			return t, nil, malformed("empty language tag")
		}
		t.Lang, rest = string(rest[1:n]), rest[n:]
	}
	return t, rest, err
}

func isLang(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

// stringEnd gives the index of the quote that ends the string whose inside
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
func escapedAt(b []byte, i int) bool {
	n := 0
	for i-n > 0 && b[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// unescapeNT undoes \uXXXX and \UXXXXXXXX, and in strings the short escapes.
func unescapeNT(s []byte, short bool) (string, bool) {
	if !utf8.Valid(s) {
		return "", false
	}
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s), true
	}
	var out []byte
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		if i+1 >= len(s) {
			return "", false
		}
		n := map[byte]int{'u': 4, 'U': 8}[s[i+1]]
		if n == 0 {
			k := strings.IndexByte(`tbnrf"'\`, s[i+1])
			if k < 0 || !short {
				return "", false
			}
			out = append(out, "\t\b\n\r\f\"'\\"[k])
			i += 2
			continue
		}
		r, ok := hexRune(s[i+2:], n)
		if !ok {
			return "", false
		}
		out = utf8.AppendRune(out, r)
		i += 2 + n
	}
	return string(out), true
}

func hexRune(s []byte, n int) (rune, bool) {
	if len(s) < n {
		return 0, false
	}
	var r rune
	for _, c := range s[:n] {
		d := unhex(c)
		if d < 0 || r > 0x10ffff {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, utf8.ValidRune(r)
}
