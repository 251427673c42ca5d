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

// A format is a syntax of results.
type format int

const (
	resultsJSON format = iota + 1
	resultsXML
	nTriples
	turtle
	rdfXML
)

// delimited reports whether a document of this format shows by itself that its
// end is missing. Line formats do not.
func (f format) delimited() bool { return f != nTriples && f != turtle }

// formats maps media types to formats. Where one type is used for several
// formats, the query form and the first bytes decide.
var formats = map[string]format{
	"application/sparql-results+json": resultsJSON,
	"application/json":                resultsJSON,
	"text/json":                       resultsJSON,
	"application/sparql-results+xml":  resultsXML,
	"application/xml":                 resultsXML,
	"text/xml":                        resultsXML,
	"application/n-triples":           nTriples,
	"text/ntriples":                   nTriples,
	"text/plain":                      nTriples, // its media type before it had its own
	"text/turtle":                     turtle,
	"application/turtle":              turtle,
	"application/x-turtle":            turtle,
	"text/rdf+n3":                     turtle,
	"text/n3":                         turtle,
	"application/rdf+xml":             rdfXML,
}

// formatOf detects the format of a body. The media type must be one that
// results have. Among those, the first bytes decide rather than the type, which
// proxies and old servers get wrong.
func formatOf(form diff.Form, contentType string, body []byte) (format, error) {
	media := contentType
	f, known := formats[media]
	if !known {
		var err error
		if media, _, err = mime.ParseMediaType(contentType); err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			return 0, fmt.Errorf("the answer has no known media type (Content-Type %q)%s", bounded(oneLine(contentType)), quoteBody(body))
		}
		if f, known = formats[media]; !known {
			return 0, fmt.Errorf("the answer is %s, which is not a format of results%s", media, quoteBody(body))
		}
	}
	start := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
	xml := bytes.HasPrefix(start, []byte("<?xml")) || bytes.HasPrefix(start, []byte("<!--"))
	switch {
	case !form.Graph() && bytes.HasPrefix(start, []byte("{")):
		return resultsJSON, nil
	case !form.Graph() && bytes.HasPrefix(start, []byte("<")):
		return resultsXML, nil
	case !form.Graph():
		return 0, fmt.Errorf("the answer (%s) is neither results JSON nor XML%s", media, quoteBody(body))
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
	return 0, fmt.Errorf("the answer is %s, which is not a format of graphs%s", media, quoteBody(body))
}

// decode reads a complete body. n is the number of rows or triples as received,
// including repetitions, because an endpoint's cap counts those. If o.MaxRows
// is not 0, reading a SELECT result with more rows stops with diff.ErrRowLimit.
// The cost is proportional to the length of the body, whatever its content.
func decode(f format, body []byte, q *registry.Query, o diff.Options) (res *diff.Result, n int, err error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	o.Ordered, o.OrderKeys, o.KeepLabels = q.Ordered, q.OrderKeys, q.Merged
	if q.Merged && o.MaxVars > 0 {
		o.MaxVars++ // the number of the member
	}
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
		return nil, 0, fmt.Errorf("%w: graphs do not have this format", diff.ErrMalformed)
	}
	if err := read(body, g); err != nil {
		return nil, 0, err
	}
	res, err := b.Finish()
	return res, n, err
}

// A tripleSink receives the triples of one document.
type tripleSink struct {
	expansion
	add  func(s, p, o diff.Term) error
	stop func() error // called regularly where no triple comes; may be nil
}

// errStopped ends the work on an answer when its time is over.
var errStopped = errors.New("the time is over")

// limited reports whether an error is about a limit rather than about the
// document.
func limited(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, diff.ErrByteLimit) || errors.Is(err, diff.ErrRowLimit) || errors.Is(err, diff.ErrColumnLimit)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", diff.ErrMalformed, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
