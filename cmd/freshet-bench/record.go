package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
)

// recordCommand records a trace from an endpoint.
func recordCommand(w *cli.Env) *cobra.Command {
	h := &recordingSource{}
	var out string
	c := &cobra.Command{
		Use: "record", Short: "Record a trace from an endpoint while changesets are replayed", Args: cobra.NoArgs,
		Long: `Applies changesets in the layout of DBpedia Live to the embedded engine, or to any
SPARQL 1.1 endpoint that takes updates, runs all queries in each revision and
writes the trace. Answers that fail or are not complete are recorded as such and
never become versions. The progress is kept in OUT.part: after an interruption,
the same command empties the graph of the dataset at a remote endpoint, loads the
base, applies the finished changesets again, and continues there. So the graph has
to be empty when a recording begins. Triples that the endpoint refuses, such as literals that do not fit
their datatype, are reported and left out.`,
		Example: `  freshet bench record --changesets changesets --base base.nt.gz --queries queries.jsonl --out t.trace
  freshet bench record --endpoint http://127.0.0.1:8890/sparql --update-param query --graph http://example.org/g …`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return cli.UsageErrorf("--out is missing: where to write the trace")
			}
			queries, steps, err := h.open(c.Context(), w)
			defer h.close()
			if err != nil {
				return err
			}
			ask, err := h.client()
			if err != nil {
				return cli.UsageErrorf("--endpoint: %v", err)
			}
			defer ask.Close()
			_, unfinished := os.Stat(out + ".part")
			base := func(ctx context.Context) error { return h.reload(ctx, ask, unfinished == nil) }
			bar := progress(w, len(steps)+1, "recording")
			err = trace.Recording{
				Path: out, Queries: queries, Ask: ask, Base: base, Steps: steps, Timeout: h.timeout,
				About:    map[string]string{"endpoint": h.endpoint, "graph": h.graph},
				Progress: func(done, _ int) { bar.Set(done) },
			}.Run(c.Context())
			bar.Close()
			if errors.Is(err, trace.ErrRecorded) {
				return cli.UsageErrorf("--out: %v", err)
			}
			if err != nil {
				return err
			}
			t, err := loadTrace(out)
			if err != nil {
				return err
			}
			fmt.Fprintf(w.Stderr, "%d queries over %d revisions, %d changes; the trace is %s\n", t.Queries, t.Revisions, t.Changes(), out)
			return nil
		},
	}
	h.flags(c)
	c.Flags().StringVar(&out, "out", "", "trace to write")
	return c
}
