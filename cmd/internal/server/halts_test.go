package server

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/notify/client"
)

// A follower hears when the endpoint of its query is paused and when it is resumed, also at a node that does not ask the
// endpoint, and the first one as soon as it connects.
func TestFollowersHearOfHalts(t *testing.T) {
	for _, count := range []int{1, 3} {
		_, nodes := startNodes(t, count, map[int]string{3: "n"}[count])
		at := nodes[0]
		if count > 1 {
			_, at = owned(t, nodes)
		}
		var q struct{ ID string }
		at.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, &q)
		at.call("POST", "/v1/endpoints/city/tick", nil, nil)
		at.call("POST", "/v1/endpoints/city/pause", nil, nil)
		clitest.Eventually(t, "the node knows of the pause", func() bool { return strings.Contains(at.halted.Why("city"), "paused") })
		events := make(chan client.Event, 100)
		go func() {
			_ = client.Follow(t.Context(), client.Options{Server: at.URL(), Query: q.ID}, func(e client.Event) error {
				if e.Kind == client.Snapshot || e.Kind == client.Status {
					events <- e
				}
				return nil
			})
		}()
		if e := receive(t, "the snapshot", events); e.Kind != client.Snapshot {
			t.Fatalf("%+v", e)
		}
		for _, x := range [][2]string{{"pause", "stale"}, {"resume", "live"}, {"pause", "stale"}} {
			at.call("POST", "/v1/endpoints/city/"+x[0], nil, nil)
			e := receive(t, x[0], events)
			if e.Kind != client.Status || e.Health != x[1] || strings.Contains(e.Error, "paused") != (x[0] == "pause") {
				t.Errorf("after %s: %+v", x[0], e)
			}
		}
	}
}
