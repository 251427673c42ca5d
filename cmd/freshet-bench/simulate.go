package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
)

// simulateCommand runs policies over a trace.
func simulateCommand(w *cli.Env) *cobra.Command {
	var trace, policies, rule string
	var budgets, merges []string
	var timeout time.Duration
	var noise []float64
	var schedule, asJSON, asCSV, ring bool
	var warm string
	c := &cobra.Command{
		Use: "simulate", Short: "Run policies over a trace", Args: cobra.NoArgs,
		Long: `Runs policies over a trace with the planner and the statistics of the server, and
prints one row per policy and budget. Under the rule strict no slot takes more
than its budget. Under debt an execution that has started may finish within
--timeout, and later slots repay what it took beyond the budget, at most half of
one each. Under overrun the last execution of a slot may take any time. The lines
below the table say what no schedule of requests for one query each exceeds.

With --signals, a feed reports changes: it misses some, and some of its reports are
false. Live policies get them as hints, and signals knows how noisy they are.

With --warm, a policy that learns knows how often each query was executed in a run
over the same trace, how often it had changed, and in how many days, as after an
export and import. With --warm=template it knows that of all other queries of the
same template together, as from a pack. With --warm=state it knows all that it has
learnt in that run, as on a server that was moved or restored from a backup.

With --merge, queries of a template are asked together, as the server does it, in
traces that have templates; generated and recorded ones do. Each mode has its rows.

The policies:

` + policyHelp(),
		Example: `  freshet bench simulate --trace t.trace --policy rr,ttl:max=32:reset,cv --budget 10s,50s,1000s --rule overrun
  freshet bench simulate --trace t.trace --policy hybrid,rr --budget 10s --merge off,auto
  freshet bench simulate --trace t.json --policy dj --budget 10s --schedule --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON && asCSV {
				return cli.UsageErrorf("--json and --csv exclude each other")
			}
			if schedule && !asJSON {
				return cli.UsageErrorf("--schedule needs --json")
			}
			setups, err := simulations(policies, budgets, merges, rule)
			if err != nil {
				return err
			}
			if n := len(noise); n != 0 && n != 2 {
				return cli.UsageErrorf("--signals has two numbers, such as 0.1,0.5")
			}
			for i := range setups {
				if len(noise) > 0 {
					setups[i].Signals = &bench.Signals{Miss: noise[0], Lie: noise[1]}
				}
				setups[i].Timeout, setups[i].Schedule, setups[i].Ring, setups[i].Warm = timeout, schedule, ring, warm
			}
			t, err := loadTrace(trace)
			if err != nil {
				return err
			}
			bar := progress(w, len(setups), "simulating")
			rows, err := bench.NewSimulator(t).RunAll(c.Context(), setups, func(bench.Row) { bar.Add(1) })
			bar.Close()
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return figure.WriteLines(w.Stdout, rows)
			case asCSV:
				return bench.WriteCSV(w.Stdout, rows)
			}
			return bench.WriteTable(w.Stdout, rows)
		},
	}
	f := c.Flags()
	f.StringVar(&trace, "trace", "", "trace of either format")
	f.StringVar(&policies, "policy", "", "policies, separated by commas")
	f.StringSliceVar(&budgets, "budget", []string{"10s"}, "budgets of a slot, separated by commas")
	f.StringVar(&rule, "rule", plan.RuleStrict, "budget rule: "+strings.Join(plan.Rules(), " or "))
	f.DurationVar(&timeout, "timeout", 0, "of one execution; the most that is owed under debt (default none)")
	f.StringSliceVar(&merges, "merge", nil, "how to merge requests, several separated by commas: "+
		strings.Join(registry.MergeModes(), ", ")+" (default off)")
	f.Float64SliceVar(&noise, "signals", nil, "reports of changes: the part of the changes without one, and the part of the "+
		"reports that are false")
	f.BoolVar(&schedule, "schedule", false, "add the executions of each slot, with --json")
	f.BoolVar(&ring, "ring", false, "estimate from the last 63 executions, as the server does, instead of from all")
	f.StringVar(&warm, "warm", "", "begin with what the policy has learnt in a run over the same trace: "+
		strings.Join(bench.Warmths(), " or "))
	f.Lookup("warm").NoOptDefVal = bench.WarmImport
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	f.BoolVar(&asCSV, "csv", false, "print CSV")
	return c
}

// policyHelp lists the spellings of the policies.
func policyHelp() string {
	var b strings.Builder
	for _, d := range scheduler.Policies() {
		fmt.Fprintf(&b, "  %-18s %s\n", d.Spelling(), d.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}

// simulations lists all policies under all budgets, by budget, in each mode of merging.
func simulations(policies string, budgets, merges []string, rule string) ([]bench.Setup, error) {
	if policies == "" {
		return nil, cli.UsageErrorf("--policy is missing: which policies to run")
	}
	if len(merges) == 0 {
		merges = []string{""}
	}
	var out []bench.Setup
	for _, text := range budgets {
		budget, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil {
			return nil, cli.UsageErrorf("--budget: %q is not a duration such as 10s", text)
		}
		for _, p := range bench.SplitPolicies(policies) {
			for _, mode := range merges {
				s := bench.Setup{Policy: p, Budget: budget, Rule: rule, Merge: mode}
				if err := s.Check(); err != nil {
					return nil, cli.UsageErrorf("%v", err)
				}
				out = append(out, s)
			}
		}
	}
	return out, nil
}
