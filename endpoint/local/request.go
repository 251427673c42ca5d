package local

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// operation is what a SPARQL Protocol request asks for.
type operation struct {
	update        bool
	text          string
	defaultGraphs []string
	namedGraphs   []string
}

// refusal is an error with its HTTP status.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// parseRequest reads the operation from a request, by section 2 of the SPARQL
// 1.1 Protocol.
func parseRequest(r *http.Request, maxBody int64) (operation, error) {
	address, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return operation{}, refuse(http.StatusBadRequest, "malformed query string: %v", err)
	}
	if r.Method != http.MethodPost {
		return fromForm(address, false)
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return operation{}, refuse(http.StatusUnsupportedMediaType, "a POST needs a Content-Type: %s", postTypes)
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return operation{}, refuse(http.StatusUnsupportedMediaType, "charset %q is not supported, only utf-8", charset)
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return operation{}, refuse(http.StatusUnsupportedMediaType, "Content-Encoding %q is not supported", coding)
	}
	switch kind {
	case "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update":
	default:
		return operation{}, refuse(http.StatusUnsupportedMediaType, "Content-Type %q is not supported: %s", kind, postTypes)
	}
	body, err := readBody(r, maxBody)
	if err != nil {
		return operation{}, err
	}
	if kind != "application/x-www-form-urlencoded" {
		return direct(kind, body, address)
	}
	form, err := url.ParseQuery(body)
	if err != nil {
		return operation{}, refuse(http.StatusBadRequest, "malformed form: %v", err)
	}
	return fromForm(form, true)
}

const postTypes = "use application/sparql-query, application/sparql-update or application/x-www-form-urlencoded"

func readBody(r *http.Request, maxBody int64) (string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return "", refuse(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", maxBody)
	}
	if err != nil {
		return "", refuse(http.StatusBadRequest, "read the body: %v", err)
	}
	return string(body), nil
}

// direct reads a POST whose body is the text itself. The dataset is in the URL.
func direct(kind, body string, address url.Values) (operation, error) {
	o := operation{update: kind == "application/sparql-update", text: body}
	if address.Has("query") || address.Has("update") {
		return o, refuse(http.StatusBadRequest, "the text is both in the body and in the URL")
	}
	return o.withDataset(address)
}

func fromForm(form url.Values, post bool) (operation, error) {
	queries, updates := form["query"], form["update"]
	switch {
	case len(updates) > 0 && !post:
		return operation{}, refuse(http.StatusBadRequest, "an update must be sent by POST")
	case len(queries)+len(updates) == 0:
		return operation{}, refuse(http.StatusBadRequest, "no query: send it as the parameter \"query\"")
	case len(queries)+len(updates) > 1:
		return operation{}, refuse(http.StatusBadRequest, "exactly one query or update is needed, not %d", len(queries)+len(updates))
	case len(updates) == 1:
		return operation{update: true, text: updates[0]}.withDataset(form)
	}
	return operation{text: queries[0]}.withDataset(form)
}

func (o operation) withDataset(params url.Values) (operation, error) {
	if !utf8.ValidString(o.text) {
		return o, refuse(http.StatusBadRequest, "the text is not valid UTF-8")
	}
	if o.update {
		if params.Has("using-graph-uri") || params.Has("using-named-graph-uri") {
			return o, refuse(http.StatusBadRequest, "using-graph-uri and using-named-graph-uri are not supported: write USING into the update")
		}
		return o, nil
	}
	o.defaultGraphs, o.namedGraphs = params["default-graph-uri"], params["named-graph-uri"]
	for _, iri := range append(append([]string(nil), o.defaultGraphs...), o.namedGraphs...) {
		if u, err := url.Parse(iri); err != nil || !u.IsAbs() {
			return o, refuse(http.StatusBadRequest, "graph %q is not an absolute IRI", iri)
		}
	}
	return o, nil
}
