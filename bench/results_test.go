package bench

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

// The tables of web/docs/results.md contain only existing policies. Tables of a whole ablation
// have the rows that it prints, in the same order.
func TestResultsPage(t *testing.T) {
	page, err := os.ReadFile("../web/docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	want := Ablations("hybrid")
	whole := 0
	for _, table := range strings.Split(string(page), "\npolicy ")[1:] {
		table, _, _ = strings.Cut(table, "```")
		table, _, _ = strings.Cut(table, "\n\n")
		var rows []string
		for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
			row := strings.Fields(line)[0]
			if strings.HasPrefix(line, " ") {
				row = "hybrid:" + row
			}
			if err := (Setup{Policy: row, Budget: time.Second, Rule: plan.RuleStrict}).Check(); err != nil {
				t.Errorf("row %q: %v", line, err)
			}
			rows = append(rows, row)
		}
		if len(rows) < len(want) {
			continue
		}
		if whole++; !slices.Equal(rows, want) {
			t.Errorf("a table has the rows\n%q\nan ablation has\n%q", rows, want)
		}
	}
	if whole == 0 {
		t.Error("the page has no table of a whole ablation")
	}
}
