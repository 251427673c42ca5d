package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler/plan"
)

// studyCommand runs the whole study and writes its report.
func studyCommand(w *cli.Env) *cobra.Command {
	var path, out, rule, policies string
	var budgets []time.Duration
	var compare bool
	c := &cobra.Command{
		Use: "study", Short: "Run the whole study and write a report", Args: cobra.NoArgs,
		Long: `Runs all policies under several budgets and writes one HTML page that is complete
in itself, with plots and tables. It also writes all plots as SVG, and
all values as JSON. --policy adds policies, your own for example.
Without --budget, the budgets are what all queries take in the costliest slot of
the trace, a tenth of it, and a fiftieth of it. 'freshet bench arena' compares
policies over several traces.

--compare-paper puts the tables of Knuth, Hartig and Sack beside ours. It is for
traces of 'generate --like knuth2016', and the budgets are then those of the paper:
1000 s, 50 s and 10 s.`,
		Example: `  freshet bench study --trace own.trace --budget 2s,500ms --out report
  freshet bench study --trace own.trace --policy hybrid:d=128,wic --out report
  freshet bench generate --out t.trace && freshet bench study --trace t.trace --compare-paper --out report`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return cli.UsageErrorf("--out is missing: the directory of the report")
			}
			var more []string
			if policies != "" {
				more = bench.SplitPolicies(policies)
			}
			t, err := loadTrace(path)
			if err != nil {
				return err
			}
			switch {
			case len(budgets) > 0:
			case compare:
				budgets = bench.PaperBudgets()
			default:
				budgets = bench.Budgets(t)
			}
			s := bench.NewStudy(rule, budgets, more...)
			s.Compare = compare
			setups := s.Missing("")
			for _, x := range setups {
				if err := x.Check(); err != nil {
					return cli.UsageErrorf("%v", err)
				}
			}
			bar := progress(w, len(setups), "simulating")
			defer bar.Close()
			if err := s.Run(c.Context(), path, t, func(bench.Row) { bar.Add(1) }); err != nil {
				return err
			}
			bar.Close()
			if err := s.Write(out); err != nil {
				return err
			}
			fmt.Fprintf(w.Stderr, "%d simulations; the report is %s\n", len(setups), filepath.Join(out, "report.html"))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&path, "trace", "", "trace of either format")
	f.StringVar(&out, "out", "", "directory to write")
	f.StringVar(&policies, "policy", "", "further policies, separated by commas")
	f.DurationSliceVar(&budgets, "budget", nil, "budgets of a slot, separated by commas (default: from the trace)")
	f.BoolVar(&compare, "compare-paper", false, "put the tables of Knuth, Hartig and Sack beside ours")
	f.StringVar(&rule, "rule", plan.RuleOverrun, "budget rule: overrun, which is the paper's, strict or debt")
	return c
}
