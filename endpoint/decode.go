package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A format is one of the syntaxes in which results come.
type format int

const (
	resultsJSON format = iota + 1
	resultsXML
	nTriples
	turtle
	rdfXML
)

// delimited tells whether a document of this format shows by itself that its
// end is missing. Line formats do not.
func (f format) delimited() bool { return f != nTriples && f != turtle }

// formats are the media types that results come as. Where one stands for
// several formats, the query form and the first bytes decide.
var formats = map[string]format{
	"application/sparql-results+json": resultsJSON,
	"application/json":                resultsJSON,
	"text/json":                       resultsJSON,
	"application/sparql-results+xml":  resultsXML,
	"application/xml":                 resultsXML,
	"text/xml":                        resultsXML,
	"application/n-triples":           nTriples,
	"text/ntriples":                   nTriples,
	"text/plain":                      nTriples, // its type before it had one of its own
	"text/turtle":                     turtle,
	"application/turtle":              turtle,
	"application/x-turtle":            turtle,
	"text/rdf+n3":                     turtle,
	"text/n3":                         turtle,
	"application/rdf+xml":             rdfXML,
}

// formatOf finds the format of a body. The type has to be one that results
// have; among those the first bytes are believed rather than the label, which
// proxies and old servers get wrong.
func formatOf(form diff.Form, contentType string, body []byte) (format, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return 0, fmt.Errorf("the answer does not say what it is (Content-Type %q)%s", bounded(oneLine(contentType)), said(body))
	}
	f, known := formats[media]
	if !known {
		return 0, fmt.Errorf("the answer is %s, which no result is%s", media, said(body))
	}
	start := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
	xml := bytes.HasPrefix(start, []byte("<?xml")) || bytes.HasPrefix(start, []byte("<!--"))
	switch {
	case !form.Graph() && bytes.HasPrefix(start, []byte("{")):
		return resultsJSON, nil
	case !form.Graph() && bytes.HasPrefix(start, []byte("<")):
		return resultsXML, nil
	case !form.Graph():
		return 0, fmt.Errorf("the answer (%s) is neither results JSON nor XML%s", media, said(body))
	case xml || bytes.Contains(start[:min(len(start), 100)], []byte("<rdf:RDF")):
		return rdfXML, nil
	case len(start) == 0 && media == "text/plain":
		return 0, errors.New("the answer is empty")
	case f == turtle:
		return turtle, nil
	case f == rdfXML, f == nTriples && media != "text/plain":
		return f, nil
	case f == nTriples:
		return nTriples, nil
	}
	return 0, fmt.Errorf("the answer is %s, which no graph is%s", media, said(body))
}

// decode reads a whole body. n is the number of rows or triples as they came,
// repetitions included; an endpoint's cap counts those. o.MaxRows, if not 0, stops
// the reading of a SELECT result with diff.ErrRowLimit when there are more. What
// it costs grows with the length of the body, whatever that holds.
func decode(f format, body []byte, q *registry.Query, o diff.Options) (res *diff.Result, n int, err error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	o.Ordered, o.OrderKeys = q.Ordered, q.OrderKeys
	if q.Form.Graph() {
		o.MaxRows = 0
	}
	switch f {
	case resultsJSON:
		res, err = diff.DecodeJSON(body, q.Form, o)
	case resultsXML:
		res, err = decodeXML(body, q.Form, o)
	default:
		return decodeGraph(f, body, q.Form, o)
	}
	if err != nil {
		return nil, 0, err
	}
	return res, res.Len(), nil
}

func decodeGraph(f format, body []byte, form diff.Form, o diff.Options) (*diff.Result, int, error) {
	b, n := diff.NewBuilder(form, o), 0
	g := tripleSink{expansion: expansion{limit: o.MaxBytes}, stop: o.Stop, add: func(s, p, o diff.Term) error {
		n++
		return b.Triple(s, p, o)
	}}
	read := map[format]func([]byte, tripleSink) error{
		nTriples: readNTriples, turtle: readTurtle, rdfXML: readRDFXML,
	}[f]
	if read == nil {
		return nil, 0, fmt.Errorf("%w: no graph comes in this format", diff.ErrMalformed)
	}
	if err := read(body, g); err != nil {
		return nil, 0, err
	}
	res, err := b.Finish()
	return res, n, err
}

// A tripleSink takes the triples of one document.
type tripleSink struct {
	expansion
	add  func(s, p, o diff.Term) error
	stop func() error // asked now and then where no triple comes; may be nil
}

// errStopped is the end of work on an answer whose time is over.
var errStopped = errors.New("the time is over")

// limited says that an error is not about what the document says.
func limited(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, diff.ErrByteLimit) || errors.Is(err, diff.ErrRowLimit) || errors.Is(err, diff.ErrColumnLimit)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", diff.ErrMalformed, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
