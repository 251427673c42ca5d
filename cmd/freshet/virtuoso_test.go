//go:build virtuoso

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/endpoint/virtuosotest"
)

const graph = "http://example.org/g"

// onVirtuoso starts a server over a Virtuoso with a low row cap.
func onVirtuoso(t *testing.T, settings string) (town, *virtuosotest.Server) {
	t.Helper()
	v := virtuosotest.Start(t, virtuosotest.Options{MaxRows: 50})
	srv := clitest.Serve(t, binary(t), clitest.FreeAddr(t), t.TempDir(), "endpoints: [{name: city, url: \""+v.URL+
		"\", slot: never, policy: rr, budget: 2m, default_graph_uri: [\""+graph+"\"]"+settings+"}]\n")
	return town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}, Endpoint: v.URL}}, v
}

type seen struct {
	State   string `json:"state"`
	Outcome string `json:"outcome"`
	Seq     int    `json:"seq"`
	Rows    int    `json:"rows"`
	Changes int    `json:"changes"`
	Hash    string `json:"hash"`
}

func (w town) look(t *testing.T, query string) seen {
	t.Helper()
	var s seen
	if err := json.Unmarshal([]byte(w.must(t, "", "query", "show", query, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The test registers, changes data by update, and receives. The engine's habits cause no change:
// fresh blank nodes, unstable order, typed literals, and its own graphs in the default graph.
func TestVirtuosoEndToEnd(t *testing.T) {
	w, v := onVirtuoso(t, "")
	v.Insert(graph, statements(0, 20)...)
	for name, text := range map[string]string{
		"rows":   "SELECT ?s ?n { ?s <http://example.org/n> ?n }",
		"any":    "ASK { <http://example.org/7> ?p ?o }",
		"all":    "CONSTRUCT { ?s <http://example.org/m> ?n } WHERE { ?s <http://example.org/n> ?n }",
		"blank":  "CONSTRUCT { ?s <http://example.org/has> [ <http://example.org/v> ?n ] } WHERE { ?s <http://example.org/n> ?n }",
		"about":  "DESCRIBE <http://example.org/7>",
		"number": "SELECT (COUNT(*) AS ?c) (SUM(?n) AS ?sum) { ?s <http://example.org/n> ?n }",
	} {
		w.must(t, text, "query", "add", "--name", name, "-")
	}
	for range 4 {
		w.must(t, "", "endpoint", "tick", "city")
	}
	for _, name := range []string{"rows", "any", "all", "blank", "about", "number"} {
		if s := w.look(t, name); s.State != "live" || s.Seq != 1 || s.Changes != 0 {
			t.Errorf("%s after four executions of the same data: %+v, want live at seq 1", name, s)
		}
	}
	v.Update(fmt.Sprintf("DELETE DATA { GRAPH <%s> { %s } }", graph, statements(7, 8)[0]))
	v.Insert(graph, statements(20, 21)...)
	w.must(t, "", "endpoint", "tick", "city")
	for name, rows := range map[string]int{"rows": 20, "all": 20, "blank": 40, "number": 1, "about": 0} {
		if s := w.look(t, name); s.Seq != 2 || s.Rows != rows {
			t.Errorf("%s after the update: %+v, want seq 2 and %d rows", name, s, rows)
		}
	}
	if s := w.look(t, "any"); s.Seq != 2 {
		t.Errorf("ASK after the update: %+v, want seq 2", s)
	}
	if doc := w.must(t, "", "query", "show", "any", "--results"); strings.TrimSpace(doc) != `{"head":{},"boolean":false}` {
		t.Errorf("ASK now is %s", doc)
	}
}

// An answer that the engine cut off at its row cap is partial: the last result stays, and nothing is
// announced.
func TestVirtuosoCapIsNoChange(t *testing.T) {
	w, v := onVirtuoso(t, ", max_rows: 50")
	v.Insert(graph, statements(0, 40)...)
	w.must(t, "SELECT ?s ?n { ?s <http://example.org/n> ?n }", "query", "add", "--name", "rows", "-")
	w.must(t, "CONSTRUCT { ?s <http://example.org/m> ?n } WHERE { ?s <http://example.org/n> ?n }", "query", "add", "--name", "graph", "-")
	w.must(t, "SELECT ?s { ?s <http://example.org/n> ?n } ORDER BY ?s LIMIT 10", "query", "add", "--name", "limited", "-")
	w.must(t, "", "endpoint", "tick", "city")
	before := map[string]seen{}
	for _, name := range []string{"rows", "graph"} {
		if before[name] = w.look(t, name); before[name].Rows != 40 {
			t.Fatalf("%s: %+v, want 40 rows", name, before[name])
		}
	}
	v.Insert(graph, statements(40, 90)...)
	w.must(t, "", "endpoint", "tick", "city")
	for name, b := range before {
		s := w.look(t, name)
		if s.Outcome != "partial" || s.State != "stale" || s.Seq != 1 || s.Hash != b.Hash {
			t.Errorf("%s cut off at the cap: %+v, want partial, stale, and the result of before", name, s)
		}
	}
	if s := w.look(t, "limited"); s.State != "live" || s.Seq != 1 || s.Rows != 10 {
		t.Errorf("a query whose own LIMIT is below the cap: %+v, want live", s)
	}
}

// A cap that was reported for rows survives a crash: a graph that the engine cuts off without a
// warning stays partial.
func TestVirtuosoCapOutlivesACrash(t *testing.T) {
	v := virtuosotest.Start(t, virtuosotest.Options{MaxRows: 50})
	data, addr := t.TempDir(), clitest.FreeAddr(t)
	yaml := "endpoints: [{name: city, url: \"" + v.URL + "\", slot: never, policy: rr, budget: 2m, default_graph_uri: [\"" + graph + "\"]}]\n"
	srv := clitest.Serve(t, binary(t), addr, data, yaml)
	w := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}, Endpoint: v.URL}}
	v.Insert(graph, statements(0, 40)...)
	v.Insert("http://example.org/other", statements(0, 90)...)
	w.must(t, "CONSTRUCT { ?s <http://example.org/m> ?n } WHERE { ?s <http://example.org/n> ?n }", "query", "add", "--name", "graph", "-")
	w.must(t, "SELECT ?s FROM <http://example.org/other> { ?s <http://example.org/n> ?n }", "query", "add", "--name", "rows", "-")
	w.must(t, "", "endpoint", "tick", "city")
	before := w.look(t, "graph")
	if s := w.look(t, "rows"); before.Rows != 40 || s.Outcome != "partial" {
		t.Fatalf("graph %+v, rows %+v, want 40 triples and a partial answer", before, s)
	}
	w.must(t, "", "query", "rm", "rows")
	srv.Kill()

	v.Insert(graph, statements(40, 90)...)
	clitest.Serve(t, binary(t), addr, data, yaml)
	w.must(t, "", "endpoint", "tick", "city")
	if s := w.look(t, "graph"); s.Outcome != "partial" || s.Seq != 1 || s.Hash != before.Hash {
		t.Errorf("a graph cut off at the cap: %+v, want partial and the result of before", s)
	}
}

// statements returns triples with the numbers from..to-1.
func statements(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("<http://example.org/%d> <http://example.org/n> %d .", i, i))
	}
	return out
}

// The trial run of a query that the engine refuses shows the engine's error.
func TestVirtuosoRefusal(t *testing.T) {
	w, _ := onVirtuoso(t, "")
	w.must(t, "SELECT ?s { ?s ?p ?o FILTER(bif:nonsense(?o)) }", "query", "add", "--name", "bad", "-")
	w.must(t, "", "endpoint", "tick", "city")
	var x struct{ State, Outcome, Error string }
	if err := json.Unmarshal([]byte(w.must(t, "", "query", "show", "bad", "--json")), &x); err != nil {
		t.Fatal(err)
	}
	if x.State != "failing" || x.Outcome != "rejected" && x.Outcome != "error" || !strings.Contains(strings.ToLower(x.Error), "nonsense") {
		t.Errorf("%+v, want the engine's complaint about bif:nonsense", x)
	}
}
