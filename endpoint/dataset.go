package endpoint

import (
	"net/url"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// dataset returns the parameters that name the graphs to query: those that the
// query was registered with, those of its text, or the endpoint's, never a
// mixture. If the text has FROM, nothing is sent: by the protocol the
// parameters would replace FROM, and Virtuoso uses both.
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

// namesGraphs reports whether the text has FROM or a pragma with that effect. It
// analyses only texts that may, also those where escapes hide a part of it.
func namesGraphs(text string) bool {
	lower := strings.ToLower(text)
	if !strings.Contains(lower, "from") && !strings.Contains(lower, "graph-uri") && !strings.Contains(lower, `\u`) {
		return false
	}
	a, err := sparql.Analyse(text)
	return err == nil && a.HasFrom
}
