package endpoint

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/freshet/freshet/diff"
)

const (
	srxSpace = "http://www.w3.org/2005/sparql-results#"
	xmlSpace = "http://www.w3.org/XML/1998/namespace"
)

// decodeXML reads a SPARQL Query Results XML document as strictly as
// diff.DecodeJSON reads JSON: it must be complete, of the right form, and
// followed by nothing.
func decodeXML(body []byte, form diff.Form, o diff.Options) (*diff.Result, error) {
	x := srx{dec: newXMLDecoder(body, o.Stop), out: diff.NewBuilder(form, o), form: form, widest: o.MaxVars}
	if err := x.document(); err != nil {
		return nil, xmlError(err)
	}
	return x.out.Finish()
}

// newXMLDecoder reads a body in memory. stop, unless it is nil, is called every
// few kilobytes, and its error ends the reading.
func newXMLDecoder(body []byte, stop func() error) *xml.Decoder {
	return xml.NewDecoder(&chunkReader{bytes.NewReader(body), stop})
}

// A chunkReader is deliberately not an io.ByteReader, so that the decoder reads
// some kilobytes at a time.
type chunkReader struct {
	from *bytes.Reader
	stop func() error
}

func (p *chunkReader) Read(b []byte) (int, error) {
	if p.stop != nil {
		if err := p.stop(); err != nil {
			return 0, err
		}
	}
	return p.from.Read(b)
}

// skip skips an element with its content. The decoder's own Skip follows any
// depth and keeps a record of each level.
func skip(dec *xml.Decoder) error {
	for depth := 1; depth > 0; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > deepest {
				return malformed("more than %d elements deep", deepest)
			}
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// xmlError turns an error of the XML decoder into one about the document.
func xmlError(err error) error {
	var syntax *xml.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("%v", err)
	case errors.Is(err, diff.ErrMalformed), limited(err):
		return err
	}
	return malformed("%v", err) // for example an encoding other than UTF-8
}

// srx reads one document. Elements of other name spaces, which the format
// allows, are skipped; in its own name space every element has its place.
type srx struct {
	dec    *xml.Decoder
	out    *diff.Builder
	form   diff.Form
	widest int // maximum number of variables; 0: any
	vars   map[string]int
	row    []diff.Bound
	rows   int   // started so far
	seen   []int // variable → the last row that bound it
}

func (x *srx) document() error {
	root, err := firstElement(x.dec)
	if err != nil {
		return err
	}
	if root.Name.Space != srxSpace || root.Name.Local != "sparql" {
		return malformed("the root element is %q, not that of SPARQL results", root.Name.Local)
	}
	seen := ""
	err = x.children(func(e xml.StartElement) error {
		switch before := seen; e.Name.Local {
		case "head":
			if seen = "head"; before != "" {
				return malformed("head in the wrong place")
			}
			return x.head()
		case "boolean", "results":
			if seen = e.Name.Local; before != "head" {
				return malformed("%s in the wrong place", seen)
			}
			if (seen == "boolean") != (x.form == diff.Ask) {
				return malformed("%s is not an answer to %s", seen, x.form)
			}
			if seen == "boolean" {
				return x.boolean()
			}
			return x.results()
		}
		return malformed("unknown element %q", e.Name.Local)
	})
	if err != nil {
		return err
	}
	if seen != "boolean" && seen != "results" {
		return malformed("no results")
	}
	return nothingMore(x.dec)
}

// firstElement finds the root element.
func firstElement(dec *xml.Decoder) (xml.StartElement, error) {
	for {
		t, err := dec.Token()
		if err != nil {
			return xml.StartElement{}, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			return t, nil
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return xml.StartElement{}, malformed("text before the document")
			}
		}
	}
}

// nothingMore reads what may follow the root element.
func nothingMore(dec *xml.Decoder) error {
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.Comment, xml.ProcInst:
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return malformed("text after the document")
			}
		default:
			return malformed("text after the document")
		}
	}
}

// children calls f for each child element in the format's namespace, up to the
// parent's end tag. f has to read up to the child's end tag.
func (x *srx) children(f func(xml.StartElement) error) error {
	return eachChild(x.dec, func(e xml.StartElement) error {
		if e.Name.Space != srxSpace {
			return skip(x.dec)
		}
		return f(e)
	})
}

// eachChild calls f for each child element of the current one, up to its end
// tag. Text between them is an error. f has to read up to the child's end tag.
func eachChild(dec *xml.Decoder, f func(xml.StartElement) error) error {
	for {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.EndElement:
			return nil
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return malformed("text between elements")
			}
		case xml.StartElement:
			if err := f(t); err != nil {
				return err
			}
		}
	}
}

// text reads character data up to the parent's end tag.
func (x *srx) text() (string, error) {
	var b strings.Builder
	for {
		t, err := x.dec.Token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.EndElement:
			return b.String(), nil
		case xml.CharData:
			b.Write(t)
		case xml.StartElement:
			return "", malformed("element %q where text is required", t.Name.Local)
		}
	}
}

func (x *srx) head() error {
	var vars []string
	err := x.children(func(e xml.StartElement) error {
		if e.Name.Local == "variable" {
			vars = append(vars, attribute(e, "", "name"))
			if x.widest > 0 && len(vars) > x.widest {
				return fmt.Errorf("%w: more than %d", diff.ErrColumnLimit, x.widest)
			}
		} else if e.Name.Local != "link" {
			return malformed("unknown element %q in the head", e.Name.Local)
		}
		return skip(x.dec)
	})
	if err != nil || x.form == diff.Ask {
		return err
	}
	x.vars = make(map[string]int, len(vars))
	for i, v := range vars {
		x.vars[v] = i
	}
	x.seen = make([]int, len(vars))
	return x.out.SetVars(vars)
}

func (x *srx) boolean() error {
	s, err := x.text()
	if err != nil {
		return err
	}
	switch strings.TrimSpace(s) {
	case "true", "1":
		return x.out.SetBoolean(true)
	case "false", "0":
		return x.out.SetBoolean(false)
	}
	return malformed("boolean is neither true nor false")
}

func (x *srx) results() error {
	return x.children(func(e xml.StartElement) error {
		if e.Name.Local != "result" {
			return malformed("unknown element %q among the results", e.Name.Local)
		}
		x.row = x.row[:0]
		x.rows++
		if err := x.children(x.binding); err != nil {
			return err
		}
		return x.out.Solution(x.row)
	})
}

func (x *srx) binding(e xml.StartElement) error {
	name := attribute(e, "", "name")
	i, known := x.vars[name]
	if e.Name.Local != "binding" || !known {
		return malformed("%s of the unknown variable %q", e.Name.Local, name)
	}
	if x.seen[i] == x.rows {
		return malformed("variable %q is bound twice in a row", name)
	}
	n := 0
	err := x.children(func(e xml.StartElement) error {
		n++
		t, err := x.term(e)
		if t.Kind != diff.Unbound {
			x.seen[i] = x.rows
			x.row = append(x.row, diff.Bound{Var: i, Term: t})
		}
		return err
	})
	// Virtuoso sends <unbound/> and others an empty binding for unbound.
	if err == nil && n > 1 {
		err = malformed("binding of %q with several terms", name)
	}
	return err
}

func (x *srx) term(e xml.StartElement) (diff.Term, error) {
	t := diff.Term{}
	switch e.Name.Local {
	case "uri":
		t.Kind = diff.IRI
	case "bnode":
		t.Kind = diff.Blank
	case "literal", "typed-literal":
		t.Kind = diff.Literal
		t.Datatype, t.Lang = attribute(e, "", "datatype"), attribute(e, xmlSpace, "lang")
	case "unbound":
	default:
		return t, malformed("unknown kind of term %q", e.Name.Local)
	}
	var err error
	t.Value, err = x.text()
	if t.Kind != diff.Literal {
		t.Value = strings.TrimSpace(t.Value)
	}
	if err == nil && t.Value == "" && (t.Kind == diff.IRI || t.Kind == diff.Blank) {
		err = malformed("empty %s", e.Name.Local)
	}
	return t, err
}

// attribute is the value of an attribute; "" if it is missing. The prefix xml
// needs no declaration, and the decoder may or may not resolve it.
func attribute(e xml.StartElement, space, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && (a.Name.Space == space || space == xmlSpace && a.Name.Space == "xml") {
			return a.Value
		}
	}
	return ""
}
