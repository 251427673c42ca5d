package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/scheduler"
)

func benchStudy(w *world) *cobra.Command {
	var trace, out, rule string
	c := &cobra.Command{
		Use: "study", Short: "Run the whole study and write a report", Args: cobra.NoArgs,
		Long: `Plays all policies under the three budgets of Knuth, Hartig and Sack (1000 s, 50 s
and 10 s) and writes their tables beside ours, plots, and one HTML page that
needs nothing else; besides, all plots as SVG and PNG, all figures as CSV and
JSON.`,
		Example: "  freshet bench generate --out t.trace && freshet bench study --trace t.trace --out report",
		RunE: func(c *cobra.Command, _ []string) error {
			defer collectLess()()
			if out == "" {
				return usage("--out is missing: the directory of the report")
			}
			plan := bench.Plan(rule)
			for _, s := range plan {
				if err := s.Check(); err != nil {
					return usage("%v", err)
				}
			}
			t, err := loadTrace(trace)
			if err != nil {
				return err
			}
			bar := progress(w, len(plan), "simulating")
			s, err := bench.RunStudy(c.Context(), filepath.Base(trace), t, rule, func(bench.Row) { bar.Add(1) })
			bar.Close()
			if err != nil {
				return err
			}
			if err := s.Write(out); err != nil {
				return err
			}
			fmt.Fprintf(w.stderr, "%d simulations; the report is %s\n", len(plan), filepath.Join(out, "report.html"))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&trace, "trace", "", "trace to play, of either format")
	f.StringVar(&out, "out", "", "directory to write")
	f.StringVar(&rule, "rule", scheduler.RuleOverrun, "budget rule: overrun, which is the paper's, strict or debt")
	return c
}
