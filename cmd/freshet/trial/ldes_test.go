// This file tests results as Linked Data Event Streams with a client of others.

package trial

import (
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ldes-client has the result, byte by byte, in order or not, after a restart of its own and while the server is killed.
func TestLDESClient(t *testing.T) {
	needModules(t, "ldes-client")
	t.Parallel()
	s := newTestServer(t, "")
	queries := map[string]string{
		"rows":      "SELECT (SUBSTR(?x, 2) AS ?n) { ?s <http://x/n> ?x }",
		"keyed":     "SELECT ?s ?n { ?s <http://x/n> ?n }",
		"construct": "CONSTRUCT { ?s <http://x/m> [ <http://x/k> ?n ] } WHERE { ?s <http://x/n> ?n }",
	}
	for name, text := range queries {
		s.must(t, text, "query", "add", "--name", name, "--public", "-")
	}
	s.must(t, "", "endpoint", "tick", "city")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	folders := map[string]string{}
	follow := func(name, ordered string, until int) *exec.Cmd {
		stream := s.srv.Url + "/v1/queries/" + s.queryID(name) + "/ldes"
		if name == "keyed" {
			stream += "?key=s"
		}
		if folders[name+ordered] == "" {
			folders[name+ordered] = t.TempDir()
		}
		cmd := exec.CommandContext(ctx, "node", "driver/ldes.js", stream, ordered, folders[name+ordered], strconv.Itoa(until))
		cmd.Dir = jsClient
		return cmd
	}
	all := func(until int, meanwhile func()) {
		t.Helper()
		type run struct {
			cmd  *exec.Cmd
			said *strings.Builder
		}
		runs := map[string]run{}
		for name := range queries {
			for _, ordered := range []string{"none", "ascending"} {
				until := until
				if name == "rows" && until == 5 {
					until = 4 // one of its rows went as another came
				}
				r := run{follow(name, ordered, until), &strings.Builder{}}
				r.cmd.Stdout, r.cmd.Stderr = r.said, r.said
				if err := r.cmd.Start(); err != nil {
					t.Fatal(err)
				}
				runs[name+" "+ordered] = r
			}
		}
		meanwhile()
		for name, r := range runs {
			if err := r.cmd.Wait(); err != nil || !strings.Contains(r.said.String(), "equal after change ") {
				t.Errorf("%s until change %d: %v\n%s", name, until, err, r.said)
			}
		}
	}
	s.step(1)
	all(2, func() {})
	s.step(2)
	s.Update(t, "DELETE WHERE { <http://x/1> ?p ?o }")
	s.step(3)
	all(5, func() {
		s.crash()
		s.step(4)
	})
	answer, err := http.Get(s.srv.Url + "/v1/queries/" + s.queryID("keyed") + "/changes.rdfp")
	if err != nil || answer.StatusCode != http.StatusNotAcceptable {
		t.Errorf("a patch of rows: %v %v", answer, err)
	}
}

// queryID returns the id of a query.
func (s *testServer) queryID(name string) string {
	var q struct{ ID string }
	s.fetch("/v1/queries/"+name, &q)
	return q.ID
}
