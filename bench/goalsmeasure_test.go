package bench

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler/plan"
)

var (
	goalSeeds    = flag.String("goals.seed", "", "seeds of the traces of TestMeasureGoals, separated by commas")
	goalPolicies = flag.String("goals.policy", "cv,dj,cr,ttl:max=256:half,ttl:max=32:reset,sqrt,hybrid:d=64,hybrid:d=1024",
		"policies to compare with")
	goalBudgets = flag.String("goals.budget", "5s,7s,10s,12s,15s,20s,30s,50s,100s", "budgets of a slot, ascending")
	goalRules   = flag.String("goals.rule", strings.Join(plan.Rules(), ","), "budget rules")
	goalMerge   = flag.String("goals.merge", "", "how to merge requests")
)

// TestMeasureGoals checks the goals of the default policy on generated traces and prints
// the table of Goals. All policies, rules and budgets take about ten minutes per seed.
func TestMeasureGoals(t *testing.T) {
	if *goalSeeds == "" {
		t.Skip("name the seeds with -goals.seed")
	}
	g := &Goals{Policies: SplitPolicies(*goalPolicies), Rules: strings.Split(*goalRules, ","), Merge: *goalMerge}
	for _, text := range strings.Split(*goalBudgets, ",") {
		b, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		g.Budgets = append(g.Budgets, b)
	}
	for _, text := range strings.Split(*goalSeeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := trace.Generate(t.Context(), trace.Knuth2016(), seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Add(t.Context(), fmt.Sprint("seed ", seed), tr, func(Row) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.WriteTable(os.Stdout); err != nil {
		t.Fatal(err)
	}
}
