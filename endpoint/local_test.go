package endpoint

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/localtest"
	"github.com/freshet/freshet/registry"
)

const someData = `<http://e/a> <http://e/p> "x\n\"y\" <&>"@en-GB .
<http://e/a> <http://e/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/a> <http://e/p> "1.50"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<http://e/a> <http://e/p> "true"^^<http://www.w3.org/2001/XMLSchema#boolean> .
<http://e/ü> <http://e/p#q> _:b0 .
_:b0 <http://e/p> _:b1 .
_:b1 <http://e/p> _:b0 .
_:b1 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T> .
<http://e/b.c> <http://e/p> "" .
`

// embedded serves the embedded engine with someData.
func embedded(t testing.TB) (*local.Engine, string) {
	t.Helper()
	e := localtest.Open(t)
	if err := e.Load(t.Context(), strings.NewReader(someData), "nt"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(local.Handler(e, local.HandlerOptions{}))
	t.Cleanup(s.Close)
	return e, s.URL + "/sparql"
}

// The engine writes every format that we read, with the same content.
func TestEmbeddedEngine(t *testing.T) {
	engine, addr := embedded(t)
	c := client(t, addr, nil)
	t.Run("formats agree", func(t *testing.T) {
		for _, q := range []*registry.Query{
			query(diff.Select, "SELECT * {?s ?p ?o OPTIONAL {?s <http://e/none> ?n}}", -1),
			query(diff.Select, "SELECT ?s ?n {?s ?p ?o BIND(STRLEN(STR(?o)) AS ?n)} ORDER BY ?n ?s", -1),
			query(diff.Ask, "ASK {?s <http://e/p> 1}", -1),
			query(diff.Ask, "ASK {?s <http://e/none> 1}", -1),
			query(diff.Construct, "CONSTRUCT WHERE {?s ?p ?o}", -1),
			query(diff.Construct, "CONSTRUCT WHERE {?s <http://e/none> ?o}", -1),
			query(diff.Describe, "DESCRIBE <http://e/ü>", -1),
		} {
			formats := []string{typeJSON, typeXML}
			if q.Form.Graph() {
				formats = []string{typeNT, "text/turtle"}
			}
			want := execute(t, c, q)
			if want.Outcome != registry.Changed {
				t.Fatalf("%s: %+v", q.Text, want)
			}
			for _, f := range formats {
				if got := fetchAs(t, c, f, q); got.Hash() != want.Result.Hash() {
					t.Errorf("%s as %s:\n%s\nwant\n%s", q.Text, f, got.Document(), want.Result.Document())
				}
			}
		}
	})
	t.Run("changes and nothing else", func(t *testing.T) {
		q := query(diff.Construct, "CONSTRUCT {?s <http://x> [<http://y> ?o]} {?s <http://e/p> ?o}", -1)
		first := execute(t, c, q)
		want(t, first, registry.Changed)
		a := c.Execute(t.Context(), q, first.Memory, long)
		if !a.Outcome.Complete() || a.Result != nil && a.Result.Hash() != first.Result.Hash() {
			t.Errorf("%+v", a)
		}
		if err := engine.Update(t.Context(), `INSERT DATA {<http://e/new> <http://e/p> 1}`); err != nil {
			t.Fatal(err)
		}
		a = c.Execute(t.Context(), q, first.Memory, long)
		want(t, a, registry.Changed)
		if a.Result.Len() != first.Result.Len()+2 {
			t.Errorf("%d triples after %d", a.Result.Len(), first.Result.Len())
		}
	})
	t.Run("syntax error", func(t *testing.T) {
		want(t, execute(t, c, sel("SELECT nonsense")), registry.Rejected, "400")
	})
}
