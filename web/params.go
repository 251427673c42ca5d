package web

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/registry"
)

// Params are the parameters of a request. The first one that cannot be parsed is recorded
// in err, so that a handler checks several at once.
type params struct {
	url.Values
	err error
}

// lists are the fields of a registration whose parameter may be repeated.
var lists = []string{"tags", "default_graph_uri", "default-graph-uri", "named_graph_uri", "named-graph-uri"}

// repeatable lists the parameters that may occur more than once.
var repeatable = append([]string{"vars", "where", "query", "label", "setting"}, lists...)

// names returns the parameters that the call of a route may have. any means that the
// handler looks at them itself.
func (rt route) names() (names []string, any bool) {
	protocol := rt.path == "/v1/live" || rt.path == "/v1/hub" || !strings.HasPrefix(rt.path, "/v1/")
	text := rt.method == http.MethodPost && (rt.path == "/v1/queries" || rt.path == "/v1/queries/validate") // see registration
	return strings.Fields(rt.takes), rt.takes == "" && protocol || text
}

// known returns a problem for a parameter that the route does not have.
func (p *params) known(rt route) error {
	names, any := rt.names()
	if any {
		return nil
	}
	return p.among(names, "")
}

// among returns a problem for a parameter that is none of those named.
func (p *params) among(names []string, where string) error {
	for name := range p.Values {
		if slices.Contains(names, name) {
			continue
		}
		said := "there is no parameter of this name" + where
		switch near := registry.Nearest(name, names); {
		case near != "":
			said += ", did you mean " + near + "?"
		case len(names) > 0:
			said += "; there are " + strings.Join(names, ", ")
		}
		return malformed(pointer(jsontext.Pointer("?"+name)), "%s", said)
	}
	return nil
}

func (p *params) bad(name, format string, a ...any) {
	if p.err == nil {
		p.err = malformed("?"+name, format, a...)
	}
}

// limit parses ?limit=, between 1 and most.
func (p *params) limit(usual, most int) int {
	s := p.Get("limit")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		p.bad("limit", "limit lies between 1 and %d", most)
	}
	return n
}

// cursorForm is the syntax of the ids by which lists are sorted.
var cursorForm = regexp.MustCompile("^[a-z]+_[0-9a-z]{15,80}$")

// cursor parses ?cursor= of a list of ids that begin with prefix.
func (p *params) cursor(prefix string) string {
	s := p.Get("cursor")
	if s != "" && !(strings.HasPrefix(s, prefix) && cursorForm.MatchString(s)) {
		p.bad("cursor", "a cursor is what next of the page before says")
	}
	return s
}

// flag parses a parameter that is 0 or 1.
func (p *params) flag(name string) bool {
	switch p.Get(name) {
	case "", "0", "false":
		return false
	case "1", "true":
		return true
	}
	p.bad(name, "%s is 0 or 1", name)
	return false
}

// position parses ?after=; given is false if it is absent.
func (p *params) position() (at registry.Position, given bool) {
	s := p.Get("after")
	if s == "" {
		return at, false
	}
	at, err := registry.ParsePosition(s)
	if err != nil {
		p.bad("after", "after is a position of the form epoch:number")
	}
	return at, true
}

func (p *params) filter() registry.QueryFilter {
	f := registry.QueryFilter{Endpoint: p.Get("endpoint"), State: registry.State(p.Get("state")), Tag: p.Get("tag"), Text: p.Get("q")}
	if f.State != "" && !slices.Contains(registry.States(), f.State) {
		p.bad("state", "state is new, live, stale, failing, paused or idle")
	}
	return f
}

func parseTime(s string) (*time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	return &t, err
}
