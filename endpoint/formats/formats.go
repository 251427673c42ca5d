// Package formats reads the answers of endpoints: SPARQL results in JSON and XML,
// and graphs in N-Triples and Turtle. A document is read whole or not at
// all, because a row or triple that is skipped would look deleted. It also quotes
// what endpoints send instead of results.
package formats

import (
	"bytes"
	"errors"
	"fmt"
	"mime"

	"github.com/freshet/freshet/diff"
)

// A Format is a syntax of results.
type Format int

// The formats. JSON and XML are those of SELECT and ASK, the others those of graphs.
const (
	JSON Format = iota + 1
	XML
	NTriples
	Turtle
)

// Delimited reports whether a document of this format shows by itself that its
// end is missing. Line formats do not.
func (f Format) Delimited() bool { return f != NTriples && f != Turtle }

// rdfXML is not read: what it says depends on rules that few readers implement alike.
const rdfXML Format = -1

// mediaTypes maps media types to formats. Where one type is used for several
// formats, the query form and the first bytes decide.
var mediaTypes = map[string]Format{
	"application/sparql-results+json": JSON,
	"application/json":                JSON,
	"text/json":                       JSON,
	"application/sparql-results+xml":  XML,
	"application/xml":                 XML,
	"text/xml":                        XML,
	"application/n-triples":           NTriples,
	"text/ntriples":                   NTriples,
	"text/plain":                      NTriples, // its media type before it had its own
	"text/turtle":                     Turtle,
	"application/turtle":              Turtle,
	"application/x-turtle":            Turtle,
	"text/rdf+n3":                     Turtle,
	"text/n3":                         Turtle,
	"application/rdf+xml":             rdfXML,
}

// Detect returns the format of a body. The media type must be one that
// results have. Among those, the first bytes decide rather than the type, which
// proxies and old servers get wrong.
func Detect(form diff.Form, contentType string, body []byte) (Format, error) {
	media := contentType
	f, known := mediaTypes[media]
	if !known {
		var err error
		if media, _, err = mime.ParseMediaType(contentType); err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			return 0, fmt.Errorf("the answer has no known media type (Content-Type %q)%s", Bounded(OneLine(contentType)), Quote(body))
		}
		if f, known = mediaTypes[media]; !known {
			return 0, fmt.Errorf("the answer is %s, which is not a format of results%s", media, Quote(body))
		}
	}
	start := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
	xml := bytes.HasPrefix(start, []byte("<?xml")) || bytes.HasPrefix(start, []byte("<!--"))
	switch {
	case !form.Graph() && bytes.HasPrefix(start, []byte("{")):
		return JSON, nil
	case !form.Graph() && bytes.HasPrefix(start, []byte("<")):
		return XML, nil
	case !form.Graph():
		return 0, fmt.Errorf("the answer (%s) is neither results JSON nor XML%s", media, Quote(body))
	case xml || f == rdfXML || bytes.Contains(start[:min(len(start), 100)], []byte("<rdf:RDF")):
		return 0, fmt.Errorf("the answer is XML (%s), and graphs are read as N-Triples and Turtle only: let the endpoint send one "+
			"of them%s", media, Quote(body))
	case len(start) == 0 && media == "text/plain":
		return 0, errors.New("the answer is empty")
	case f == Turtle:
		return Turtle, nil
	case f == NTriples:
		return NTriples, nil
	}
	return 0, fmt.Errorf("the answer is %s, which is not a format of graphs%s", media, Quote(body))
}

// Decode reads a complete body. n is the number of rows or triples as received,
// including repetitions, because an endpoint's cap counts those. If o.MaxRows
// is not 0, reading a SELECT result with more rows stops with diff.ErrRowLimit.
// The cost is proportional to the length of the body, whatever its content.
func Decode(f Format, body []byte, form diff.Form, o diff.Options) (res *diff.Result, n int, err error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if form.Graph() {
		o.MaxRows = 0
	}
	switch f {
	case JSON:
		res, err = diff.DecodeJSON(body, form, o)
	case XML:
		res, err = decodeXML(body, form, o)
	default:
		return decodeGraph(f, body, form, o)
	}
	if err != nil {
		return nil, 0, err
	}
	return res, res.Len(), nil
}

func decodeGraph(f Format, body []byte, form diff.Form, o diff.Options) (*diff.Result, int, error) {
	b, n := diff.NewBuilder(form, o), 0
	g := &tripleSink{expansion: expansion{limit: o.MaxBytes}, stop: o.Stop, add: func(s, p, o diff.Term) error {
		n++
		return b.Triple(s, p, o)
	}}
	if err := g.read(f, body); err != nil {
		return nil, 0, err
	}
	if n == 0 {
		if words := remark(body); words != "" {
			return nil, 0, malformed("no triples, but the comment %q", Bounded(OneLine(words)))
		}
	} else if words := lastRemark(body[g.end:]); words != "" {
		return nil, 0, malformed("after the last triple the comment %q", Bounded(OneLine(words)))
	}
	res, err := b.Finish()
	return res, n, err
}
