package formats

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/freshet/freshet/diff"
)

// The name spaces that the formats of graphs use themselves.
const (
	rdfSpace = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	itsSpace = "http://www.w3.org/2005/11/its" // of base directions, in formats of XML
	xsdSpace = "http://www.w3.org/2001/XMLSchema#"
)

// deepest is the maximum nesting of brackets and elements.
const deepest = 1000

// A tripleSink receives the triples of one document.
type tripleSink struct {
	expansion
	add    func(s, p, o diff.Term) error
	stop   func() error // called regularly where no triple comes; may be nil
	base   *iriBase     // of a document that declares none; may be nil
	blanks int
	end    int // of the last statement; only white space and comments follow it in a whole document
}

// Triples reads the triples of a complete document in their order, repeated ones too. base resolves
// relative IRIs before the document declares a base of its own; without one they are errors. limit bounds
// the bytes to which relative IRIs expand, 0 for no limit. An error of add ends the reading and is wrapped.
func Triples(f Format, body []byte, base string, limit int, add func(s, p, o diff.Term) error) error {
	g := &tripleSink{expansion: expansion{limit: limit}, add: add}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	switch {
	case f == NTriples:
		return readNTriples(body, g)
	case f != Turtle:
		return fmt.Errorf("%w: graphs do not have this format", diff.ErrMalformed)
	case scheme(base) != "":
		g.base = baseOf(base)
	}
	return readTurtle(body, g)
}

// fresh returns a blank node without a label. Labels in the document begin with l,
// so that none is equal.
func (g *tripleSink) fresh() diff.Term {
	g.blanks++
	return diff.Term{Kind: diff.Blank, Value: "a" + strconv.Itoa(g.blanks)}
}

func rdfTerm(name string) diff.Term { return diff.Term{Kind: diff.IRI, Value: rdfSpace + name} }

// A list is an RDF collection that is being read.
type list struct {
	*tripleSink
	head, last diff.Term
}

// append adds a node to the list.
func (l *list) append(node diff.Term) error {
	cell := l.fresh()
	if err := l.link(cell); err != nil {
		return err
	}
	return l.add(cell, rdfTerm("first"), node)
}

// end returns the list.
func (l *list) end() (diff.Term, error) {
	err := l.link(rdfTerm("nil"))
	return l.head, err
}

// link puts a cell, or the end, after the last cell.
func (l *list) link(next diff.Term) error {
	last := l.last
	if l.last = next; last.Kind == diff.Unbound {
		l.head = next
		return nil
	}
	return l.add(last, rdfTerm("rest"), next)
}
