package main

import (
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
the same command continues there. So that it applies nothing twice, updates of a
remote endpoint leave marks in the graph <urn:freshet:recording:…>, which is
emptied at the end. Queries over all graphs of the endpoint would see the marks.
The graph of the dataset should be empty or hold the base; further data is part of
the results. Triples that the endpoint refuses, such as literals that do not fit
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
			if h.remote {
				_, err := os.Stat(out + ".part")
				h.checkpoints = h.newCheckpoints(err == nil)
				if _, err := os.Stat(out); err != nil {
					if err := h.checkpoints.begin(c.Context()); err != nil {
						return err
					}
				}
			}
			bar := progress(w, len(steps)+1, "recording")
			err = trace.Recording{
				Path: out, Queries: queries, Ask: ask, Base: h.load, Steps: steps, Volatile: !h.remote, Timeout: h.timeout,
				About:    map[string]string{"endpoint": h.endpoint, "graph": h.graph},
				Progress: func(done, _ int) { bar.Set(done) },
			}.Run(c.Context())
			bar.Close()
			if errors.Is(err, trace.ErrRecorded) {
				return cli.UsageErrorf("--out: %v", err)
			}
			if err == nil && h.checkpoints != nil {
				err = h.checkpoints.clear(c.Context())
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
