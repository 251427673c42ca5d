package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

// An import analyses texts like a registration does. It names the lines that could not be
// registered and imports the rest.
func TestImportAnalyses(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reg, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	city := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/"}.WithDefaults()
	if err := reg.ApplyFile([]registry.Endpoint{city}, nil); err != nil {
		t.Fatal(err)
	}
	line := func(edit func(q *registry.Query)) string {
		q, err := reg.Analyse(registry.Registration{Endpoint: "city", Text: "SELECT ?s { ?s ?p ?o } LIMIT 3"})
		if err != nil {
			t.Fatal(err)
		}
		q.Holders = []registry.Holder{{Caller: "a"}}
		edit(&q)
		b, _ := json.Marshal(exported{Query: &q})
		return string(b)
	}
	withID := func(q *registry.Query) { q.ID = registry.Identity(q.Endpoint, q.Normal, q.Ordered, nil, nil) }
	in := strings.Join([]string{
		line(func(q *registry.Query) { q.Text = "DELETE WHERE { ?s ?p ?o }" }),
		line(func(q *registry.Query) { q.Text = "SELECT * { SERVICE <http://x/> { ?s ?p ?o } }" }),
		line(func(q *registry.Query) { q.Text = "SELECT nothing" }),
		line(func(q *registry.Query) { q.ID = "q_another" }),
		line(func(q *registry.Query) { q.Endpoint = "nowhere"; withID(q) }),
		`{"token":{"name":"a b","role":"app"}}`,
		"{not JSON", `{}`, "",
		line(func(q *registry.Query) {
			q.Form, q.Limit, q.Constants, q.Pause = "ASK", 9, []string{"urn:x"}, &registry.Pause{By: "a", All: true}
		}),
		line(func(q *registry.Query) { q.Normal = "as another version wrote it"; withID(q) }),
	}, "\n")
	var said strings.Builder
	n, err := importAll(db, strings.NewReader(in), &said)
	if err != nil || n != (imported{added: 2, refused: 8}) {
		t.Errorf("%+v, %v\n%s", n, err, said.String())
	}
	for _, want := range []string{"line 1: query q_", "line 2: ", "allow_service", "line 3: ", "line 4: ", "line 5: ", "no endpoint nowhere", "line 6: ", "line 7: ", "line 8: "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
	items, err := db.Queries.CountQueries("")
	if err != nil || items != 2 {
		t.Fatalf("%d queries, %v", items, err)
	}
	q, err := reg.Analyse(registry.Registration{Endpoint: "city", Text: "SELECT ?s { ?s ?p ?o } LIMIT 3"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.Queries.Query(q.ID)
	if err != nil || got.Form != q.Form || got.Limit != 3 || len(got.Constants) != 0 || got.Pause == nil || got.Paused() == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Alert rules move to another store with their secrets, and paused ones stay paused. A second
// import adds nothing, and a rule that a server would refuse is refused.
func TestExportMovesRules(t *testing.T) {
	w := newTown(t, "websub: {allow_callback_networks: [127.0.0.0/8]}\n")
	w.must(t, "SELECT ?s ?v { ?s <http://x/v> ?v }", "query", "add", "--endpoint", "city", "--name", "values", "-")
	w.must(t, "", "rule", "add", "high", "--query", "values", "--when", "?v > 1", "--for", "10m", "--webhook", "http://127.0.0.1:9/hook", "--summary", "?s")
	w.must(t, "", "rule", "add", "some", "--query", "values", "--when", "rows > 0")
	w.must(t, "", "rule", "pause", "high")
	w.must(t, "ASK {}", "query", "add", "--endpoint", "city", "--name", "lost", "-")
	w.must(t, "", "rule", "add", "ended", "--query", "lost", "--when", "changed")
	w.must(t, "", "query", "rm", "lost")
	backup, fresh := filepath.Join(t.TempDir(), "freshet.db"), t.TempDir()
	w.must(t, "", "backup", backup)
	exported := w.must(t, "", "store", "export", "--data", filepath.Dir(backup))
	if strings.Count(exported, `{"rule":`) != 2 || strings.Count(exported, `"secret":"whsec_`) != 1 || strings.Contains(exported, `"ended"`) {
		t.Errorf("exported\n%s", exported)
	}
	for range 2 {
		w.must(t, exported, "store", "import", "--data", fresh, "-")
		w.must(t, "", "store", "check", "--data", fresh)
		if again := w.must(t, "", "store", "export", "--data", fresh); again != exported {
			t.Errorf("exported, imported and exported again:\n%s\nwant\n%s", again, exported)
		}
	}
	db, err := store.Open(fresh, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rules, err := db.Rules.Rules()
	if err != nil || len(rules) != 2 {
		t.Fatalf("%+v, %v", rules, err)
	}
	for _, r := range rules {
		if r.Paused != (r.Name == "high") || r.State.Fired != 0 {
			t.Errorf("%+v", r)
		}
	}
	line := regexp.MustCompile(`(?m)^{"rule":.*"name":"high".*$`).FindString(exported)
	line = regexp.MustCompile(`rule_[a-z0-9]+`).ReplaceAllString(line, "rule_other")
	named := strings.Replace(line, `"name":"high"`, `"name":"other"`, 1)
	in := strings.Join([]string{line,
		strings.Replace(named, "rule_other", "other", 1),
		strings.Replace(named, "?v > 1", "v", 1),
		strings.Replace(named, "whsec_", "", 1),
		regexp.MustCompile(`"secret":"[^"]*"`).ReplaceAllString(named, `"email":"a@example.org"`),
		regexp.MustCompile(`,"secret":"[^"]*"`).ReplaceAllString(named, ""),
		regexp.MustCompile(`"query":"[^"]*"`).ReplaceAllString(named, `"query":"q_none"`),
		named}, "\n")
	var said strings.Builder
	n, err := importAll(db, strings.NewReader(in), &said)
	if err != nil || n != (imported{added: 1, there: 1, refused: 6}) {
		t.Errorf("%+v, %v\n%s", n, err, said.String())
	}
	for _, want := range []string{"line 2: ", "line 3: ", "line 4: ", "line 5: ", "line 6: ", "the secret of the webhook is missing", "line 7: ", "no query q_none"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
}
