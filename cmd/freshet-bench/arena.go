package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// arenaCommand compares all policies over traces that it generates.
func arenaCommand(w *cli.Env) *cobra.Command {
	var out, policies, again string
	var seeds, traces, rules []string
	var budgets []time.Duration
	var copies int
	c := &cobra.Command{
		Use: "arena", Short: "Compare all policies over several histories", Args: cobra.NoArgs,
		Long: `Generates histories, runs every policy over each of them at every budget and under
every rule, and writes tables: how near the default policy comes to one that knows all
rates and to the best other policy, whether more budget finds more, and its delays;
then means, standard deviations and a paired test against the default policy for each.
It also writes figures, and arena.jsonl, which has one line for each simulation. What
that file has already is not simulated again: run it again with a policy of your own,
and only your policy runs. After a change to your policy, --again simulates it again.
The default policy always takes part, as the others are compared with it. --trace adds
recorded histories, each with budgets that follow from what its queries take. With
--copies, each of these takes part several times instead of once, with the time of each
execution multiplied by e^(0.5·z), z drawn from the standard normal distribution: one
recording alone cannot tell a small difference from chance.

Everything takes some hours; --seeds, --policy, --budget and --rule select.`,
		Example: `  freshet bench arena --seeds 41,42,43 --rule strict --out arena
  freshet bench arena --seeds 41,42,43 --rule strict --policy hybrid,persecond --out arena`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return cli.UsageErrorf("--out is missing: the directory of the tables")
			}
			a := &bench.Arena{Rules: rules, Budgets: budgets, Policies: bench.Contestants()}
			var changed []string
			var err error
			if policies != "" {
				a.Policies, err = bench.Competitors(registry.DefaultPolicy + "," + policies)
			}
			if again != "" && err == nil {
				changed, err = bench.Competitors(again)
			}
			if err != nil {
				return cli.UsageErrorf("%v", err)
			}
			if copies < 0 || copies > 0 && len(traces) == 0 {
				return cli.UsageErrorf("--copies is a number of copies of each --trace")
			}
			for _, s := range a.Missing("") {
				if err := s.Check(); err != nil {
					return cli.UsageErrorf("%v", err)
				}
			}
			file, err := os.Open(filepath.Join(out, "arena.jsonl"))
			if err == nil {
				err = errors.Join(a.Read(file), file.Close())
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			a.Drop(changed)
			list, err := histories(c, a, seeds, traces, copies)
			if err != nil {
				return err
			}
			return runArena(c, w, a, list, out)
		},
	}
	f := c.Flags()
	f.StringVar(&out, "out", "", "directory to write, which may have the rows of an earlier run")
	f.StringSliceVar(&seeds, "seeds", []string{"41", "42", "43", "44", "45", "46", "47", "48", "49", "50"},
		"seeds of generated histories, separated by commas")
	f.StringSliceVar(&traces, "trace", nil, "more traces, separated by commas")
	f.IntVar(&copies, "copies", 0, "copies of each --trace with other times, which replace it (default none)")
	f.StringVar(&policies, "policy", "", "policies, separated by commas (default all)")
	f.StringVar(&again, "again", "", "policies whose simulations are repeated, separated by commas")
	f.DurationSliceVar(&budgets, "budget", []time.Duration{5 * time.Second, 7 * time.Second, 10 * time.Second, 20 * time.Second,
		50 * time.Second}, "budgets of a slot, separated by commas")
	f.StringSliceVar(&rules, "rule", plan.Rules(), "budget rules, separated by commas")
	return c
}

// A history is a trace that takes part in an arena.
type history struct {
	name string
	load func() (*trace.Trace, error)
}

// varied is the deviation of the logarithm of a time in the copies of a recorded history.
const varied = 0.5

// histories lists those of an arena. It sets the budgets of the recorded ones.
func histories(c *cobra.Command, a *bench.Arena, seeds, traces []string, copies int) (out []history, err error) {
	a.Recorded = map[string][]time.Duration{}
	for _, name := range traces {
		var budgets []time.Duration
		if !c.Flags().Changed("budget") {
			t, err := loadTrace(name)
			if err != nil {
				return nil, err
			}
			budgets = bench.Parts(t)
		}
		own := []history{{name, func() (*trace.Trace, error) { return loadTrace(name) }}}
		if copies > 0 {
			own = nil
		}
		for n := range copies {
			own = append(own, history{fmt.Sprintf("%s, copy %d", name, n+1), func() (*trace.Trace, error) {
				t, err := loadTrace(name)
				if err != nil {
					return nil, err
				}
				return t.Vary(uint64(n+1), varied), nil
			}})
		}
		for _, h := range own {
			if budgets != nil {
				a.Recorded[h.name] = budgets
			}
		}
		out = append(out, own...)
	}
	for _, seed := range seeds {
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			return nil, cli.UsageErrorf("--seeds: %q is not a whole number", seed)
		}
		out = append(out, history{"seed " + seed, func() (*trace.Trace, error) {
			return trace.Generate(c.Context(), trace.Knuth2016(), n)
		}})
	}
	return out, nil
}

// runArena runs what is missing, history by history. It writes all files after each of them.
func runArena(c *cobra.Command, w *cli.Env, a *bench.Arena, list []history, out string) error {
	steps := 0
	for _, h := range list {
		steps += len(a.Missing(h.name))
	}
	bar := progress(w, steps, "simulating")
	defer bar.Close()
	for _, h := range list {
		t, err := h.load()
		if err != nil {
			return err
		}
		known := len(a.Missing(h.name))
		if n := a.Enter(h.name, t); n > 0 {
			fmt.Fprintf(w.Stderr, "%s is another history than before: its %d rows are dropped\n", h.name, n)
		}
		bar.ChangeMax(bar.GetMax() + len(a.Missing(h.name)) - known)
		if err := a.Run(c.Context(), h.name, t, func(bench.Row) { bar.Add(1) }); err != nil {
			return err
		}
		if err := a.Write(out); err != nil {
			return err
		}
	}
	bar.Close()
	if err := a.Write(out); err != nil {
		return err
	}
	fmt.Fprintf(w.Stderr, "%d simulations; the tables are in %s\n", steps, filepath.Join(out, "arena.md"))
	return nil
}
