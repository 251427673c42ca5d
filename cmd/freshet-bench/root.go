package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler"
)

func benchCommand(w *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Compare refresh policies over recorded or generated histories",
		Long: `Plays refresh policies over traces: what every query would have answered in every
revision of a dataset, and how long that would have taken. Traces are generated
from published statistics, recorded from an endpoint while changesets are
replayed, or exchanged as JSON. Four more benchmarks have workloads of their own:
complex execution intervals, notification rules, web monitoring, and the
allocation of retrievals.`,
		Example: `  freshet bench generate --like knuth2016 --seed 1 --out t.trace
  freshet bench simulate --trace t.trace --policy rr,dj,ttl:max=32:reset --budget 10s,50s --rule overrun
  freshet bench study --trace t.trace --out report`,
	}
	c.AddCommand(tellFile(w, benchGenerate(w)), benchSimulate(w), tellFile(w, benchStudy(w)), benchAblate(w), tellFile(w, benchRecord(w)), benchReplay(w), tellFile(w, benchSample(w)), tellFile(w, benchConvert(w)),
		benchCEI(w), benchSUP(w), benchWIC(w), benchAllocation(w))
	return c
}

// tellFile lets a command that writes --out, or its last argument, say so in JSON.
func tellFile(w *cli.Env, c *cobra.Command) *cobra.Command {
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

// collectLess gives memory for time while simulations run, unless GOGC says how
// much, and returns what undoes it: a study takes 600 MB instead of 350, and 4 %
// less processor time.
func collectLess() (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(300)
	return func() { debug.SetGCPercent(was) }
}

func benchGenerate(w *cli.Env) *cobra.Command {
	var like, out string
	var seed uint64
	var drift bool
	c := &cobra.Command{
		Use: "generate", Short: "Make a synthetic trace with published statistics", Args: cobra.NoArgs,
		Long: `Makes a trace whose statistics are those published about a dataset, and prints
each of them beside its target. The same seed makes the same trace. A name
that ends in .json gives the exchange format, any other the compact one. With
--drift half of the queries that change stop half-way, and others start.`,
		Example: "  freshet bench generate --like knuth2016 --seed 1 --out t.trace",
		RunE: func(c *cobra.Command, _ []string) error {
			var names []string
			for _, l := range bench.Likenesses() {
				names = append(names, l.Name)
				if l.Name != like {
					continue
				}
				if out == "" {
					return cli.UsageErrorf("--out is missing: where to write the trace")
				}
				generate := bench.Generate
				if drift {
					generate = bench.GenerateDrifting
				}
				t, err := generate(c.Context(), l, seed)
				if err != nil {
					return err
				}
				if err := l.WriteCheck(w.Stderr, t); err != nil {
					return err
				}
				return saveTrace(out, t)
			}
			return cli.UsageErrorf("--like: %q is not known; there is %s", like, strings.Join(names, ", "))
		},
	}
	f := c.Flags()
	f.StringVar(&like, "like", "knuth2016", "whose statistics to have")
	f.Uint64Var(&seed, "seed", 1, "seed")
	f.BoolVar(&drift, "drift", false, "let half of the queries that change stop half-way, and others start")
	f.StringVar(&out, "out", "", "file to write")
	return c
}

func benchConvert(w *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "convert IN OUT", Short: "Read a trace in one format and write it in another", Args: cobra.ExactArgs(2),
		Long:    `Reads either format; OUT is written in the exchange format when its name ends in .json, else in the compact one.`,
		Example: "  freshet bench convert t.trace t.json",
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := loadTrace(args[0])
			if err != nil {
				return err
			}
			return saveTrace(args[1], t)
		},
	}
}

// loadTrace reads a trace; a file that is not there is a mistake of the command
// line.
func loadTrace(path string) (*bench.Trace, error) {
	if path == "" {
		return nil, cli.UsageErrorf("--trace is missing: which trace to read")
	}
	t, err := bench.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.UsageErrorf("the trace %s does not exist", path)
	}
	return t, err
}

func saveTrace(path string, t *bench.Trace) error {
	return writeFile(path, func(w io.Writer) error {
		if strings.HasSuffix(path, ".json") {
			return t.WriteJSON(w)
		}
		return t.WriteCompact(w)
	})
}

// writeFile writes a file that is either complete or not there.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".freshet-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	b := bufio.NewWriterSize(f, 1<<20)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func benchSimulate(w *cli.Env) *cobra.Command {
	var trace, policies, rule string
	var budgets []string
	var timeout time.Duration
	var schedule, asJSON, asCSV, ring bool
	c := &cobra.Command{
		Use: "simulate", Short: "Run policies over a trace", Args: cobra.NoArgs,
		Long: `Plays policies over a trace with the planner and the statistics of the server, and
prints one row per policy and budget. Under the rule strict no slot takes more
than its budget. Under debt an execution that has started may finish within
--timeout, and later slots repay what it took beyond the budget, at most half of
one each. Under overrun the last execution of a slot may take what it takes. The
policies:

` + policyHelp(),
		Example: `  freshet bench simulate --trace t.trace --policy rr,ttl:max=32:reset,cv --budget 10s,50s,1000s --rule overrun
  freshet bench simulate --trace t.json --policy dj --budget 10s --schedule --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			defer collectLess()()
			if asJSON && asCSV {
				return cli.UsageErrorf("--json and --csv exclude each other")
			}
			if schedule && !asJSON {
				return cli.UsageErrorf("--schedule needs --json")
			}
			setups, err := simulations(policies, budgets, rule)
			if err != nil {
				return err
			}
			for i := range setups {
				setups[i].Timeout, setups[i].Schedule, setups[i].Ring = timeout, schedule, ring
			}
			t, err := loadTrace(trace)
			if err != nil {
				return err
			}
			bar := progress(w, len(setups), "simulating")
			rows, err := bench.NewWorld(t).SimulateAll(c.Context(), setups, func(bench.Row) { bar.Add(1) })
			bar.Close()
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return bench.WriteRows(w.Stdout, rows)
			case asCSV:
				return bench.WriteCSV(w.Stdout, rows)
			}
			return bench.WriteTable(w.Stdout, rows)
		},
	}
	f := c.Flags()
	f.StringVar(&trace, "trace", "", "trace to play, of either format")
	f.StringVar(&policies, "policy", "", "policies, separated by commas")
	f.StringSliceVar(&budgets, "budget", []string{"10s"}, "budgets of a slot, separated by commas")
	f.StringVar(&rule, "rule", scheduler.RuleStrict, "budget rule: "+strings.Join(scheduler.Rules(), " or "))
	f.DurationVar(&timeout, "timeout", 0, "of one execution; the most that is owed under debt (default none)")
	f.BoolVar(&schedule, "schedule", false, "add what ran when, with --json")
	f.BoolVar(&ring, "ring", false, "estimate from the last 63 executions, as the server does, instead of from all")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	f.BoolVar(&asCSV, "csv", false, "print CSV")
	return c
}

// policyHelp lists the policies as they are spelled.
func policyHelp() string {
	var b strings.Builder
	for _, d := range scheduler.Policies() {
		fmt.Fprintf(&b, "  %-18s %s\n", d.Spelling(), d.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}

// simulations are all policies under all budgets, budget by budget.
func simulations(policies string, budgets []string, rule string) ([]bench.Setup, error) {
	if policies == "" {
		return nil, cli.UsageErrorf("--policy is missing: which policies to run")
	}
	var out []bench.Setup
	for _, text := range budgets {
		budget, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil {
			return nil, cli.UsageErrorf("--budget: %q is not a duration such as 10s", text)
		}
		for _, p := range bench.SplitPolicies(policies) {
			s := bench.Setup{Policy: p, Budget: budget, Rule: rule}
			if err := s.Check(); err != nil {
				return nil, cli.UsageErrorf("%v", err)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// progress is a bar on a terminal, and nothing elsewhere.
func progress(w *cli.Env, steps int, what string) *progressbar.ProgressBar {
	out := io.Discard
	if w.Terminal {
		out = w.Stderr
	}
	return progressbar.NewOptions(steps, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
}
