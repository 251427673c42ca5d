package diff

import (
	"strings"
	"unicode/utf8"
)

// upperHex holds the digits of escapes in N-Triples.
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

// String returns t in the syntax of N-Triples; "" if it is unbound.
func (t Term) String() string {
	if t.Kind == Unbound {
		return ""
	}
	return string(appendNT(nil, t))
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

// escapedInIRI marks the bytes that an IRIREF must not contain.
var escapedInIRI = func() (t [256]bool) {
	for c := range 0x21 {
		t[c] = true
	}
	for _, c := range []byte("<>\"{}|^`\\") {
		t[c] = true
	}
	return t
}()

// appendIRI escapes only what an IRIREF must not contain, so that every string
// is restored when it is read.
func appendIRI(dst []byte, s string) []byte {
	dst = append(dst, '<')
	from := 0
	for i := range len(s) {
		if c := s[i]; escapedInIRI[c] {
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

// A Line is the unread part of a line of N-Triples. All readers of the syntax
// use it and differ in what they make of the terms. It accepts whatever has one
// meaning only: terms without white space between them, and IRIs that are
// relative, empty, or contain characters that they should not. Its errors wrap
// ErrMalformed. It does not check that the line is UTF-8.
type Line string

func (l *Line) skip() {
	for len(*l) > 0 && ((*l)[0] == ' ' || (*l)[0] == '\t') {
		*l = (*l)[1:]
	}
}

// Empty reports whether only white space or a comment is left.
func (l *Line) Empty() bool {
	l.skip()
	return *l == "" || (*l)[0] == '#'
}

// Stop reads the full stop, after which only a comment may follow.
func (l *Line) Stop() error {
	if l.skip(); *l == "" || (*l)[0] != '.' {
		return malformed("triple without its full stop")
	}
	if *l = (*l)[1:]; !l.Empty() {
		return malformed("text after the full stop")
	}
	return nil
}

// Triple reads a whole statement.
func (l *Line) Triple() (t [3]Term, err error) {
	for i := range t {
		if t[i], err = l.Term(); err != nil {
			return t, err
		}
	}
	if err = l.Stop(); err != nil {
		return t, err
	}
	return t, checkTriple(t[0], t[1], t[2])
}

// Term reads an IRI, a blank node or a literal. The term is not normalised.
func (l *Line) Term() (t Term, err error) {
	l.skip()
	switch s := string(*l); {
	case strings.HasPrefix(s, "<<"):
		err = NotRDF11(tripleTerm)
	case strings.HasPrefix(s, "<"):
		t.Kind = IRI
		t.Value, err = l.iri()
	case strings.HasPrefix(s, "_:"):
		return l.blank()
	case strings.HasPrefix(s, `"`):
		return l.literal()
	case strings.HasPrefix(s, "VERSION"):
		err = NotRDF11("VERSION line")
	default:
		err = malformed("no term where one is required")
	}
	return t, err
}

func (l *Line) iri() (string, error) {
	end := strings.IndexByte(string(*l), '>')
	if end < 0 {
		return "", malformed("IRI without an end")
	}
	raw := string((*l)[1:end])
	*l = (*l)[end+1:]
	if strings.IndexByte(raw, '<') >= 0 {
		return "", malformed("IRI in an IRI")
	}
	s, ok := UnescapeNT(raw, false)
	if !ok {
		return "", malformed("bad escape in an IRI")
	}
	return s, nil
}

func (l *Line) blank() (Term, error) {
	label := string((*l)[2:])
	if end := strings.IndexAny(label, " \t<\"#"); end >= 0 {
		label = label[:end]
	}
	// The full stop of the statement may follow at once; a label cannot end in one.
	label = strings.TrimRight(label, ".")
	*l = (*l)[2+len(label):]
	if !validLabel(label) {
		return Term{}, malformed("bad blank node label")
	}
	return Term{Kind: Blank, Value: label}, nil
}

// validLabel reports whether s is valid after "_:" in a canonical line.
func validLabel(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= 0x20 || c == '<' || c == '>' || c == '"' || c == '#' || c == '\\' {
			return false
		}
	}
	return s != "" && s[len(s)-1] != '.' && utf8.ValidString(s)
}

func (l *Line) literal() (Term, error) {
	end := 1
	for {
		n := strings.IndexByte(string((*l)[end:]), '"')
		if n < 0 {
			return Term{}, malformed("string without an end")
		}
		if end += n; !escapedAt(*l, end) {
			break
		}
		end++
	}
	value, ok := UnescapeNT(string((*l)[1:end]), true)
	if !ok {
		return Term{}, malformed("bad escape in a string")
	}
	*l = (*l)[end+1:]
	t := Term{Kind: Literal, Value: value}
	var err error
	switch s := string(*l); {
	case strings.HasPrefix(s, "^^<"):
		*l = (*l)[2:]
		if t.Datatype, err = l.iri(); t.Datatype == "" && err == nil {
			err = malformed("empty datatype")
		}
	case strings.HasPrefix(s, "@"):
		t.Lang, err = l.lang()
	}
	return t, err
}

// lang reads a language tag and the sign before it.
func (l *Line) lang() (string, error) {
	end := 1
	for end < len(*l) && isLang((*l)[end]) {
		end++
	}
	tag := string((*l)[1:end])
	*l = (*l)[end:]
	return tag, CheckLang(tag)
}

func isLang(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

// CheckLang checks that a language tag is valid in N-Triples and Turtle of RDF 1.1:
// letters, then parts of letters and digits, each after a hyphen.
func CheckLang(tag string) error {
	switch {
	case hasDirection(tag):
		return NotRDF11(baseDirection)
	case !validLang(tag):
		return malformed("bad language tag")
	}
	return nil
}

func validLang(tag string) bool {
	n, first := 0, true // characters in the current part
	for i := range len(tag) {
		switch c := tag[i]; {
		case c == '-':
			if n == 0 {
				return false
			}
			n, first = 0, false
		case !isLang(c) || first && '0' <= c && c <= '9':
			return false
		default:
			n++
		}
	}
	return n > 0
}

// parseLine reads a statement into terms in normal form.
func parseLine(line string) (t [3]Term, err error) {
	if !utf8.ValidString(line) {
		return t, malformed("not UTF-8")
	}
	l := Line(line)
	if t, err = l.Triple(); err != nil {
		return t, err
	}
	for i := range t {
		if t[i], err = t[i].normal(); err != nil {
			return t, err
		}
	}
	return t, nil
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

// UnescapeNT undoes \uXXXX and \UXXXXXXXX and, if short is set, the short
// escapes of strings, as N-Triples and Turtle have them. It returns false for
// any other escape and for one that is no character.
func UnescapeNT(s string, short bool) (string, bool) {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for ; i >= 0; i = strings.IndexByte(s, '\\') {
		out = append(out, s[:i]...)
		if s = s[i+1:]; s == "" {
			return "", false
		}
		if k := strings.IndexByte(`tbnrf"'\`, s[0]); k >= 0 && short {
			out, s = append(out, "\t\b\n\r\f\"'\\"[k]), s[1:]
			continue
		}
		n := map[byte]int{'u': 4, 'U': 8}[s[0]]
		r, ok := hexRune(s[1:], n)
		if !ok {
			return "", false
		}
		out, s = utf8.AppendRune(out, r), s[1+n:]
	}
	return string(append(out, s...)), true
}

// hexRune reads a character of n hexadecimal digits.
func hexRune(s string, n int) (rune, bool) {
	if n == 0 || len(s) < n {
		return 0, false
	}
	var r rune
	for i := range n {
		d := unhex(s[i])
		if d < 0 || r > utf8.MaxRune {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, utf8.ValidRune(r)
}
