package endpoint

import (
	"net/url"
	"regexp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// dataset gives the parameters that name the graphs to ask. They are those that
// the query was registered with, or those of its text, or the endpoint's, never
// a mixture: beside FROM nothing is sent, since by the protocol the parameters
// would replace what the text says, and Virtuoso asks both.
func (c *Client) dataset(q *registry.Query) url.Values {
	plain, named := q.DefaultGraphs, q.NamedGraphs
	if len(plain) == 0 && len(named) == 0 && !namesGraphs(q.Text) {
		plain, named = c.settings.DefaultGraphURI, c.settings.NamedGraphURI
	}
	v := url.Values{}
	if len(plain) > 0 {
		v["default-graph-uri"] = plain
	}
	if len(named) > 0 {
		v["named-graph-uri"] = named
	}
	return v
}

// mayNameGraphs lets pass, cheaply, every text that can hold FROM or a pragma
// for it, also where a part of it is written as an escape.
var mayNameGraphs = regexp.MustCompile(`(?i)from|graph-uri|\\u`)

func namesGraphs(text string) bool {
	if !mayNameGraphs.MatchString(text) {
		return false
	}
	a, err := sparql.Analyse(text)
	return err == nil && a.HasFrom
}
