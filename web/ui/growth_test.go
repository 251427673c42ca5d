package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/diff/growth"
)

// page renders a page on the caller's goroutine, which the test measures.
func (r *rig) page(path string) func() {
	return func() {
		q := httptest.NewRequest(http.MethodGet, path, nil)
		q.Host = r.server.Listener.Addr().String()
		a := httptest.NewRecorder()
		r.server.Config.Handler.ServeHTTP(a, q)
		if a.Code != http.StatusOK {
			r.t.Errorf("GET %s: status %d", path, a.Code)
		}
	}
}

// longTable returns n rows with short text in each.
func longTable(t *testing.T, n int, value string) *diff.Result {
	t.Helper()
	rows := make([][2]diff.Term, n)
	for i := range rows {
		rows[i] = [2]diff.Term{iri(fmt.Sprintf("s%d", i)), {Kind: diff.Literal, Value: value}}
	}
	return table(t, rows...)
}

// The cost of a page grows at most linearly with its content: rows and columns of a
// result, of a change, of a difference; queries of a list.
func TestLongPagesAreNotQuadratic(t *testing.T) {
	for _, shape := range []struct {
		name  string
		least int
		make  func(t *testing.T, n int, value string) *diff.Result
	}{
		{"rows", 1000, longTable},
		{"columns", 500, func(t *testing.T, n int, value string) *diff.Result { return wideTable(t, n, value) }},
	} {
		inputs := map[string][]growth.Input{} // by page; the pages share their servers
		growth.Sizes(shape.least, func(n int) growth.Input {
			r := newRig(t)
			q := r.history("large", shape.make(t, n, "one"), shape.make(t, n, "two"))
			for _, what := range []string{"", "/changes/2", "?a=1&b=2"} {
				inputs[what] = append(inputs[what], growth.Input{Size: n, Work: r.page(queryPath(q.ID) + what)})
			}
			return growth.Input{}
		})
		for what, list := range inputs {
			t.Run(shape.name+what, func(t *testing.T) { growth.Check(t, list...) })
		}
	}
	t.Run("queries", func(t *testing.T) {
		growth.Check(t, growth.Sizes(100, func(n int) growth.Input {
			r := newRig(t)
			r.endpoint("city")
			for i := range n {
				r.register("city", fmt.Sprintf("query-%d", i), fmt.Sprintf("ASK { <http://example.org/%d> ?p ?o }", i))
			}
			list, overview, endpoint := r.page("/queries"), r.page("/"), r.page("/endpoints/city")
			return growth.Input{Size: n, Work: func() { list(); overview(); endpoint() }}
		})...)
	})
}
