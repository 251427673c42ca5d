package formats

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// srxSpace is the name space of SPARQL results in XML.
const srxSpace = "http://www.w3.org/2005/sparql-results#"

// decodeXML reads a SPARQL Query Results XML document as strictly as
// diff.DecodeJSON reads JSON: it must be complete, of the right form, and
// followed by nothing.
func decodeXML(body []byte, form diff.Form, o diff.Options) (*diff.Result, error) {
	dec := xml.NewDecoder(&chunkReader{bytes.NewReader(body), o.Stop})
	x := srx{dec: dec, out: diff.NewBuilder(form, o), form: form, widest: o.MaxVars}
	if err := x.document(); err != nil {
		return nil, xmlError(err)
	}
	return x.out.Finish()
}

// srx reads one document. In the format's name space every element has its place.
// Elements of other name spaces are skipped beside the results, if they report no
// error, and refused among them.
type srx struct {
	dec    *xml.Decoder
	out    *diff.Builder
	form   diff.Form
	widest int // maximum number of variables; 0: any
	vars   map[string]int
	row    []diff.Bound
	rows   int   // started so far
	seen   []int // variable → the last row that bound it
	told   bool  // the results have begun
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
			if x.told = true; seen == "boolean" {
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
	return nothingMore(x.dec, x.comment)
}

// children calls f for each child element in the format's namespace, up to the
// parent's end tag. f has to read up to the child's end tag.
func (x *srx) children(f func(xml.StartElement) error) error {
	return eachChild(x.dec, x.comment, func(e xml.StartElement) error {
		if e.Name.Space == srxSpace {
			return f(e)
		}
		text, err := skip(x.dec)
		if err == nil && diff.Alarming(e.Name.Local, asJSON(text)) {
			err = malformed("the answer has an element %q beside its rows: %s", e.Name.Local, Bounded(OneLine(text)))
		}
		return err
	})
}

// comment refuses a comment among the results or after them that reports an error.
func (x *srx) comment(text xml.Comment) error {
	if x.told && alarming(text) {
		return malformed("the comment %q beside the rows", Bounded(OneLine(string(text))))
	}
	return nil
}

// asJSON is the value that a text would have in JSON. An element without text says true.
func asJSON(text string) string {
	switch text {
	case "":
		return "true"
	case "true", "false", "null", "0":
		return text
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	return strconv.Quote(text)
}

// own is children where only elements of the format's name space may be.
func (x *srx) own(f func(xml.StartElement) error) error {
	return eachChild(x.dec, x.comment, func(e xml.StartElement) error {
		if e.Name.Space != srxSpace {
			return malformed("element %q of the name space %q among the results", e.Name.Local, e.Name.Space)
		}
		return f(e)
	})
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
		_, err := skip(x.dec)
		return err
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
	return x.own(func(e xml.StartElement) error {
		if e.Name.Local != "result" {
			return malformed("unknown element %q among the results", e.Name.Local)
		}
		x.row = x.row[:0]
		x.rows++
		if err := x.own(x.binding); err != nil {
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
	err := x.own(func(e xml.StartElement) error {
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
		if attribute(e, itsSpace, "dir") != "" {
			return t, diff.NotRDF11("base direction (its:dir)")
		}
		t.Datatype, t.Lang = attribute(e, "", "datatype"), attribute(e, xmlSpace, "lang")
	case "unbound":
	case "triple":
		return t, diff.NotRDF11("triple term")
	default:
		return t, malformed("unknown kind of term %q", e.Name.Local)
	}
	var err error
	t.Value, err = x.text()
	if t.Kind != diff.Literal {
		t.Value = strings.Trim(t.Value, " \t\r\n") // what XML calls white space: an IRI may end in U+00A0
	}
	if err == nil && t.Value == "" && (t.Kind == diff.IRI || t.Kind == diff.Blank) {
		err = malformed("empty %s", e.Name.Local)
	}
	return t, err
}
