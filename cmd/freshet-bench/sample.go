package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/local/city"
)

// sampleCommand writes a generated history.
func sampleCommand(w *cli.Env) *cobra.Command {
	var seed uint64
	var steps, queries int
	c := &cobra.Command{
		Use: "sample DIR", Short: "Write a small generated history to record and replay", Args: cobra.ExactArgs(1),
		Long: `Writes what 'record' and 'replay' read, generated: DIR/base.nt.gz, a dataset of a
small city, DIR/changesets in the layout of DBpedia Live, one changeset a minute,
and DIR/queries.jsonl. The same seed gives the same files.

Real changesets of DBpedia Live have the same layout: a folder for each hour and
in it numbered files .removed.nt.gz, .added.nt.gz, .clear.nt.gz, .reinserted.nt.gz.`,
		Example: `  freshet bench sample city
  freshet bench record --changesets city/changesets --base city/base.nt.gz --queries city/queries.jsonl --per-changeset --out city.trace
  freshet bench simulate --trace city.trace --policy rr,hybrid --budget 20ms`,
		RunE: func(_ *cobra.Command, args []string) error {
			if steps < 1 || queries < 1 {
				return cli.UsageErrorf("--steps and --queries are at least 1")
			}
			dir := args[0]
			if err := city.New(seed).WriteDir(dir, steps); err != nil {
				return err
			}
			list := city.SampleQueries()
			if more := queries - len(list); more > 0 {
				list = append(list, city.Queries(more, seed)...)
			}
			path := filepath.Join(dir, "queries.jsonl")
			if err := writeFile(path, func(w io.Writer) error { return writeQueries(w, list[:min(queries, len(list))]) }); err != nil {
				return err
			}
			fmt.Fprintf(w.Stderr, "%d changesets and %d queries in %s\n", steps, queries, dir)
			return nil
		},
	}
	f := c.Flags()
	f.Uint64Var(&seed, "seed", 1, "seed")
	f.IntVar(&steps, "steps", 120, "changesets, one for each minute of the city's time")
	f.IntVar(&queries, "queries", 60, "queries")
	return c
}

// writeQueries writes JSON lines as 'record' reads them.
func writeQueries(w io.Writer, list []city.Query) error {
	lines := make([]map[string]string, len(list))
	for i, q := range list {
		lines[i] = map[string]string{"id": cmp.Or(q.Name, fmt.Sprintf("q%d", i+1)), "query": q.Text}
	}
	return figure.WriteLines(w, lines)
}
