package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/cmd/internal/server"
)

// wideAnswer returns one row of blank nodes, which is expensive to label.
func wideAnswer(nodes int) []byte {
	var vars, row bytes.Buffer
	for i := range nodes {
		fmt.Fprintf(&vars, `,"v%d"`, i)
		fmt.Fprintf(&row, `,"v%d":{"type":"bnode","value":"%d"}`, i, i)
	}
	return fmt.Appendf(nil, `{"head":{"vars":[%s]},"results":{"bindings":[{%s}]}}`, vars.Bytes()[1:], row.Bytes()[1:])
}

// A server that works on a hostile answer still stops an endpoint, and itself, within the
// documented time.
func TestHostileAnswerDoesNotHoldTheServer(t *testing.T) {
	body := wideAnswer(300_000)
	sent := make(chan struct{}, 2)
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/sparql-results+json")
		_, _ = w.Write(body)
		sent <- struct{}{}
	}))
	defer hostile.Close()
	var endpoints []string
	for _, name := range []string{"first", "second"} {
		endpoints = append(endpoints, fmt.Sprintf(`{name: %s, url: "%s", slot: never, budget: 10m, timeout: 10m, max_columns: 1000000}`,
			name, hostile.URL))
	}
	addr := clitest.FreeAddr(t)
	srv := clitest.Serve(t, binary(t), addr, t.TempDir(), "endpoints: ["+strings.Join(endpoints, ", ")+"]\n")
	town := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}}}
	for _, name := range []string{"first", "second"} {
		town.must(t, "SELECT STR(?s) {?s ?p ?o}", "query", "add", "--endpoint", name, "-") // the endpoint names the columns
		go func() {                                                                        // the response does not matter
			if r, err := http.Post(srv.Url+"/v1/endpoints/"+name+"/tick", "", nil); err == nil {
				r.Body.Close()
			}
		}()
		<-sent
	}
	within := func(what string, do func() error) {
		start := time.Now()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		// A busy machine needs more time. Without the bound it would take the time of the timeout.
		if took := time.Since(start); took > time.Minute+server.StopGrace {
			t.Errorf("%s took %s, where %s are promised", what, took, server.StopGrace)
		}
	}
	within("DELETE", func() error {
		r, err := http.NewRequest(http.MethodDelete, srv.Url+"/v1/endpoints/first", nil)
		if err != nil {
			return err
		}
		a, err := http.DefaultClient.Do(r)
		if err == nil {
			a.Body.Close()
		}
		return err
	})
	within("SIGTERM", srv.Stop)
	if srv.Err != nil {
		t.Errorf("the server ended with %v\n%s", srv.Err, srv.Stderr)
	}
}
