package server

import (
	"testing"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
)

// A new query starts with what the pack at its endpoint's URL says about its template. Another endpoint's does not, also
// if it has the name of the pack.
func TestKnownRates(t *testing.T) {
	_, nodes := startNodes(t, 1, "", func(n *node) { n.conf = func(c *config.Config) { c.Contact = "mailto:ops@example.org" } })
	n := nodes[0]
	for name, url := range map[string]string{"coins": "http://nomisma.org/query", "nomisma": "http://127.0.0.1:1/query"} {
		n.call("POST", "/v1/endpoints", map[string]any{"name": name, "url": url, "slot": "never"}, nil)
		q, _, err := n.Registry.Register(registry.Caller{Name: "a", Role: registry.RoleApp},
			registry.Registration{Endpoint: name, Text: "SELECT ?p ?o WHERE { <http://nomisma.org/id/ephesus> ?p ?o }"})
		if err != nil {
			t.Fatal(err)
		}
		if l := q.Learnt; (l != nil) != (name == "coins") || l != nil && (l.Changes != 25 || l.Source == "") {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
