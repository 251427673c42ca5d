package main

// This file holds `freshet results` and `freshet changes diff`: results now and in the past, and
// how they differ.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const momentHelp = `A time is RFC 3339, or a date or a time without a zone, which is in UTC: 2026-11-01,
2026-11-01T12:00, 2026-11-01T13:00:00+01:00.`

func resultsCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	var at, seq, format string
	c := &cobra.Command{Use: "results ID", Short: "Print the result of a query, now or in the past", Args: cobra.ExactArgs(1),
		Long: `Prints the last complete result of a query. With --at it prints the result as it was at a
time, and with --seq the result after a change, for as long as the history is kept (see the
settings under retention). A terminal gets a table, and files and pipes JSON or N-Triples.
With --format the bytes are those that the result had then.

` + momentHelp,
		Example: "  freshet results types --format csv\n  freshet results types --at 2026-11-01T12:00\n  freshet results types --seq 41",
		RunE: func(c *cobra.Command, args []string) error {
			path := below("/v1/queries", "/results")(args[0])
			if format != "" {
				path += "." + url.PathEscape(format)
			}
			v := url.Values{}
			if at != "" {
				if _, err := registry.ParseTime(at); err != nil {
					return cli.UsageErrorf("--at: %v", err)
				}
				v.Set("at", at)
			}
			if seq != "" {
				v.Set("seq", seq)
			}
			if len(v) > 0 {
				path += "?" + v.Encode()
			}
			resp, err := a.send(c.Context(), http.MethodGet, path, "", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if then, err := http.ParseTime(resp.Header.Get("Memento-Datetime")); err == nil {
				fmt.Fprintf(w.Stderr, "the result of %s\n", then.UTC().Format(time.RFC3339))
			}
			return printResult(w, resp, format, a.asJSON)
		}}
	a.flags(c)
	f := c.Flags()
	f.StringVar(&at, "at", "", "print the result as it was at this time")
	f.StringVar(&seq, "seq", "", "print the result after this change: its number, or epoch:number")
	f.StringVar(&format, "format", "", "srj, srx, csv or tsv; nt, ttl or jsonld for graphs (default srj or nt, on a terminal a table)")
	c.MarkFlagsMutuallyExclusive("at", "seq")
	c.MarkFlagsMutuallyExclusive("json", "format")
	return c
}

func changesCommand(w *cli.Env) *cobra.Command {
	c := &cobra.Command{Use: "changes", Short: "Compare states of a result",
		Example: "  freshet changes diff types --from 2026-11-01 --to 2026-12-01"}
	c.AddCommand(changesDiff(w))
	return c
}

// A stateDifference is the difference between two states.
type stateDifference struct {
	From    stateView       `json:"from"`
	To      stateView       `json:"to"`
	Form    diff.Form       `json:"form"`
	Added   json.RawMessage `json:"added"`
	Removed json.RawMessage `json:"removed"`
	Boolean bool            `json:"boolean"`
	Was     bool            `json:"previous"`
}

type stateView struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

func (v stateView) String() string {
	return fmt.Sprintf("%d (%s)", v.Seq, v.Time.UTC().Format(time.RFC3339))
}

// delta returns the rows of a net change.
func (n *stateDifference) delta() (*diff.Delta, error) {
	d := &diff.Delta{Form: n.Form, Boolean: n.Boolean, Previous: n.Was}
	if n.Form == diff.Ask {
		return d, nil
	}
	if err := d.SetAdded(n.Added); err != nil {
		return nil, err
	}
	return d, d.SetRemoved(n.Removed)
}

func changesDiff(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	var from, to string
	var rows int
	c := &cobra.Command{Use: "diff ID", Short: "Print the rows added and removed between two states", Args: cobra.ExactArgs(1),
		Long: `Prints the net change of a query's result between two states. Rows that came and went in
between are not shown. A state is the number of a change, epoch:number, or a time.

` + momentHelp,
		Example: "  freshet changes diff types --from 2026-11-01T12:00\n  freshet changes diff types --from 12 --to 41 --json",
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" {
				return cli.UsageErrorf("name the earlier state with --from")
			}
			v := url.Values{"from": {from}}
			if to != "" {
				v.Set("to", to)
			}
			return showAs(c.Context(), a, http.MethodGet, below("/v1/queries", "/changes/diff")(args[0])+"?"+v.Encode(), nil, func(n stateDifference) error {
				d, err := n.delta()
				if err != nil {
					return err
				}
				p := painter(w.Color)
				fmt.Fprintf(w.Stdout, "from %s to %s: %s\n", n.From, n.To, deltaSize(d, p))
				printDelta(w.Stdout, d, rows, p)
				return nil
			})
		}}
	a.flags(c)
	f := c.Flags()
	f.StringVar(&from, "from", "", "the earlier state")
	f.StringVar(&to, "to", "", "the later state (default: the newest)")
	f.IntVar(&rows, "rows", 100, "maximum number of rows to show of each side")
	return c
}
