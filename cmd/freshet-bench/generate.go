package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
)

// generateCommand makes a trace with published statistics.
func generateCommand(w *cli.Env) *cobra.Command {
	var like, out string
	var seed uint64
	var drift, random bool
	c := &cobra.Command{
		Use: "generate", Short: "Make a synthetic trace with published statistics", Args: cobra.NoArgs,
		Long: `Makes a trace whose statistics are those published about a dataset, and prints
each of them beside its target. The same seed makes the same trace. A name
that ends in .json gives the exchange format, any other zstd of JSON lines. With
--drift half of the queries that change stop half-way, and others start. With
--random each query changes as often, but in random revisions.`,
		Example: "  freshet bench generate --like knuth2016 --seed 1 --out t.trace",
		RunE: func(c *cobra.Command, _ []string) error {
			l := trace.Knuth2016()
			if like != l.Name {
				return cli.UsageErrorf("--like: %q is not known; there is %s", like, l.Name)
			}
			if out == "" {
				return cli.UsageErrorf("--out is missing: where to write the trace")
			}
			if drift && random {
				return cli.UsageErrorf("--drift and --random exclude each other")
			}
			t, err := trace.Generate(c.Context(), l, seed)
			if err == nil && drift {
				err = t.Drift(seed)
			} else if err == nil && random {
				err = t.Randomize(seed)
			}
			if err != nil {
				return err
			}
			if err := l.WriteCheck(w.Stderr, t); err != nil {
				return err
			}
			return saveTrace(out, t)
		},
	}
	f := c.Flags()
	f.StringVar(&like, "like", "knuth2016", "dataset whose statistics the trace has")
	f.Uint64Var(&seed, "seed", 1, "seed")
	f.BoolVar(&drift, "drift", false, "let half of the queries that change stop half-way, and others start")
	f.BoolVar(&random, "random", false, "let each query change in random revisions")
	f.StringVar(&out, "out", "", "file to write")
	return c
}

// convertCommand converts a trace to the other format.
func convertCommand(w *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "convert IN OUT", Short: "Read a trace in one format and write it in another", Args: cobra.ExactArgs(2),
		Long:    `Reads either format; OUT is written in the exchange format when its name ends in .json, else as JSON lines in zstd.`,
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
