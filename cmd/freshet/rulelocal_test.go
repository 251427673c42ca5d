package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/exchange"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal/memory"
)

// A rule can be removed from the store of a stopped server, but not from that of a cluster's node.
func TestRuleRemoveLocal(t *testing.T) {
	for _, node := range []bool{false, true} {
		dir := t.TempDir()
		var o store.Options
		if node {
			j := memory.New("test").Open()
			defer j.Close()
			o.Journal = j
		}
		db, err := store.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		edit := registry.RuleEdit{Put: []registry.Rule{{ID: "rule_a", Caller: "x", RuleSettings: registry.RuleSettings{Name: "late"}},
			{ID: "rule_b", Caller: "y", RuleSettings: registry.RuleSettings{Name: "late"}}}}
		if err := db.Rules.EditRules(&edit); err != nil {
			t.Fatal(err)
		}
		remove := func(ref string) (int, string) {
			code, _, stderr := runCLI(t, nil, "", "rule", "remove", ref, "--local", "--data", dir)
			return code, stderr
		}
		if code, said := remove("rule_a"); code == 0 {
			t.Errorf("while the store is in use: %s", said)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		code, said := remove("late")
		if want := map[bool]string{false: "use an id: rule_a rule_b", true: "node of a cluster"}[node]; code == 0 ||
			!strings.Contains(said, want) {
			t.Errorf("%d %s", code, said)
		}
		if node {
			continue
		}
		if code, said := remove("rule_a"); code != 0 {
			t.Errorf("%d %s", code, said)
		}
		// Then one of the name is left.
		code, out, said := runCLI(t, nil, "", "rule", "remove", "late", "--local", "--data", dir, "--json")
		if want := `{"done":"is removed","ref":"late"}` + "\n"; code != 0 || out != want {
			t.Errorf("%d %s, prints %q, want %q", code, said, out, want)
		}
		if db, err = store.Open(dir, store.Options{}); err != nil {
			t.Fatal(err)
		}
		if rules, err := db.Rules.Rules(); err != nil || len(rules) != 0 {
			t.Errorf("%+v %v", rules, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Alert rules move to another store with their secrets, and paused ones stay paused. A second
// import adds nothing, and a rule that a server would refuse is refused.
func TestExportMovesRules(t *testing.T) {
	w := newTown(t, "websub: {allow_callback_networks: [127.0.0.0/8]}\n")
	w.must(t, "SELECT ?s ?v { ?s <http://x/v> ?v }", "query", "add", "--endpoint", "city", "--name", "values", "-")
	w.must(t, "", "rule", "add", "high", "--query", "values", "--when", "?v > 1", "--for", "10m", "--webhook",
		"http://127.0.0.1:9/hook", "--summary", "?s")
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
		if out := w.must(t, exported, "store", "import", "--data", fresh, "--json", "-"); !strings.HasPrefix(out, `{"added":`) {
			t.Errorf("import --json prints %q", out)
		}
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
		if r.Paused != (r.Name == "high") || r.State.Fired != 0 || r.State.Version != 1 {
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
	n, err := exchange.Import(db, strings.NewReader(in), &said)
	if err != nil || n != (exchange.Counts{Added: 1, There: 1, Refused: 6}) {
		t.Errorf("%+v, %v\n%s", n, err, said.String())
	}
	for _, want := range []string{"line 2: ", "line 3: ", "line 4: ", "line 5: ", "line 6: ", "the secret of the webhook is missing",
		"line 7: ", "no query q_none"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
}
