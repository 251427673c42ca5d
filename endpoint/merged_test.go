package endpoint

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

func merged() *registry.Query {
	q := sel("SELECT ?i ?a ?b ?c WHERE { VALUES (?i) { (0) (1) } ?a ?b ?c }")
	q.Merged = true
	return q
}

// The answer of a merged query keeps the labels of blank nodes and may have one column
// more than a result.
func TestMergedAnswer(t *testing.T) {
	columns := `"i","a","b","c"`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write([]byte(`{"head":{"vars":[` + columns +
			`]},"results":{"bindings":[{"i":{"type":"literal","value":"1"},"a":{"type":"bnode","value":"x77"}}]}}`))
	}))
	defer srv.Close()
	c := client(t, srv.URL, func(e *registry.Endpoint, _ *Options) { e.MaxColumns = 3 })
	a := c.Execute(t.Context(), merged(), Memory{}, long)
	if a.Outcome != registry.Changed {
		t.Fatalf("%s: %s", a.Outcome, a.Error)
	}
	if term := a.Result.Terms(0)[1]; term.Kind != diff.Blank || term.Value != "x77" {
		t.Errorf("the blank node is %+v", term)
	}
	columns += `,"d"`
	if a := c.Execute(t.Context(), merged(), Memory{}, long); a.Outcome != registry.Failed {
		t.Errorf("5 columns: %s", a.Outcome)
	}
}

// A merged request that the endpoint answers with an error says nothing about the
// endpoint's health, neither good nor bad. One that does not reach it does.
func TestMergedFailureAndHealth(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	c := client(t, srv.URL, nil)
	fail := func(q *registry.Query, n int) registry.Health {
		for range n {
			c.Execute(t.Context(), q, Memory{}, long)
		}
		return c.Health()
	}
	if h := fail(merged(), 2*failuresToRest); h.State != registry.Healthy || h.Failures != 0 {
		t.Errorf("after merged requests: %+v", h)
	}
	if h := fail(sel("S"), failuresToRest-1); h.Failures != failuresToRest-1 {
		t.Errorf("after single requests: %+v", h)
	}
	if h := fail(merged(), 1); h.Failures != failuresToRest-1 {
		t.Errorf("a merged request has changed it: %+v", h)
	}
	beside := sel("S")
	beside.Beside = true
	if h := fail(beside, 2*failuresToRest); h.Failures != failuresToRest-1 {
		t.Errorf("requests about no query have changed it: %+v", h)
	}
	srv.Close()
	if h := fail(merged(), 1); h.State != registry.HealthFailing {
		t.Errorf("the endpoint is gone: %+v", h)
	}
}
