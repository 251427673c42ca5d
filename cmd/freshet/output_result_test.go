package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/client"
)

// A terminal gets tables and no character that controls it. Files and pipes get the exact
// bytes, and JSON that ends with a line break.
func TestResultsOnATerminal(t *testing.T) {
	const evil = "a\x1b[31m\u202eb"
	bodies := map[string][2]string{
		"/v1/queries/x/results": {"application/sparql-results+json",
			`{"head":{"vars":["s","n"]},"results":{"bindings":[{"s":{"type":"literal","value":"a\u001b[31m\u202eb","xml:lang":"en"},` +
				`"n":{"type":"uri","value":"http://x/1"}},{"n":{"type":"bnode","value":"b"}}]}}`},
		"/v1/queries/ask/results":   {"application/sparql-results+json", `{"head":{},"boolean":true}`},
		"/v1/queries/x/results.csv": {"text/csv", "s,n\r\n" + evil + ",1\r\n"},
		"/v1/queries/x/results.tsv": {"text/tab-separated-values", "?s\t?n\n" + evil + "\t1\n"},
		"/v1/queries/g/results":     {"application/n-triples", "<a> <b> \"" + evil + "\" .\n"},
		"/metrics/results":          {"text/plain", "freshet{s=\"" + evil + "\"} 1\n"},
	}
	bodies["/v1/queries/x/results.srj"] = bodies["/v1/queries/x/results"]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := bodies[r.URL.Path]
		w.Header().Set("Content-Type", b[0])
		_, _ = w.Write([]byte(b[1]))
	}))
	defer s.Close()
	const safe = "a·[31m·b"
	for line, want := range map[string][2]string{ // elsewhere, and on a terminal
		"results x":              {bodies["/v1/queries/x/results"][1] + "\n", "s            n\n" + safe + "@en  http://x/1\n             _:b\n"},
		"results x --json":       {bodies["/v1/queries/x/results"][1] + "\n", bodies["/v1/queries/x/results"][1] + "\n"},
		"query show x --results": {bodies["/v1/queries/x/results"][1] + "\n", "s            n\n" + safe + "@en  http://x/1\n             _:b\n"},
		"results ask":            {bodies["/v1/queries/ask/results"][1] + "\n", "true\n"},
		"results x --format srj": {bodies["/v1/queries/x/results"][1], bodies["/v1/queries/x/results"][1]},
		"results x --format csv": {bodies["/v1/queries/x/results.csv"][1], "s,n\r\n" + safe + ",1\r\n"},
		"results x --format tsv": {bodies["/v1/queries/x/results.tsv"][1], "?s\t?n\n" + safe + "\t1\n"},
		"results g":              {bodies["/v1/queries/g/results"][1], "<a> <b> \"" + safe + "\" .\n"},
		"metrics show":           {bodies["/metrics/results"][1], "freshet{s=\"" + safe + "\"} 1\n"},
	} {
		for i, screen := range []bool{false, true} {
			var out, stderr strings.Builder
			w := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr, Getenv: func(string) string { return "" }, Screen: screen}
			if code := runLine(t.Context(), append(strings.Fields(line), "--server", s.URL), w); code != cli.ExitOK || out.String() != want[i] {
				t.Errorf("%s, terminal %v: exit code %d\n%q\n%q\n%s", line, screen, code, out.String(), want[i], stderr.String())
			}
		}
	}
}

// A first result is shown as a whole, also to who followed before it came.
func TestFirstResultWhileWatching(t *testing.T) {
	var out strings.Builder
	a := &remote{w: &cli.Env{Stdout: &out}}
	rows, err := diff.DecodeJSON([]byte(`{"head":{"vars":["s"]},"results":{"bindings":[]}}`), diff.Select, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := client.Event{Kind: client.Delta, Result: rows, Delta: &diff.Delta{Form: diff.Select, Baseline: true}}
	if err := a.watched("numbers", e, 1); err != nil || !strings.HasSuffix(out.String(), ": 0 rows now\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Queries are listed in the order of their names, with the answers of ASK queries.
func TestQueriesAreListedByName(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"queries":[{"id":"q_1","name":"zoo","form":"SELECT","rows":3},{"id":"q_2","form":"ASK",` +
			`"query":"ASK { ?a ?b ?c }","boolean":false},{"id":"q_3","name":"air","form":"ASK"},` +
			`{"id":"q_4","form":"ASK","query":"#+ endpoint: http://127.0.0.1:1/\n#+ summary: Labels\nASK { ?a ?b ?c }"}]}`))
	}))
	defer s.Close()
	code, out, stderr := runCLI(t, nil, "", "query", "list", "--server", s.URL)
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := "NAME ENDPOINT STATE ROWS CHANGES CHECKED CHANGED ID WHY|ASK { ?a ?b ?c } false 0 – – q_2|" +
		"Labels – 0 – – q_4|air – 0 – – q_3|zoo 3 0 – – q_1"
	if code != cli.ExitOK || strings.Join(got, "|") != want {
		t.Errorf("exit code %d, %s\n%s\n%s", code, stderr, strings.Join(got, "|"), want)
	}
}

// What ran between two slots is told apart from what ran in the slot, as the slot's own summary does.
func TestSlotsTellWhatRanAfterThem(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"slots":[{"slot":4,"started":"2026-03-04T05:06:17Z","run":1,"changed":1},{"slot":3,` +
			`"started":"2026-03-04T05:06:07Z","planned":3,"run":3,"changed":0,"failed":0,"off_grid":{"run":6,"changed":3,"failed":1}}]}`))
	}))
	defer s.Close()
	code, out, stderr := runCLI(t, nil, "", "endpoint", "slots", "city", "--server", s.URL)
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := "SLOT STARTED PLANNED RUN CHANGED FAILED PASSED OVER USED BUDGET DEBT AFTER IT|4 4 Mar 05:06:17 0 1 1 0 0 0 s 0 s|" +
		"3 4 Mar 05:06:07 3 3 0 0 0 0 s 0 s 6 ran, 3 changed, 1 failed"
	if code != cli.ExitOK || strings.Join(got, "|") != want {
		t.Errorf("exit code %d, %s\n%s\n%s", code, stderr, strings.Join(got, "|"), want)
	}
}
