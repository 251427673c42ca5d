package web

import (
	"errors"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A node of a cluster that finds nothing looks again once it has the newest state, and answers 503 if it cannot
// get it. Other answers wait for nothing.
func TestDenialsAreCertain(t *testing.T) {
	var caught int
	var then func() error
	w := newWorld(t, func(c *Config) {
		c.CatchUp = func() error {
			caught++
			return then()
		}
	})
	id := w.register(selectText)
	other := w.register(askText, `"name": "other"`)
	stored := w.m.queries[other]
	lacks := func() error { return nil }
	gets := func() error { // what another node has stored
		w.m.queries[other] = stored
		return nil
	}
	alone := func() error { return &registry.Problem{Kind: registry.KindUnavailable, RetryAfter: time.Second} }
	for _, x := range []struct {
		name, method, path string
		then               func() error
		status, caught     int
	}{
		{"it is there", "GET", "/v1/queries/" + id, lacks, 200, 0},
		{"it is nowhere", "GET", "/v1/queries/q_none", lacks, 404, 1},
		{"it was elsewhere", "GET", "/v1/queries/" + other, gets, 200, 1},
		{"by a name", "GET", "/v1/queries/other", gets, 200, 1},
		{"it cannot be known", "GET", "/v1/queries/" + other, alone, 503, 1},
		{"a result", "GET", "/v1/queries/" + id + "/results.srj", alone, 503, 1},
		{"a change without a body", "POST", "/v1/queries/" + other + "/pause", gets, 200, 1},
		{"a change that cannot be known", "DELETE", "/v1/queries/" + other, alone, 503, 1},
		{"a page for everybody", "GET", "/problems/nothing", alone, 404, 0},
		{"a path of nothing", "GET", "/v1/nothing", alone, 404, 0},
	} {
		delete(w.m.queries, other)
		caught, then = 0, x.then
		if a := w.do(x.method, x.path, ""); a.StatusCode != x.status || caught != x.caught {
			t.Errorf("%s: %d after %d looks at the newest state, want %d after %d: %s", x.name, a.StatusCode, caught, x.status, x.caught, a.body)
		}
	}
	delete(w.m.queries, other)
	caught, then = 0, func() error { return errors.Join(gets(), alone()) }
	w.do("PATCH", "/v1/queries/"+other, `{"weight": 2}`, "Content-Type: application/merge-patch+json").status(503)
	caught, then = 0, lacks
	if w.do("PATCH", "/v1/queries/q_none", `{"weight": 2}`, "Content-Type: application/merge-patch+json").status(404); caught != 1 {
		t.Errorf("an edit looked %d times at the newest state", caught)
	}
}
