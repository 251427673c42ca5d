package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry/feed"
)

// What a feed was told is stored: a query whose answer was too early is asked again, also if the server ends.
func TestDeltasOutliveTheServer(t *testing.T) {
	for _, name := range []string{"", "n"} {
		t.Run(name, func(t *testing.T) {
			s, nodes := startNodes(t, 1, name, func(n *node) {
				n.conf = func(c *config.Config) { c.Feeds = []feed.Definition{{Name: "sent", Kind: feed.Deltas}} }
			})
			n := nodes[0]
			var city struct{ URL string }
			n.call("GET", "/v1/endpoints/city", nil, &city)
			s.value.Store(1)
			town := map[string]any{"name": "town", "url": city.URL, "slot": "@every 1h", "budget": "1m", "feed": "sent", "lag": "5s",
				"position": "SELECT ?n { ?d <http://x/next> ?n }"}
			body, err := json.Marshal(town)
			if err != nil {
				t.Fatal(err)
			}
			if a := n.ask("POST", "/v1/endpoints", string(body)); a.status/100 != 4 ||
				!strings.Contains(a.body, "leave position out") || strings.Count(a.body, "position:") > 1 {
				t.Errorf("a position where there are none: %+v", a)
			}
			delete(town, "position")
			n.call("POST", "/v1/endpoints", town, nil)
			var q struct{ ID string }
			n.call("POST", "/v1/queries", map[string]string{"endpoint": "town", "query": "SELECT ?n { <http://x/a> <http://x/n> ?n }"}, &q)
			await(t, "a slot runs", func() error {
				if a := n.ask("POST", "/v1/endpoints/town/tick", ""); a.status != http.StatusOK {
					return errors.New(a.body)
				}
				return nil
			})
			message := strings.ReplaceAll(`[{'inserts': [{'subject': {'type': 'uri', 'value': 'http://x/a'},
				'predicate': {'type': 'uri', 'value': 'http://x/n'}, 'object': {'type': 'literal', 'value': '2'}}]}]`, "'", `"`)
			if a := n.ask("POST", "/v1/feeds/sent", message); a.status != http.StatusAccepted {
				t.Fatal(a)
			}
			await(t, "it is asked too early", func() error {
				var r struct{ Executions int }
				if n.call("GET", "/v1/queries/"+q.ID, nil, &r); r.Executions < 2 {
					return fmt.Errorf("%+v", r)
				}
				return nil
			})
			n.stop()
			s.value.Store(2)
			n.start()
			await(t, "the change is found", func() error {
				var r struct{ Changes int }
				if n.call("GET", "/v1/queries/"+q.ID, nil, &r); r.Changes < 1 {
					return fmt.Errorf("%+v", r)
				}
				return nil
			})
			await(t, "the delay of the endpoint is learnt", func() error {
				var f feed.Status
				if n.call("GET", "/v1/feeds/sent", nil, &f); f.EndpointLags["town"] <= 0 {
					return fmt.Errorf("%+v", f)
				}
				return nil
			})
			var list struct{ Feeds []feed.Status }
			if n.call("GET", "/v1/feeds", nil, &list); len(list.Feeds) != 1 || list.Feeds[0].Events != 1 || list.Feeds[0].Matched != 1 {
				t.Errorf("%+v", list)
			}
		})
	}
}
