//go:build virtuoso

package endpoint

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/virtuosotest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

const graph = "http://example.org/g"

// numbered makes n triples with literals of several kinds.
func numbered(n int) []string {
	var out []string
	for i := range n {
		o := []string{`"x%d"`, `"x%d"@en-GB`, `%d`, `"%d"^^<http://www.w3.org/2001/XMLSchema#string>`}[i%4]
		out = append(out, fmt.Sprintf("<http://example.org/%d> <http://example.org/p> "+o+" .", i, i))
	}
	return out
}

// on queries our graph only.
func on(t testing.TB, s *virtuosotest.Server, edit func(*registry.Endpoint)) *Client {
	return client(t, s.URL, func(e *registry.Endpoint, o *Options) {
		e.DefaultGraphURI = []string{graph}
		if edit != nil {
			edit(e)
		}
	})
}

func TestVirtuosoResults(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	s.Insert(graph, numbered(20)...)
	c := on(t, s, nil)

	t.Run("typed-literal and strings", func(t *testing.T) {
		a := execute(t, c, sel("SELECT ?o { <http://example.org/2> ?p ?o }"))
		want(t, a, registry.Changed)
		const doc = `{"head":{"vars":["o"]},"results":{"bindings":[{"o":{"type":"literal","value":"2",` +
			`"datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}`
		if got := string(a.Result.Document()); got != doc {
			t.Errorf("%s, want %s", got, doc)
		}
		if a = execute(t, c, sel("SELECT ?o { <http://example.org/3> ?p ?o }")); strings.Contains(string(a.Result.Document()),
			"XMLSchema#string") {
			t.Errorf("%s", a.Result.Document())
		}
	})
	t.Run("every form, empty and not", func(t *testing.T) {
		for _, c2 := range []struct {
			q *registry.Query
			n int
		}{
			{query(diff.Ask, "ASK {?s ?p ?o}", -1), 0},
			{query(diff.Select, "SELECT * {?s <http://none> ?o}", -1), 0},
			{query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o}", -1), 20},
			{query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s <http://none> ?o}", -1), 0}, // "# Empty NT"
			{query(diff.Describe, "DESCRIBE <http://example.org/1>", -1), 1},
		} {
			a := execute(t, c, c2.q)
			want(t, a, registry.Changed)
			if a.Result.Len() != c2.n {
				t.Errorf("%s: %d rows, want %d", c2.q.Text, a.Result.Len(), c2.n)
			}
		}
	})
	t.Run("all formats agree", func(t *testing.T) {
		rowsOf := func(accept, text string, form diff.Form) string {
			t.Helper()
			return string(fetchAs(t, on(t, s, nil), accept, query(form, text, -1)).Document())
		}
		const q = "SELECT * {?s ?p ?o OPTIONAL {?s <http://none> ?n}}"
		if j, x := rowsOf(typeJSON, q, diff.Select), rowsOf(typeXML, q, diff.Select); j != x {
			t.Errorf("JSON %s\nXML %s", j, x)
		}
		const g = "CONSTRUCT {?s <http://x> ?o} {?s <http://example.org/p> ?o}"
		nt := rowsOf(typeNT, g, diff.Construct)
		if got := rowsOf("text/turtle", g, diff.Construct); got != nt {
			t.Errorf("Turtle %s\nN-Triples %s", got, nt)
		}
	})
	t.Run("the order of triples does not matter", func(t *testing.T) {
		// Two formulations of one graph, which it sends in two orders.
		up := execute(t, c, query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o} ORDER BY ?s", -1))
		down := execute(t, c, query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o} ORDER BY DESC(?s)", -1))
		if up.Outcome != registry.Changed || down.Outcome != registry.Changed || up.Result.Hash() != down.Result.Hash() {
			t.Errorf("%+v\n%+v", up, down)
		}
	})
	t.Run("fresh blank nodes in each run are no change", func(t *testing.T) {
		q := query(diff.Construct, "CONSTRUCT {?s <http://x> [<http://y> ?o ; <http://z> [<http://w> ?s]]} {?s ?p ?o}", -1)
		first := execute(t, c, q)
		want(t, first, registry.Changed)
		for range 5 {
			a := c.Execute(t.Context(), q, first.Memory, long)
			if !a.Outcome.Complete() || a.Result != nil && a.Result.Hash() != first.Result.Hash() {
				t.Fatalf("%+v", a)
			}
		}
	})
	t.Run("default graph", func(t *testing.T) {
		q := sel("SELECT (COUNT(*) AS ?n) {?s ?p ?o}")
		ours := execute(t, c, q)
		all := execute(t, client(t, s.URL, nil), q)
		want(t, ours, registry.Changed)
		want(t, all, registry.Changed)
		if got := ours.Result.Terms(0)[0].Value; got != "20" {
			t.Errorf("%s triples in our graph, want 20", got)
		}
		if ours.Result.Hash() == all.Result.Hash() {
			t.Error("the union of all graphs has no system triples")
		}
	})
	t.Run("FROM means those graphs alone", func(t *testing.T) {
		s.Insert("http://example.org/other", `<http://example.org/x> <http://example.org/p> "x" .`)
		for _, text := range []string{
			"SELECT (COUNT(*) AS ?n) FROM <http://example.org/other> {?s ?p ?o}",
			"DEFINE input:default-graph-uri <http://example.org/other> SELECT (COUNT(*) AS ?n) {?s ?p ?o}",
		} {
			a := execute(t, c, sel(text))
			want(t, a, registry.Changed)
			if got := a.Result.Terms(0)[0].Value; got != "1" {
				t.Errorf("%s: %s triples, want the one in the graph that the query names", text, got)
			}
		}
	})
	t.Run("a change is seen and nothing else", func(t *testing.T) {
		q := sel("SELECT * {?s <http://example.org/p> ?o}")
		first := execute(t, c, q)
		want(t, c.Execute(t.Context(), q, first.Memory, long), registry.Unchanged)
		s.Insert(graph, `<http://example.org/new> <http://example.org/p> "n" .`)
		a := c.Execute(t.Context(), q, first.Memory, long)
		want(t, a, registry.Changed)
		if a.Result.Len() != 21 {
			t.Errorf("%d rows", a.Result.Len())
		}
	})
	t.Run("syntax error", func(t *testing.T) {
		want(t, execute(t, c, sel("SELECT nonsense")), registry.Rejected, "Virtuoso 37000 Error SP030")
	})
	t.Run("more to sort than it will", func(t *testing.T) {
		want(t, execute(t, c, query(diff.Select, "SELECT ?s {?s ?p ?o} ORDER BY ?s LIMIT 10 OFFSET 20000", 10)), registry.Rejected,
			"Virtuoso 22023 Error SR353")
		if h := c.Health(); h.Failures != 0 {
			t.Errorf("one query's trouble is taken for the endpoint's: %+v", h)
		}
	})
	t.Run("html with status 200", func(t *testing.T) {
		// This is its output for people, as received through a proxy that drops Accept.
		q := sel("SELECT * {?s ?p ?o}")
		r, err := c.newRequest(q, long)
		if err != nil {
			t.Fatal(err)
		}
		r.template.Header.Set("Accept", "text/html")
		x, err := c.exchange(clockIn(t.Context(), long, long), r, Memory{})
		if err != nil || x.status != 200 || !strings.Contains(x.buf.String(), "<html") && !strings.Contains(x.buf.String(), "<table") {
			t.Fatalf("no page: %v %d %s", err, x.status, x.buf.String())
		}
		clock := clockIn(t.Context(), long, long)
		defer clock.cancel()
		v := c.judge(x, err, q, r, Memory{}, clock)
		want(t, v.Answer, registry.Partial, "text/html")
	})
	t.Run("the hang that we never meet", func(t *testing.T) {
		hc := &http.Client{Timeout: 1500 * time.Millisecond}
		defer hc.CloseIdleConnections()
		if r, err := hc.Post(s.URL, "application/sparql-query", strings.NewReader("ASK {}")); err == nil {
			r.Body.Close()
			t.Logf("this Virtuoso answers %s to application/sparql-query", r.Status)
		}
		long := query(diff.Ask, "ASK {} #"+strings.Repeat("x", longestGET), -1)
		want(t, execute(t, c, long), registry.Changed) // as a form
	})
}

// A text that is accepted as a query changes nothing, in any spelling.
func TestVirtuosoWritesNothing(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	const update = "INSERT DATA { GRAPH <" + graph + "> { <http://x/a> <http://x/b> <http://x/c> } }"
	s.Update("# This is how we may write.\n" + update)
	s.Update("CLEAR GRAPH <" + graph + ">")
	c := client(t, s.URL, nil)
	sent := 0
	for _, end := range []string{"\r", "\r\r", "\f", "\v", "\u0085", "\u2028", "\\u000A", "\r\n", "\n"} {
		for _, text := range []string{
			"#" + end + "ASK { ?s ?p '''\n" + update + "\n#'''}",
			"ASK {} #" + end + update,
			"#" + end + update + "\nASK {}",
			"ASK { ?s ?p ( 1 <a&&'> ) } #'" + end + update + "\n)}",
		} {
			if _, err := sparql.Analyse(text); err == nil {
				sent++
				execute(t, c, query(diff.Ask, text, -1))
			}
		}
	}
	a := execute(t, c, query(diff.Ask, "ASK { GRAPH <"+graph+"> { ?s ?p ?o } }", -1))
	if want(t, a, registry.Changed); a.Result.Boolean() || sent < 5 {
		t.Errorf("written: %t, by one of %d texts", a.Result.Boolean(), sent)
	}
}

func get(t testing.TB, addr string) *http.Response {
	t.Helper()
	hc := &http.Client{Timeout: time.Minute}
	t.Cleanup(hc.CloseIdleConnections)
	r, err := hc.Get(addr)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r
}

func TestVirtuosoCaps(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{MaxRows: 10})
	s.Insert(graph, numbered(30)...)
	plain := on(t, s, nil)
	capped := on(t, s, func(e *registry.Endpoint) { e.MaxRows = 10 })

	t.Run("SELECT says so in a header", func(t *testing.T) {
		want(t, execute(t, plain, query(diff.Select, "SELECT * {?s ?p ?o}", -1)), registry.Partial, "10")
		want(t, execute(t, plain, query(diff.Select, "SELECT * {?s ?p ?o} LIMIT 20", 20)), registry.Partial, "10")
		a := execute(t, plain, query(diff.Select, "SELECT * {?s ?p ?o} LIMIT 10", 10))
		want(t, a, registry.Changed)
		if a.Result.Len() != 10 {
			t.Errorf("%d rows", a.Result.Len())
		}
		want(t, execute(t, plain, query(diff.Select, "SELECT * {?s ?p ?o} LIMIT 9", 9)), registry.Changed)
	})
	t.Run("CONSTRUCT has one triple more and says nothing", func(t *testing.T) {
		q := query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o}", -1)
		want(t, execute(t, plain, q), registry.Partial, "11", "10") // as SELECT reported
		a := execute(t, on(t, s, nil), q)
		want(t, a, registry.Changed) // unknowable without max_rows
		if a.Result.Len() != 11 {
			t.Errorf("%d triples, want 11", a.Result.Len())
		}
		want(t, execute(t, capped, q), registry.Partial, "11", "10")
		want(t, execute(t, capped, query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o} LIMIT 10", 10)), registry.Changed)
		// 9 solutions of 2 triples are 18, of which 11 arrive: LIMIT does not explain
		// it.
		two := query(diff.Construct, "CONSTRUCT {?s <http://x> ?o; <http://y> ?o} {?s ?p ?o} LIMIT 9", 9)
		want(t, execute(t, capped, two), registry.Partial, "11")
		want(t, execute(t, capped, query(diff.Describe, "DESCRIBE ?s {?s ?p ?o}", -1)), registry.Partial)
	})
}

// The default cap of Virtuoso is recognised in graphs without any setting.
func TestVirtuosoUsualCap(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{MaxRows: usualCap})
	s.Insert(graph, numbered(usualCap+50)...)
	c := on(t, s, nil)
	want(t, execute(t, c, query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o}", -1)), registry.Partial, "10001", "max_rows")
	want(t, execute(t, c, query(diff.Construct, "CONSTRUCT {?s <http://x> ?o} {?s ?p ?o} LIMIT 10000", 10000)), registry.Changed)
}

func TestVirtuosoLimits(t *testing.T) {
	const heavy = "SELECT (COUNT(*) AS ?n) {?a ?p ?b. ?c ?q ?d. ?e ?r ?f. FILTER(?b != ?d && ?d != ?f)}"
	t.Run("cost estimate", func(t *testing.T) {
		s := virtuosotest.Start(t, virtuosotest.Options{MaxEstimate: 1})
		c := client(t, s.URL, nil)
		want(t, execute(t, c, sel(heavy)), registry.Rejected, "Virtuoso 42000", "estimated execution time")
		if h := c.Health(); h.Failures != 0 {
			t.Errorf("%+v", h)
		}
	})
	t.Run("anytime", func(t *testing.T) {
		s := virtuosotest.Start(t, virtuosotest.Options{MaxEstimate: 1 << 30})
		c := client(t, s.URL, func(e *registry.Endpoint, o *Options) { e.TimeoutParam = "timeout" })
		r := get(t, s.URL+"?"+url.Values{"query": {heavy}, "timeout": {"1500"}, "format": {typeJSON}}.Encode())
		if r.StatusCode != 200 || r.Header.Get("X-SQL-State") != "S1TAT" {
			t.Fatalf("%s %v: an anytime answer was expected", r.Status, r.Header)
		}
		// The time limit that we send ends the query at the endpoint shortly before or
		// after our own does. Neither may produce a result.
		a := c.Execute(t.Context(), sel(heavy), Memory{}, 1500*time.Millisecond)
		if a.Outcome != registry.Partial && a.Outcome != registry.Cut {
			t.Errorf("%+v", a)
		}
		generous := client(t, s.URL+"?timeout=1500", nil)
		want(t, execute(t, generous, sel(heavy)), registry.Partial, "S1TAT")
		// An execution that is cut short answers false or an empty result, as if that were true.
		const endless = "{?a ?p ?b. ?c ?q ?d. ?e ?r ?f. FILTER(CONCAT(STR(?b), STR(?d), STR(?f)) = 'none')}"
		for _, q := range []*registry.Query{
			query(diff.Ask, "ASK "+endless, -1),
			query(diff.Select, "SELECT * "+endless, -1),
			query(diff.Select, "SELECT DISTINCT ?a "+endless+" ORDER BY ?a LIMIT 5", 5),
			query(diff.Construct, "CONSTRUCT {?a <http://x> ?b} "+endless, -1),
			query(diff.Describe, "DESCRIBE ?a "+endless, -1),
		} {
			want(t, execute(t, generous, q), registry.Partial, "S1TAT")
		}
	})
}

// A check finds Virtuoso's row cap and its parameter for a time limit.
func TestVirtuosoCheck(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{MaxRows: 200})
	s.Insert(graph, numbered(500)...)
	r, bad, settings := checked(t, registry.Endpoint{URL: s.URL, DefaultGraphURI: []string{graph}})
	delete(bad, "conditional requests")
	if len(bad) != 1 || bad["no row cap"] == "" || settings["max_rows"] != 200 || settings["timeout_param"] != "timeout" ||
		settings["merge"] != nil {
		t.Errorf("bad: %v, settings: %v\n%+v", bad, settings, r.Findings)
	}
}
