package formats

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
)

// readTurtle reads RDF 1.1 Turtle. It is written here because the lexer of
// knakk/rdf runs in its own goroutine, where some malformed documents make it
// panic. The panic cannot be recovered, so one bad answer would end the
// process. Absolute IRIs are not changed; relative ones need a base in the
// document.
func readTurtle(body []byte, g *tripleSink) error {
	if !utf8.Valid(body) {
		return malformed("not UTF-8")
	}
	t := &ttl{b: body, base: g.base, prefixes: map[string]string{}, tripleSink: g}
	for n := 0; ; n++ {
		if t.space(); t.i == len(t.b) {
			return nil
		}
		if n%1024 == 0 && g.stop != nil {
			if err := g.stop(); err != nil {
				return err
			}
		}
		if err := t.statement(); limited(err) {
			return err
		} else if err != nil {
			return fmt.Errorf("%w (Turtle, line %d)", err, 1+bytes.Count(t.b[:min(t.i, len(t.b))], []byte("\n")))
		}
		g.end = t.i
	}
}

// ttl is the state of reading one document.
type ttl struct {
	b        []byte
	i        int
	base     *iriBase
	prefixes map[string]string
	depth    int
	*tripleSink
}

// space skips white space and comments.
func (t *ttl) space() {
	for t.i < len(t.b) {
		switch t.b[t.i] {
		case ' ', '\t', '\r', '\n':
			t.i++
		case '#':
			n := bytes.IndexAny(t.b[t.i:], "\r\n")
			if n < 0 {
				n = len(t.b) - t.i
			}
			t.i += n
		default:
			return
		}
	}
}

// next returns the next byte that is not white space; 0 at the end.
func (t *ttl) next() byte {
	t.space()
	if t.i == len(t.b) {
		return 0
	}
	return t.b[t.i]
}

func (t *ttl) take(c byte) error {
	if t.next() != c {
		return malformed("%q is missing", c)
	}
	t.i++
	return nil
}

// keyword reads word, ignoring case if fold, if a space or an IRI follows.
func (t *ttl) keyword(word string, fold bool) bool {
	end := t.i + len(word)
	if end >= len(t.b) || !bytes.ContainsRune([]byte(" \t\r\n<#"), rune(t.b[end])) {
		return false
	}
	got := string(t.b[t.i:end])
	if got != word && !(fold && strings.EqualFold(got, word)) {
		return false
	}
	t.i = end
	return true
}

func (t *ttl) statement() error {
	var err error
	switch {
	case t.keyword("@prefix", false):
		if err = t.prefix(); err == nil {
			err = t.take('.')
		}
	case t.keyword("@base", false):
		if err = t.rebase(); err == nil {
			err = t.take('.')
		}
	case t.keyword("PREFIX", true):
		err = t.prefix()
	case t.keyword("BASE", true):
		err = t.rebase()
	default:
		if err = t.triples(); err == nil {
			err = t.take('.')
		}
	}
	return err
}

func (t *ttl) prefix() error {
	t.space()
	name := t.name()
	if err := t.take(':'); err != nil {
		return err
	}
	t.space()
	iri, err := t.iri()
	t.prefixes[name] = iri
	return err
}

func (t *ttl) rebase() error {
	t.space()
	iri, err := t.iri()
	if err == nil {
		t.base = baseOf(iri)
	}
	return err
}

func (t *ttl) triples() error {
	properties := t.next() == '['
	before := t.i
	s, err := t.node()
	if err != nil {
		return err
	}
	if s.Kind == diff.Literal {
		return malformed("a literal as subject")
	}
	// A blank node with properties in its brackets may be a statement; [] may not.
	if properties && t.next() == '.' && len(bytes.TrimSpace(t.b[before+1:t.i])) > 1 {
		return nil
	}
	return t.properties(s)
}

// properties reads a list of predicates and objects.
func (t *ttl) properties(s diff.Term) error {
	for {
		p, err := t.verb()
		if err != nil {
			return err
		}
		for more := true; more; {
			o, err := t.node()
			if err == nil {
				err = t.add(s, p, o)
			}
			if err != nil {
				return err
			}
			switch c := t.next(); {
			case c == '~' || c == '{':
				return diff.NotRDF11("reifier or an annotation of a triple")
			case c == ',':
				t.i++
			default:
				more = false
			}
		}
		if t.next() != ';' {
			return nil
		}
		for t.next() == ';' {
			t.i++
		}
		if c := t.next(); c == '.' || c == ']' {
			return nil
		}
	}
}

func (t *ttl) verb() (diff.Term, error) {
	if t.next() == 'a' && (t.i+1 == len(t.b) || !nameByte(t.b[t.i+1]) && t.b[t.i+1] != ':') {
		t.i++
		return rdfTerm("type"), nil
	}
	p, err := t.node()
	if err == nil && p.Kind != diff.IRI {
		err = malformed("a predicate that is not an IRI")
	}
	return p, err
}

// node reads any term, with the triples inside its brackets.
func (t *ttl) node() (diff.Term, error) {
	switch c := t.next(); {
	case bytes.HasPrefix(t.b[t.i:], []byte("<<")):
		return diff.Term{}, diff.NotRDF11("triple term")
	case c == '<':
		iri, err := t.iri()
		return diff.Term{Kind: diff.IRI, Value: iri}, err
	case c == '[':
		return t.nested(t.bracket)
	case c == '(':
		return t.nested(t.collection)
	case c == '"' || c == '\'':
		return t.literal()
	case c == '+' || c == '-' || c == '.' || digit(c):
		return t.number()
	case bytes.HasPrefix(t.b[t.i:], []byte("_:")):
		t.i += 2
		label := t.name()
		if label == "" {
			return diff.Term{}, malformed("blank node without a label")
		}
		return diff.Term{Kind: diff.Blank, Value: "l" + label}, nil
	}
	return t.prefixed()
}

// nested bounds the depth of brackets.
func (t *ttl) nested(read func() (diff.Term, error)) (diff.Term, error) {
	if t.depth++; t.depth > deepest {
		return diff.Term{}, malformed("more than %d brackets deep", deepest)
	}
	term, err := read()
	t.depth--
	return term, err
}

func (t *ttl) bracket() (diff.Term, error) {
	t.i++
	s := t.fresh()
	if t.next() != ']' {
		if err := t.properties(s); err != nil {
			return s, err
		}
	}
	return s, t.take(']')
}

func (t *ttl) collection() (diff.Term, error) {
	t.i++
	var first, last diff.Term
	link := func(next diff.Term) error { // puts a cell, or the end, after the last cell
		before := last
		if last = next; before.Kind == diff.Unbound {
			first = next
			return nil
		}
		return t.add(before, rdfTerm("rest"), next)
	}
	for t.next() != ')' {
		o, err := t.node()
		if err != nil {
			return o, err
		}
		cell := t.fresh()
		if err = link(cell); err == nil {
			err = t.add(cell, rdfTerm("first"), o)
		}
		if err != nil {
			return o, err
		}
	}
	t.i++
	err := link(rdfTerm("nil"))
	return first, err
}

func (t *ttl) iri() (string, error) {
	if t.next() != '<' {
		return "", malformed("an IRI is missing")
	}
	n := bytes.IndexByte(t.b[t.i:], '>')
	if n < 0 || bytes.ContainsAny(t.b[t.i+1:t.i+n], "<\"\r\n\t ") {
		return "", malformed("IRI without an end")
	}
	s, ok := diff.UnescapeNT(string(t.b[t.i+1:t.i+n]), false)
	if !ok {
		return "", malformed("bad escape in an IRI")
	}
	t.i += n + 1
	return t.resolve(t.base, s)
}

// name reads the characters of a prefix or label, which must not end in a dot.
func (t *ttl) name() string {
	from := t.i
	for t.i < len(t.b) && (nameByte(t.b[t.i]) || t.b[t.i] == '.') {
		t.i++
	}
	for t.i > from && t.b[t.i-1] == '.' {
		t.i--
	}
	return string(t.b[from:t.i])
}

func nameByte(c byte) bool { return isLetter(c) || digit(c) || c == '_' || c == '-' || c >= 0x80 }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// prefixed reads a prefixed name, or true or false.
func (t *ttl) prefixed() (diff.Term, error) {
	name := t.name()
	if t.i == len(t.b) || t.b[t.i] != ':' {
		if name == "true" || name == "false" {
			return diff.Term{Kind: diff.Literal, Value: name, Datatype: xsdSpace + "boolean"}, nil
		}
		if strings.EqualFold(name, "VERSION") {
			return diff.Term{}, diff.NotRDF11("VERSION line")
		}
		return diff.Term{}, malformed("a term is missing")
	}
	space, known := t.prefixes[name]
	if !known {
		return diff.Term{}, malformed("unknown prefix %q", Bounded(OneLine(name)))
	}
	t.i++
	local, err := t.local()
	return diff.Term{Kind: diff.IRI, Value: space + local}, err
}

// local reads the part of a name after the colon.
func (t *ttl) local() (string, error) {
	var out []byte
	dots := 0 // at the end, which belong to the statement
	for t.i < len(t.b) {
		c := t.b[t.i]
		switch {
		case nameByte(c) || c == ':':
			out = append(out, c)
		case c == '.':
			out = append(out, c)
			dots++
			t.i++
			continue
		case c == '%' && t.i+2 < len(t.b) && hexDigit(t.b[t.i+1]) && hexDigit(t.b[t.i+2]):
			out = append(out, t.b[t.i:t.i+3]...)
			t.i += 2
		case c == '\\' && t.i+1 < len(t.b) && strings.IndexByte(`_~.-!$&'()*+,;=/?#@%`, t.b[t.i+1]) >= 0:
			out = append(out, t.b[t.i+1])
			t.i++
		case c == '%' || c == '\\':
			return "", malformed("bad escape in a name")
		default:
			t.i -= dots
			return string(out[:len(out)-dots]), nil
		}
		t.i++
		dots = 0
	}
	t.i -= dots
	return string(out[:len(out)-dots]), nil
}

func hexDigit(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func (t *ttl) literal() (diff.Term, error) {
	quote := t.b[t.i : t.i+1]
	if three := bytes.Repeat(quote, 3); bytes.HasPrefix(t.b[t.i:], three) {
		quote = three
	}
	t.i += len(quote)
	from := t.i
	for !bytes.HasPrefix(t.b[t.i:], quote) {
		if t.i < len(t.b) && t.b[t.i] == '\\' {
			t.i++
		}
		if t.i >= len(t.b) || len(quote) == 1 && (t.b[t.i] == '\n' || t.b[t.i] == '\r') {
			t.i = from
			return diff.Term{}, malformed("string without an end")
		}
		t.i++
	}
	value, ok := diff.UnescapeNT(string(t.b[from:t.i]), true)
	if !ok {
		return diff.Term{}, malformed("bad escape in a string")
	}
	t.i += len(quote)
	return t.tagged(diff.Term{Kind: diff.Literal, Value: value})
}

// tagged reads what may follow a string, even after white space: a language or
// a datatype.
func (t *ttl) tagged(term diff.Term) (diff.Term, error) {
	t.space()
	rest := t.b[t.i:]
	if len(rest) > 0 && rest[0] == '@' {
		n := 1
		for n < len(rest) && (isLetter(rest[n]) || digit(rest[n]) || rest[n] == '-') {
			n++
		}
		t.i += n
		term.Lang = string(rest[1:n])
		return term, diff.CheckLang(term.Lang)
	}
	if !bytes.HasPrefix(rest, []byte("^^")) {
		return term, nil
	}
	t.i += 2
	dt, err := t.node()
	if err == nil && dt.Kind != diff.IRI {
		err = malformed("a datatype that is not an IRI")
	}
	term.Datatype = dt.Value
	return term, err
}

func (t *ttl) number() (diff.Term, error) {
	from, kind := t.i, "integer"
	if c := t.b[t.i]; c == '+' || c == '-' {
		t.i++
	}
	whole := t.digits()
	fraction := 0
	// A dot without a following digit or exponent ends the statement.
	if at := t.i; at < len(t.b) && t.b[at] == '.' {
		t.i++
		fraction = t.digits()
		if kind = "decimal"; fraction == 0 && (whole == 0 || !t.exponentAhead()) {
			t.i, kind = at, "integer"
		}
	}
	if whole+fraction > 0 && t.exponentAhead() {
		kind = "double"
		if t.i++; t.b[t.i] == '+' || t.b[t.i] == '-' {
			t.i++
		}
		t.digits()
	}
	if whole+fraction == 0 {
		return diff.Term{}, malformed("a term is missing")
	}
	return diff.Term{Kind: diff.Literal, Value: string(t.b[from:t.i]), Datatype: xsdSpace + kind}, nil
}

func (t *ttl) digits() int {
	from := t.i
	for t.i < len(t.b) && digit(t.b[t.i]) {
		t.i++
	}
	return t.i - from
}

func (t *ttl) exponentAhead() bool {
	rest := t.b[t.i:]
	if len(rest) < 2 || rest[0]|0x20 != 'e' {
		return false
	}
	if rest[1] == '+' || rest[1] == '-' {
		return len(rest) > 2 && digit(rest[2])
	}
	return digit(rest[1])
}
