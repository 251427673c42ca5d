package sparql

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// dataQuery is one line of the query collections under FRESHET_TEST_DATA.
type dataQuery struct {
	ID, Form, Query, Runs string
	Fixed                 string `json:"query_fixed"`
}

// readQueries reads a collection. It skips the test if there is none.
func readQueries(t *testing.T, name string) []dataQuery {
	t.Helper()
	dir := os.Getenv("FRESHET_TEST_DATA")
	if dir == "" {
		t.Skip("FRESHET_TEST_DATA is not set: no query collections to read")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	var out []dataQuery
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var q dataQuery
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		out = append(out, q)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLongDBpediaQueries(t *testing.T) {
	queries := readQueries(t, "dbpedia-queries/dbpedia-queries.jsonl")
	if want := 1928 + 2224; len(queries) != want {
		t.Errorf("%d queries, want %d", len(queries), want)
	}
	accepted := 0
	for _, q := range queries {
		if checkQuery(t, q.ID, q.Query, q.Form, q.Runs == "as-is") {
			accepted++
		}
		if q.Runs == "with query_fixed" {
			checkQuery(t, q.ID+" fixed", q.Fixed, q.Form, true)
		}
	}
	t.Logf("%d of %d accepted", accepted, len(queries))
}

func TestNomismaQueries(t *testing.T) {
	for _, q := range readQueries(t, "nomisma/queries.jsonl") {
		checkQuery(t, q.ID, q.Query, q.Form, true)
	}
}

// checkQuery checks whether the query is accepted, its form, and the kind of
// its refusal.
func checkQuery(t *testing.T, id, text, form string, must bool) bool {
	t.Helper()
	a, err := Analyse(text)
	if err != nil {
		if must {
			t.Errorf("%s refused: %v\n%s", id, err, text)
		}
		var syntax *SyntaxError
		if !errors.Is(err, ErrUpdate) && !(errors.As(err, &syntax) && syntax.Line > 0 && syntax.Column > 0 && syntax.Message != "") {
			t.Errorf("%s refused without a reason: %v", id, err)
		}
		t.Logf("%s: %v", id, err)
		return false
	}
	if a.Form != form {
		t.Errorf("%s: form %s, want %s", id, a.Form, form)
	}
	checkFixpoint(t, a)
	return true
}

// checkFixpoint analyses the normal form: only positions and the places of
// warnings may differ.
func checkFixpoint(t interface {
	Helper()
	Errorf(string, ...any)
}, a *Analysis) {
	t.Helper()
	again, err := Analyse(a.Normal)
	if err != nil {
		t.Errorf("normal form refused: %v\n%s", err, a.Normal)
		return
	}
	if d := cmpAnalyses(a, again); d != "" {
		t.Errorf("normal form is no fixpoint (-first +second):\n%s", d)
	}
}
