package main

import (
	"sync"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/literature"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler"
)

// baselines makes the policies of the literature known, once.
var baselines = sync.OnceFunc(func() {
	for _, d := range literature.Definitions() {
		scheduler.Register(d)
	}
})

// benchCommand is the command with all others below it.
func benchCommand(w *cli.Env) *cobra.Command {
	baselines()
	c := &cobra.Command{
		Use: "bench", Short: "Compare refresh policies over recorded or generated histories",
		Long: `Runs refresh policies over traces. A trace holds the result of every query in
every revision of a dataset, and the time of each execution. Traces are generated
from published statistics, recorded from an endpoint while changesets are
replayed, or exchanged as JSON. Four more benchmarks have workloads of their own:
complex execution intervals, notification rules, web monitoring, and the
allocation of retrievals.`,
		Example: `  freshet bench generate --like knuth2016 --seed 1 --out t.trace
  freshet bench simulate --trace t.trace --policy rr,dj,ttl:max=32:reset --budget 10s,50s --rule overrun
  freshet bench study --trace t.trace --out report`,
	}
	c.AddCommand(withJSON(w, generateCommand(w)), simulateCommand(w), withJSON(w, studyCommand(w)), withJSON(w, arenaCommand(w)),
		withJSON(w, recordCommand(w)), replayCommand(w), withJSON(w, sampleCommand(w)), feedCommand(w), withJSON(w, convertCommand(w)),
		ceiCommand(w), supCommand(w), wicCommand(w), allocationCommand(w), limitsCommand(w),
		cli.ManCommand(w, func() *cobra.Command { return c }, "  freshet bench man ~/.local/share/man/man1"))
	return c
}

// withJSON adds --json to a command that writes --out or its last argument.
func withJSON(w *cli.Env, c *cobra.Command) *cobra.Command {
	var asJSON bool
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object that names what was written")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := run(c, args); err != nil || !asJSON {
			return err
		}
		file := ""
		if out := c.Flags().Lookup("out"); out != nil {
			file = out.Value.String()
		} else {
			file = args[len(args)-1]
		}
		return cli.PrintJSON(w.Stdout, map[string]string{"file": file})
	}
	return c
}
