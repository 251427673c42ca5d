package bench

import (
	"os"
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
