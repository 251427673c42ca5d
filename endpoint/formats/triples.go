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
	if scheme(base) != "" {
		g.base = baseOf(base)
	}
	return g.read(f, bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
}

func (g *tripleSink) read(f Format, body []byte) error {
	switch f {
	case NTriples:
		return readNTriples(body, g)
	case Turtle:
		return readTurtle(body, g)
	}
	return fmt.Errorf("%w: graphs do not have this format", diff.ErrMalformed)
}

// fresh returns a blank node without a label. Labels in the document begin with l,
// so that none is equal.
func (g *tripleSink) fresh() diff.Term {
	g.blanks++
	return diff.Term{Kind: diff.Blank, Value: "a" + strconv.Itoa(g.blanks)}
}

func rdfTerm(name string) diff.Term { return diff.Term{Kind: diff.IRI, Value: rdfSpace + name} }
