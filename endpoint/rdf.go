package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/knakk/rdf"

	"github.com/freshet/freshet/diff"
)

// readTurtle and readRDFXML use knakk/rdf.
func readTurtle(body []byte, add func(s, p, o diff.Term) error) error {
	return readRDF(body, rdf.Turtle, add)
}

func readRDFXML(body []byte, add func(s, p, o diff.Term) error) error {
	return readRDF(body, rdf.RDFXML, add)
}

func readRDF(body []byte, f rdf.Format, add func(s, p, o diff.Term) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = malformed("the reader gave up: %v", p)
		}
	}()
	dec := rdf.NewTripleDecoder(bytes.NewReader(body), f)
	for {
		t, err := dec.Decode()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return malformed("%v", err)
		}
		if err := add(rdfTerm(t.Subj), rdfTerm(t.Pred), rdfTerm(t.Obj)); err != nil {
			return fmt.Errorf("triple: %w", err)
		}
	}
}

func rdfTerm(t rdf.Term) diff.Term {
	switch t := t.(type) {
	case rdf.IRI:
		return diff.Term{Kind: diff.IRI, Value: t.String()}
	case rdf.Blank:
		return diff.Term{Kind: diff.Blank, Value: t.String()}
	case rdf.Literal:
		return diff.Term{Kind: diff.Literal, Value: t.String(), Lang: t.Lang(), Datatype: t.DataType.String()}
	}
	return diff.Term{}
}
