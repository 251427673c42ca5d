package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler/plan"
)

// studyCommand runs the whole study and writes its report.
func studyCommand(w *cli.Env) *cobra.Command {
	var traces []string
	var out, rule, policies string
	c := &cobra.Command{
		Use: "study", Short: "Run the whole study and write a report", Args: cobra.NoArgs,
		Long: `Runs all policies under the three budgets of Knuth, Hartig and Sack (1000 s, 50 s
and 10 s) and writes one HTML page that is complete in itself, with findings, plots,
and tables beside the paper's. It also writes all plots as SVG, PDF and PNG, the
tables for LaTeX, and all values as CSV and JSON. With several traces, tables
have means and standard deviations. --policy adds policies, your own for example.`,
		Example: `  freshet bench generate --out t.trace && freshet bench study --trace t.trace --out report
  freshet bench study --trace a.trace,b.trace,c.trace --policy hybrid:d=128,wic --out report`,
		RunE: func(c *cobra.Command, _ []string) error {
			defer collectGarbageLess()()
			switch {
			case out == "":
				return cli.UsageErrorf("--out is missing: the directory of the report")
			case len(traces) == 0:
				return cli.UsageErrorf("--trace is missing: which traces to read")
			}
			var more []string
			if policies != "" {
				more = bench.SplitPolicies(policies)
			}
			plan := bench.Plan(rule, more...)
			for _, s := range plan {
				if err := s.Check(); err != nil {
					return cli.UsageErrorf("%v", err)
				}
			}
			s := bench.NewStudy(plan)
			bar := progress(w, len(plan)*len(traces), "simulating")
			defer bar.Close()
			for _, path := range traces {
				t, err := loadTrace(path)
				if err != nil {
					return err
				}
				if err := s.Add(c.Context(), filepath.Base(path), t, func(bench.Row) { bar.Add(1) }); err != nil {
					return err
				}
			}
			bar.Close()
			if err := s.Write(out); err != nil {
				return err
			}
			fmt.Fprintf(w.Stderr, "%d simulations; the report is %s\n", len(plan)*len(traces), filepath.Join(out, "report.html"))
			return nil
		},
	}
	f := c.Flags()
	f.StringSliceVar(&traces, "trace", nil, "traces of either format, separated by commas")
	f.StringVar(&out, "out", "", "directory to write")
	f.StringVar(&policies, "policy", "", "further policies, separated by commas")
	f.StringVar(&rule, "rule", plan.RuleOverrun, "budget rule: overrun, which is the paper's, strict or debt")
	return c
}
