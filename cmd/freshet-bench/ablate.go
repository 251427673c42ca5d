package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// ablateCommand measures what each part of hybrid contributes.
func ablateCommand(w *cli.Env) *cobra.Command {
	var traces []string
	var policy, rule string
	var budget time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use: "ablate", Short: "Measure what each part of hybrid contributes", Args: cobra.NoArgs,
		Long: `Runs hybrid, hybrid without each of its parts, and other policies over traces. It
prints one line per policy: for each trace the changes found, and the slots for
which results were stale, in total and at most. --json prints the
rows of 'simulate', with the trace's name.`,
		Example: `  freshet bench generate --seed 1 --out a.trace
  freshet bench generate --seed 1 --drift --out d.trace
  freshet bench ablate --trace a.trace,d.trace --budget 10s --rule strict`,
		RunE: func(c *cobra.Command, _ []string) error {
			defer collectGarbageLess()()
			if len(traces) == 0 {
				return cli.UsageErrorf("--trace is missing: which traces to read")
			}
			a := bench.Ablation{Policies: bench.Ablations(policy)}
			for _, p := range a.Policies {
				if err := (bench.Setup{Policy: p, Budget: budget, Rule: rule}).Check(); err != nil {
					return cli.UsageErrorf("%v", err)
				}
			}
			bar := progress(w, len(traces)*len(a.Policies), "simulating")
			defer bar.Close()
			for _, path := range traces {
				t, err := loadTrace(path)
				if err != nil {
					return err
				}
				name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
				if err := a.Ablate(c.Context(), name, t, budget, rule, func(bench.Row) { bar.Add(1) }); err != nil {
					return err
				}
			}
			bar.Close()
			if asJSON {
				return a.WriteJSON(w.Stdout)
			}
			return a.WriteTable(w.Stdout)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&traces, "trace", nil, "traces, separated by commas")
	f.StringVar(&policy, "policy", registry.DefaultPolicy, "hybrid with its longest wait")
	f.DurationVar(&budget, "budget", 10*time.Second, "budget of a slot")
	f.StringVar(&rule, "rule", plan.RuleStrict, "budget rule: "+strings.Join(plan.Rules(), " or "))
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}
