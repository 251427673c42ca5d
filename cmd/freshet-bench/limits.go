package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/cmd/internal/cli"
)

// limitsCommand says what policies can find at most that cannot see the future.
func limitsCommand(w *cli.Env) *cobra.Command {
	var trace string
	var budgets []time.Duration
	var waits []int
	var asJSON bool
	c := &cobra.Command{
		Use: "limits", Short: "Say what policies can find at most that cannot see the future", Args: cobra.NoArgs,
		Long: `Prints how many changes policies find at most in the mean that cannot know when a
change comes: one that knows how often each result changes, and one that has to
learn it. For that, changes come at random, as often as in the trace, and all that
a learner knows beforehand is how many queries of which cost change how often. With
--wait, each query that takes less than a budget runs at least once in so many slots;
0 is no such promise. It is the dual of the problem, see the source.`,
		Example: "  freshet bench limits --trace t.trace --budget 5s,10s,20s --wait 0,320",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := loadTrace(trace)
			if err != nil {
				return err
			}
			s := bench.NewSimulator(t)
			if !asJSON {
				fmt.Fprintf(w.Stdout, "%10s %6s %10s %10s %8s\n", "budget", "wait", "known", "learner", "of known")
			}
			for _, b := range budgets {
				for _, wait := range waits {
					if b <= 0 || wait < 0 {
						return cli.UsageErrorf("--budget is more than 0, and --wait not less")
					}
					l, err := s.Limits(c.Context(), b, wait)
					if err != nil {
						return err
					}
					if asJSON {
						if err := cli.PrintJSON(w.Stdout, l); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(w.Stdout, "%10s %6d %10.0f %10.0f %7.1f%%\n", b, wait, l.Known, l.Learner, 100*l.Learner/max(1, l.Known))
				}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&trace, "trace", "", "trace of either format")
	f.DurationSliceVar(&budgets, "budget", []time.Duration{10 * time.Second}, "budgets of a slot, separated by commas")
	f.IntSliceVar(&waits, "wait", []int{0}, "most slots between executions of a query, several separated by commas")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}
