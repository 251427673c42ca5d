package main

// This file holds `freshet results` and `freshet changes diff`: results now and in the past, and
// how they differ.

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

const momentHelp = `A time is RFC 3339, or a date or a time without a zone, which is in UTC: 2026-11-01,
2026-11-01T12:00, 2026-11-01T13:00:00+01:00.`

var resultsRow = row{use: "results ID", short: "Print the result of a query, now or in the past",
	long: `Prints the last complete result of a query. With --at it prints the result as it was at a
time, and with --seq the result after a change, for as long as the history is kept (see the
settings under retention). A terminal gets a table, and files and pipes JSON or N-Triples.
With --format the bytes are those that the result had then.

` + momentHelp,
	example: "freshet results types --format csv\nfreshet results types --at 2026-11-01T12:00\nfreshet results types --seq 41",
	run:     printResults, one: []string{"at seq", "json format"}, flags: []option{
		{name: "at", value: "", usage: "print the result as it was at this time"},
		{name: "seq", value: "", usage: "print the result after this change: its number, or epoch:number"},
		{name: "format", value: "", usage: "srj, srx, csv or tsv; nt, ttl or jsonld for graphs (default srj or nt, on a terminal a table)"},
	}}

var resultFormats = []string{"srj", "srx", "csv", "tsv", "nt", "ttl", "jsonld"}

func printResults(a *remote, c *cobra.Command, args []string) error {
	at, format := textOf(c, "at"), textOf(c, "format")
	path := "/v1/queries/" + url.PathEscape(args[0]) + "/results"
	if format != "" && !slices.Contains(resultFormats, format) {
		return cli.UsageErrorf("--format: a result has no format %.64q: there are srj, srx, csv, tsv for rows, and nt, ttl, jsonld for graphs",
			format)
	}
	if format != "" {
		path += "." + url.PathEscape(format)
	}
	if at != "" {
		if _, err := registry.ParseTime(at); err != nil {
			return cli.UsageErrorf("--at: %v", err)
		}
	}
	return a.printResult(c.Context(), withParameters(path, map[string]any{"at": at, "seq": textOf(c, "seq")}), format)
}

var changesTable = row{use: "changes", short: "Compare states of a result",
	example: "freshet changes diff types --from 2026-11-01 --to 2026-12-01",
	rows: []row{
		{use: "diff ID", short: "Print the rows added and removed between two states",
			long: `Prints the net change of a query's result between two states. Rows that came and went in
between are not shown. A state is the number of a change, epoch:number, or a time.

` + momentHelp,
			example: "freshet changes diff types --from 2026-11-01T12:00\nfreshet changes diff types --from 12 --to 41 --json",
			run:     printDifference, flags: []option{
				{name: "from", value: "", usage: "the earlier state"},
				{name: "to", value: "", usage: "the later state (default: the newest)"},
				{name: "rows", value: 100, usage: "maximum number of rows to show of each side"},
			}},
	}}

func printDifference(a *remote, c *cobra.Command, args []string) error {
	from := textOf(c, "from")
	if from == "" {
		return cli.UsageErrorf("name the earlier state with --from")
	}
	path := withParameters("/v1/queries/"+url.PathEscape(args[0])+"/changes/diff", map[string]any{"from": from, "to": textOf(c, "to")})
	return showAs(c.Context(), a, http.MethodGet, path, nil, func(n api.Difference) error {
		d, err := deltaOf(&n)
		if err != nil {
			return err
		}
		p := show.Painter(a.w.Color)
		fmt.Fprintf(a.w.Stdout, "from %s to %s: %s\n", stateOf(n.From), stateOf(n.To), show.DeltaSize(d, p))
		show.PrintDelta(a.w.Stdout, d, intOf(c, "rows"), p)
		return nil
	})
}

// stateOf names a state.
func stateOf(v api.Version) string {
	return fmt.Sprintf("%d (%s)", v.Seq, v.Time.UTC().Format(time.RFC3339))
}

// deltaOf returns the rows of a net change.
func deltaOf(n *api.Difference) (*diff.Delta, error) {
	d := &diff.Delta{Form: n.Form}
	if n.Boolean != nil && n.Was != nil {
		d.Boolean, d.Previous = *n.Boolean, *n.Was
		return d, nil
	}
	if err := d.SetAdded(n.Added); err != nil {
		return nil, err
	}
	return d, d.SetRemoved(n.Removed)
}
