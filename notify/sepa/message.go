package sepa

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A request is a client's message. Exactly one of the two fields is set.
type request struct {
	Subscribe   *subscribe   `json:"subscribe"`
	Unsubscribe *unsubscribe `json:"unsubscribe"`
}

type subscribe struct {
	SPARQL        string `json:"sparql"`
	Alias         string `json:"alias"`
	Authorization string `json:"authorization"`
	DefaultGraphs graphs `json:"default-graph-uri"`
	NamedGraphs   graphs `json:"named-graph-uri"`
}

type unsubscribe struct {
	SPUID         string `json:"spuid"`
	Alias         string `json:"alias"`
	Authorization string `json:"authorization"`
}

// graphs is one IRI or a list of them.
type graphs []string

func (g *graphs) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if one != "" {
			*g = graphs{one}
		}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(g)) != nil {
		return errGraphs
	}
	return nil
}

var errGraphs = errors.New("default-graph-uri and named-graph-uri are an IRI or an array of IRIs")

// describeJSONError describes what is wrong with a message in terms of JSON.
func describeJSONError(err error) string {
	var typ *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errGraphs):
		return err.Error()
	case errors.As(err, &typ):
		return withArticle(typ.Value) + " is not allowed at " + cmp.Or(typ.Field, "the top")
	}
	return "it is not valid JSON"
}

// withArticle returns the decoder's name for a kind of JSON value with its article.
func withArticle(value string) string {
	value, _, _ = strings.Cut(value, " ") // of a number it says which
	switch value {
	case "object", "array":
		return "an " + value
	case "bool":
		return "a boolean"
	}
	return "a " + value
}

// maxAlias is the maximum length of an alias in bytes. Every message repeats it.
const maxAlias = 1024

// parse decodes one message. If it is malformed, the request carries the alias where
// it could be read, so that the client can relate the error.
func parse(frame []byte) (request, error) {
	var r request
	if err := json.Unmarshal(frame, &r); err != nil {
		return request{Subscribe: &subscribe{Alias: aliasOf(frame)}}, refuse(http.StatusBadRequest, "bad_request",
			"not a message of SPARQL 1.1 Subscribe: "+describeJSONError(err))
	}
	switch {
	case (r.Subscribe == nil) == (r.Unsubscribe == nil):
		return r, refuse(http.StatusBadRequest, "bad_request", "a message is either {\"subscribe\":…} or {\"unsubscribe\":…}")
	case r.Subscribe != nil && len(r.Subscribe.Alias) > maxAlias:
		r.Subscribe.Alias = ""
		return r, refuse(http.StatusBadRequest, "bad_request", "the alias is too long")
	case r.Subscribe != nil && r.Subscribe.SPARQL == "":
		return r, refuse(http.StatusBadRequest, "bad_request", "sparql is missing")
	}
	return r, nil
}

// aliasOf returns the alias of a malformed message, "" if there is none.
func aliasOf(frame []byte) string {
	var loose struct{ Subscribe, Unsubscribe struct{ Alias any } }
	_ = json.Unmarshal(frame, &loose) // what could be read is enough
	for _, a := range []any{loose.Subscribe.Alias, loose.Unsubscribe.Alias} {
		if s, ok := a.(string); ok && len(s) <= maxAlias {
			return s
		}
	}
	return ""
}

// A refusal is an error message to the client.
type refusal struct {
	status            int
	code, description string
}

func (r *refusal) Error() string { return r.code + ": " + r.description }

func refuse(status int, code, description string) error { return &refusal{status, code, description} }

// asRefusal returns the error message for an error. ok is false for internal errors,
// which belong into the log only.
func (s *Server) asRefusal(err error) (r *refusal, ok bool) {
	if errors.As(err, &r) {
		return r, true
	}
	var p *registry.Problem
	var gap *registry.GapError
	switch {
	case errors.As(err, &gap):
		return &refusal{http.StatusGone, "gap", gap.Error() + ": subscribe again"}, true
	case errors.Is(err, notify.ErrDropped):
		return &refusal{http.StatusGone, "dropped", "the subscription was ended at the server"}, true
	case errors.As(err, &p):
		return &refusal{s.Status(p.Kind), string(p.Kind), p.Error()}, true
	case errors.Is(err, registry.ErrUnauthorized):
		return &refusal{http.StatusUnauthorized, "unauthorized", "no valid token: send authorization \"Bearer …\""}, true
	case errors.Is(err, registry.ErrGuessing):
		return &refusal{http.StatusTooManyRequests, "limit", err.Error()}, true
	case errors.Is(err, registry.ErrNotFound):
		return &refusal{http.StatusNotFound, "not_found", "no holder has the query any more"}, true
	case errors.Is(err, notify.ErrRefused):
		return &refusal{http.StatusUnprocessableEntity, "refused", err.Error()}, true
	case errors.Is(err, notify.ErrLimit):
		return &refusal{http.StatusTooManyRequests, "limit", err.Error()}, true
	}
	return &refusal{http.StatusServiceUnavailable, "unavailable", "not now; try again later"}, false
}

func (r *refusal) message(alias string) []byte {
	return marshal(struct {
		Error       string `json:"error"`
		StatusCode  int    `json:"status_code"`
		Description string `json:"error_description"`
		Alias       string `json:"alias,omitempty"`
	}{r.code, r.status, r.description, alias})
}

type notification struct {
	SPUID    string
	Alias    string
	Sequence uint64
}

func (n notification) head() []byte {
	b := []byte(`{"notification":{"spuid":`)
	b = append(b, marshal(n.SPUID)...)
	if n.Alias != "" {
		b = append(append(b, `,"alias":`...), marshal(n.Alias)...)
	}
	return append(append(append(b, `,"sequence":`...), marshal(n.Sequence)...), ',')
}

// endOfNotification ends the object after its results.
var endOfNotification = []byte("}}")

func notificationBody(added, removed []byte) []byte {
	b := append([]byte(`"addedResults":`), added...)
	return append(append(b, `,"removedResults":`...), removed...)
}

func unsubscribed(spuid string) []byte {
	return append(append([]byte(`{"unsubscribed":{"spuid":`), marshal(spuid)...), "}}"...)
}

// marshal writes strings and numbers: it cannot fail.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// results writes rows as a complete document of SPARQL 1.1 Query Results JSON.
func results(form diff.Form, vars []string, rows diff.Rows) []byte {
	if !form.Graph() {
		return diff.RowsJSON(diff.Select, vars, rows)
	}
	b := []byte(`{"head":{"vars":["subject","predicate","object"]},"results":{"bindings":[`)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		t := diff.RowTerms(form, nil, row)
		b = diff.AppendTerm(append(b, `{"subject":`...), t[0])
		b = diff.AppendTerm(append(b, `,"predicate":`...), t[1])
		b = append(diff.AppendTerm(append(b, `,"object":`...), t[2]), '}')
	}
	return append(b, "]}}"...)
}

func boolean(v bool) []byte {
	if v {
		return []byte(`{"head":{},"boolean":true}`)
	}
	return []byte(`{"head":{},"boolean":false}`)
}

func emptyResults(form diff.Form, vars []string) []byte {
	if form == diff.Ask {
		return []byte(`{"head":{},"results":{"bindings":[]}}`)
	}
	return results(form, vars, nil)
}

// changeBody encodes a change as the body of a notification. It returns nil if the
// format cannot express the change, such as a mere reorder.
func changeBody(d *diff.Delta) []byte {
	if d.Form == diff.Ask {
		switch {
		case d.Baseline:
			return notificationBody(boolean(d.Boolean), emptyResults(d.Form, nil))
		case d.Boolean == d.Previous:
			return nil
		}
		return notificationBody(boolean(d.Boolean), boolean(d.Previous))
	}
	plus, minus, before := d.Added, d.Removed, d.OldVars
	if d.Baseline {
		before = d.Vars
	}
	if d.Ordered && !d.Baseline { // a mere reorder is no change
		plus, minus = without(plus, minus), without(minus, plus)
	}
	if !d.Baseline && len(plus)+len(minus) == 0 {
		return nil
	}
	return notificationBody(results(d.Form, d.Vars, plus), results(d.Form, before, minus))
}

// without returns the rows of a bag that another bag lacks, in their order.
func without(rows, other diff.Rows) (rest diff.Rows) {
	count := make(map[string]int, len(other))
	for _, r := range other {
		count[string(r)]++
	}
	for _, r := range rows {
		if count[string(r)]--; count[string(r)] < 0 {
			rest = append(rest, r)
		}
	}
	return rest
}
