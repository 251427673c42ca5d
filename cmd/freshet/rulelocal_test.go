package main

import (
	"strings"
	"testing"

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
		edit := registry.RuleEdit{Put: []registry.Rule{{ID: "rule_a", Caller: "x", RuleSettings: registry.RuleSettings{Name: "late"}}, {ID: "rule_b", Caller: "y", RuleSettings: registry.RuleSettings{Name: "late"}}}}
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
		if want := map[bool]string{false: "use an id: rule_a rule_b", true: "node of a cluster"}[node]; code == 0 || !strings.Contains(said, want) {
			t.Errorf("%d %s", code, said)
		}
		if node {
			continue
		}
		for _, ref := range []string{"rule_a", "late"} { // then one of the name is left
			if code, said := remove(ref); code != 0 {
				t.Errorf("%s: %d %s", ref, code, said)
			}
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
