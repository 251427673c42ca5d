package endpoint

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
)

// readNTriples reads N-Triples line by line. One bad line spoils the whole: a
// triple that is skipped would look like one that was deleted. IRIs are taken
// as they are, also with characters that none should have, as long as where
// they end is certain.
func readNTriples(body []byte, g tripleSink) error {
	if !utf8.Valid(body) {
		return malformed("not UTF-8")
	}
	for n := 1; len(body) > 0; n++ {
		end := bytes.IndexAny(body, "\r\n")
		line := body
		if end < 0 {
			body = nil
		} else {
			line, body = body[:end], body[end+1:]
		}
		if err := readLine(line, g.add); limited(err) {
			return err
		} else if err != nil {
			return malformed("line %d: %v", n, err)
		}
	}
	return nil
}

func readLine(line []byte, add func(s, p, o diff.Term) error) error {
	l := ntLine(line)
	if l.skip(); l.ended() {
		return nil
	}
	s, err := l.node()
	if err != nil {
		return err
	}
	p, err := l.node()
	if err != nil {
		return err
	}
	o, err := l.object()
	if err != nil {
		return err
	}
	if l.skip(); len(l) == 0 || l[0] != '.' {
		return lineError("no full stop")
	}
	l = l[1:]
	if l.skip(); !l.ended() {
		return lineError("text behind the full stop")
	}
	return add(s, p, o)
}

// A lineError says what is wrong with a line.
type lineError string

func (e lineError) Error() string { return string(e) }

// ntLine is the rest of a line that is being read.
type ntLine []byte

func (l *ntLine) skip() {
	for len(*l) > 0 && ((*l)[0] == ' ' || (*l)[0] == '\t') {
		*l = (*l)[1:]
	}
}

func (l ntLine) ended() bool { return len(l) == 0 || l[0] == '#' }

// node reads an IRI or a blank node; the receiver of the triple checks which of
// them is allowed where.
func (l *ntLine) node() (diff.Term, error) {
	l.skip()
	switch {
	case len(*l) > 0 && (*l)[0] == '<':
		s, err := l.iri()
		return diff.Term{Kind: diff.IRI, Value: s}, err
	case bytes.HasPrefix(*l, []byte("_:")):
		return l.blank()
	}
	return diff.Term{}, lineError("neither an IRI nor a blank node where one must be")
}

func (l *ntLine) object() (diff.Term, error) {
	l.skip()
	if len(*l) > 0 && (*l)[0] == '"' {
		return l.literal()
	}
	return l.node()
}

func (l *ntLine) iri() (string, error) {
	end := bytes.IndexByte(*l, '>')
	if end < 0 {
		return "", lineError("IRI without an end")
	}
	raw := (*l)[1:end]
	*l = (*l)[end+1:]
	if bytes.IndexByte(raw, '<') >= 0 {
		return "", lineError("IRI in an IRI")
	}
	s, ok := unescape(raw, false)
	if !ok || s == "" {
		return "", lineError("IRI that is empty or has a bad escape")
	}
	return s, nil
}

func (l *ntLine) blank() (diff.Term, error) {
	end := bytes.IndexAny(*l, " \t<\"")
	if end < 0 {
		end = len(*l)
	}
	label := (*l)[2:end]
	// The full stop of the statement may follow at once; a label cannot end in one.
	label = bytes.TrimRight(label, ".")
	*l = (*l)[2+len(label):]
	if len(label) == 0 || bytes.ContainsAny(label, "#>\\") {
		return diff.Term{}, lineError("bad label of a blank node")
	}
	return diff.Term{Kind: diff.Blank, Value: string(label)}, nil
}

func (l *ntLine) literal() (diff.Term, error) {
	end := 1
	for end < len(*l) && (*l)[end] != '"' {
		if (*l)[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(*l) {
		return diff.Term{}, lineError("string without an end")
	}
	value, ok := unescape((*l)[1:end], true)
	if !ok {
		return diff.Term{}, lineError("bad escape in a string")
	}
	*l = (*l)[end+1:]
	t := diff.Term{Kind: diff.Literal, Value: value}
	var err error
	switch {
	case bytes.HasPrefix(*l, []byte("^^<")):
		*l = (*l)[2:]
		t.Datatype, err = l.iri()
	case len(*l) > 0 && (*l)[0] == '@':
		t.Lang, err = l.language()
	}
	return t, err
}

func (l *ntLine) language() (string, error) {
	end := 1
	for end < len(*l) && (isLetter((*l)[end]) || end > 1 && ((*l)[end] == '-' || '0' <= (*l)[end] && (*l)[end] <= '9')) {
		end++
	}
	tag := string((*l)[1:end])
	*l = (*l)[end:]
	if tag == "" || strings.HasSuffix(tag, "-") || strings.Contains(tag, "--") {
		return "", lineError("bad language tag")
	}
	return tag, nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// unescape undoes \uXXXX and \UXXXXXXXX, in strings also the short escapes.
func unescape(s []byte, short bool) (string, bool) {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s), true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		if i+1 == len(s) {
			return "", false
		}
		if k := strings.IndexByte(`tbnrf"'\`, s[i+1]); k >= 0 && short {
			out = append(out, "\t\b\n\r\f\"'\\"[k])
			i += 2
			continue
		}
		n := map[byte]int{'u': 4, 'U': 8}[s[i+1]]
		r, ok := codePoint(s[i+2:], n)
		if !ok {
			return "", false
		}
		out = utf8.AppendRune(out, r)
		i += 2 + n
	}
	return string(out), true
}

// codePoint reads n hexadecimal digits.
func codePoint(s []byte, n int) (rune, bool) {
	if n == 0 || len(s) < n {
		return 0, false
	}
	var r rune
	for _, c := range s[:n] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if '0' <= c && c <= '9' {
			d = int(c - '0')
		} else if d < 10 || !isLetter(c) {
			return 0, false
		}
		if r = r<<4 | rune(d); r > utf8.MaxRune {
			return 0, false
		}
	}
	return r, utf8.ValidRune(r)
}
