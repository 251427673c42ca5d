package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

// The tables of web/docs/results.md contain only existing policies. Rows that are set in are
// of hybrid without a part.
func TestResultsPage(t *testing.T) {
	page, err := os.ReadFile("../web/docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, table := range strings.Split(string(page), "\npolicy ")[1:] {
		table, _, _ = strings.Cut(table, "```")
		table, _, _ = strings.Cut(table, "\n\n")
		for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
			if strings.HasPrefix(line, " ") {
				continue
			}
			n++
			if err := (Setup{Policy: strings.Fields(line)[0], Budget: time.Second, Rule: plan.RuleStrict}).Check(); err != nil {
				t.Errorf("row %q: %v", line, err)
			}
		}
	}
	if n < 10 {
		t.Errorf("the page has %d rows of policies", n)
	}
}

// The tables of the page and of the section on the arena, and its figure, are made from the rows in testdata/arena.jsonl.
func TestArenaOfResultsPage(t *testing.T) {
	rows, err := os.Open("testdata/arena.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	a := &Arena{Rules: plan.Rules()}
	if err := a.Read(rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range a.rows {
		if b := time.Duration(r.BudgetMS) * time.Millisecond; !slices.Contains(a.Budgets, b) {
			a.Budgets = append(a.Budgets, b)
		}
		if !slices.Contains(a.Policies, r.Policy) {
			a.Policies = append(a.Policies, r.Policy)
		}
	}
	dir := t.TempDir()
	if err := a.Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := read(filepath.Join(dir, "arena.md"))
	if page := read("../web/docs/arena.md"); !strings.HasSuffix(page, all) {
		t.Error("web/docs/arena.md does not end with the tables of the arena")
	}
	tables := strings.Split(all, "\n\n")
	_, section, _ := strings.Cut(read("../web/docs/results.md"), "\n## The arena\n")
	section, _, _ = strings.Cut(section, "\n## ")
	n := 0
	for _, block := range strings.Split(section, "\n\n") {
		if block = strings.TrimSpace(block); strings.HasPrefix(block, "|") {
			n++
			if i := slices.IndexFunc(tables, func(x string) bool { return strings.TrimSpace(x) == block }); i < 0 {
				t.Errorf("no table of the arena, or one that is shown above, is\n%s", block)
			} else {
				tables = slices.Delete(tables, i, i+1)
			}
		}
	}
	if n < 3 {
		t.Errorf("the section has %d tables", n)
	}
	if want, got := read(filepath.Join(dir, "arena-found-strict.svg")), read("../web/docs/results-arena.svg"); want != got {
		t.Error("results-arena.svg is not the figure of the arena")
	}
}
