package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// goalsCommand checks the goals of the default policy.
func goalsCommand(w *cli.Env) *cobra.Command {
	var seeds []uint
	var policies string
	var budgets []string
	g := &bench.Goals{}
	var asJSON bool
	c := &cobra.Command{
		Use: "goals", Short: "Check the default policy against its goals on generated traces", Args: cobra.NoArgs,
		Long: `Generates a trace for each seed and runs the default policy and others over it.
It prints one line per rule and budget: the changes found (a mean); on how many
traces a larger budget finds at least 99.5 % of a smaller one; the smallest and
the largest percentage of the best other policy, and on how many traces it is at
least 99; the same for the clairvoyant policy, of which the goal is 88 % with 10s
and 97 % with 20s under the rule strict; and the longest delay, and on how many
traces it is at most 320 slots, which is the goal from 7s. All policies, rules
and budgets take about ten minutes per seed. With --merge, all policies except the
clairvoyant one ask for queries of a template together. --json prints the rows of
'simulate', with the trace's name.`,
		Example: `  freshet bench goals --seed 1,2,3 --budget 10s,20s --rule strict
  freshet bench goals --seed 1,2,3 --budget 10s --rule strict --merge auto`,
		RunE: func(c *cobra.Command, _ []string) error {
			defer collectGarbageLess()()
			g.Policies = bench.SplitPolicies(policies)
			for _, text := range budgets {
				b, err := time.ParseDuration(text)
				if err != nil {
					return cli.UsageErrorf("--budget: %q is not a duration such as 10s", text)
				}
				g.Budgets = append(g.Budgets, b)
			}
			for _, s := range g.Setups() {
				if err := s.Check(); err != nil {
					return cli.UsageErrorf("%v", err)
				}
			}
			bar := progress(w, len(seeds)*len(g.Setups()), "simulating")
			defer bar.Close()
			for _, s := range seeds {
				t, err := trace.Generate(c.Context(), trace.Knuth2016(), uint64(s))
				if err != nil {
					return err
				}
				if err := g.Add(c.Context(), fmt.Sprint("seed ", s), t, func(bench.Row) { bar.Add(1) }); err != nil {
					return err
				}
			}
			bar.Close()
			if asJSON {
				return g.WriteJSON(w.Stdout)
			}
			return g.WriteTable(w.Stdout)
		},
	}
	f := c.Flags()
	f.UintSliceVar(&seeds, "seed", []uint{1}, "seeds of the traces, separated by commas")
	f.StringVar(&policies, "policy", "cv,dj,cr,ttl:max=256:half,ttl:max=32:reset,sqrt,hybrid:d=64,hybrid:d=1024", "policies to compare with, separated by commas")
	f.StringSliceVar(&budgets, "budget", []string{"5s", "7s", "10s", "12s", "15s", "20s", "30s", "50s", "100s"}, "budgets of a slot, ascending and separated by commas")
	f.StringSliceVar(&g.Rules, "rule", plan.Rules(), "budget rules: "+strings.Join(plan.Rules(), ", "))
	f.StringVar(&g.Merge, "merge", "", "how to merge requests: "+strings.Join(registry.MergeModes(), ", ")+" (default off)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}
