// This file holds `freshet metrics`: what Prometheus gets from the numbers in results.

package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
)

var metricsTable = row{use: "metrics", short: "Show which numbers in results Prometheus can scrape",
	long: `Shows what /metrics/results gives to Prometheus: the numeric columns of named queries, with
the other columns as labels. The server keeps no settings for it. The flags are those of the
request, and the job of Prometheus has the same ones under params.`,
	example: "freshet metrics list --tag stations\nfreshet metrics show bikes --label year",
	rows: []row{
		{use: "list [QUERY...]", short: "List the queries that a scrape gives, with their numeric columns",
			long: `Lists what a scrape of these queries, names or ids, or of all queries that have names gives
of each: its numeric columns, the number of series, the rows of the result, the rows without a
series and why (limit, ambiguous, long, no_number, graph), and whether the result is true now.
--json adds when it was last known to be true, and when it last changed.`,
			example: "freshet metrics list --tag stations\nfreshet metrics list bikes --label year --json",
			run:     scrape(printScraped), flags: scrapeFlags},
		{use: "show [QUERY...]", short: "Print what a scrape gives",
			long: `Prints what a scrape of these queries gives, names or ids, or of all queries that have
names. The output is the text format of Prometheus. With --json each series is an object on
a line of its own; its value is a text, because numbers of JSON can be neither NaN nor infinite.`,
			example: "freshet metrics show bikes\nfreshet metrics show --tag stations --limit 100 | promtool check metrics",
			run:     scrape(printSeries), flags: scrapeFlags},
	}}

// scrapeFlags choose what is scraped.
var scrapeFlags = []option{
	{name: "endpoint", value: "", usage: "only queries of this endpoint"},
	{name: "state", value: "", usage: "only queries in this state: new, live, stale, failing, paused, idle"},
	{name: "tag", value: "", usage: "only queries with this tag"},
	{name: "q", value: "", usage: "only queries whose name, id or text contains this"},
	{name: "label", value: texts(nil), usage: "a column that is a label although it holds numbers; may be given several times"},
	{name: "limit", value: "", usage: "rows of a query that are read, 1 to 10000 (default 1000)"},
}

// scrape returns a command that prints a scrape of the queries that its arguments name, or of all that have names.
func scrape(print func(a *remote, in io.Reader) error) func(*remote, *cobra.Command, []string) error {
	return func(a *remote, c *cobra.Command, args []string) error {
		_, members, err := row{call: "GET ", flags: scrapeFlags}.given(c)
		if err != nil {
			return err
		}
		members["query"] = args
		resp, err := a.send(c.Context(), http.MethodGet, withParameters("/metrics/results", members),
			http.Header{"Accept": {"text/plain"}}, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return print(a, resp.Body)
	}
}

// series calls visit for each series of a scrape: families by name, series in the order of
// the server.
func series(in io.Reader, visit func(metric string, labels map[string]string, value float64) error) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(in)
	if err != nil {
		return fmt.Errorf("the answer is no text of metrics: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if err := visit(name, labels, m.GetGauge().GetValue()); err != nil {
				return err
			}
		}
	}
	return nil
}

func printSeries(a *remote, in io.Reader) error {
	if !a.asJSON {
		return printRaw(a.w, in)
	}
	return series(in, func(metric string, labels map[string]string, value float64) error {
		return cli.PrintJSON(a.w.Stdout, map[string]any{"metric": metric, "labels": labels, "value": strconv.FormatFloat(value, 'g', -1, 64)})
	})
}

// A scrapedQuery is what a scrape says of one query.
type scrapedQuery struct {
	Query   string            `json:"query"`
	Holder  string            `json:"holder"`
	Columns []string          `json:"columns"` // that give series
	Series  int               `json:"series"`
	Rows    int64             `json:"rows"`
	LeftOut map[string]uint64 `json:"left_out"` // rows without a series, by reason
	Stale   bool              `json:"stale"`
	Checked time.Time         `json:"checked_at,omitzero"`
	Changed time.Time         `json:"changed_at,omitzero"`
}

// leftOut lists the rows without a series on one line.
func (q *scrapedQuery) leftOut() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(q.LeftOut)) {
		parts = append(parts, fmt.Sprintf("%d %s", q.LeftOut[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// add notes one series.
func (q *scrapedQuery) add(metric string, labels map[string]string, value float64) {
	at := time.UnixMilli(int64(value * 1000)).UTC()
	switch metric {
	case "freshet_result":
		q.Series++
		if !slices.Contains(q.Columns, labels["column"]) {
			q.Columns = append(q.Columns, labels["column"])
		}
	case "freshet_result_rows":
		q.Rows = int64(value)
	case "freshet_result_rows_left_out":
		q.LeftOut[labels["reason"]] = uint64(value)
	case "freshet_result_stale":
		q.Stale = value == 1
	case "freshet_result_checked_timestamp_seconds":
		q.Checked = at
	case "freshet_result_changed_timestamp_seconds":
		q.Changed = at
	}
}

// printScraped prints a scrape as a list of queries.
func printScraped(a *remote, in io.Reader) error {
	all := map[string]*scrapedQuery{} // by holder and name
	over := 0.0
	err := series(in, func(metric string, labels map[string]string, value float64) error {
		if metric == "freshet_result_series_left_out" {
			over = value
			return nil
		}
		key := labels["query"] + "\x00" + labels["holder"]
		if all[key] == nil {
			all[key] = &scrapedQuery{Query: labels["query"], Holder: labels["holder"], Columns: []string{}, LeftOut: map[string]uint64{}}
		}
		all[key].add(metric, labels, value)
		return nil
	})
	if err != nil {
		return err
	}
	t := newColumns(a.w, "QUERY\tHOLDER\tCOLUMNS\tSERIES\tROWS\tLEFT OUT\tTRUE")
	for _, key := range slices.Sorted(maps.Keys(all)) {
		q := all[key]
		slices.Sort(q.Columns)
		if a.asJSON {
			if err := cli.PrintJSON(a.w.Stdout, q); err != nil {
				return err
			}
			continue
		}
		state := "yes"
		if q.Stale {
			state = "stale"
		}
		t.row(show.Escape(q.Query), show.Escape(q.Holder), show.Escape(strings.Join(q.Columns, ",")), q.Series, q.Rows, q.leftOut(), state)
	}
	if over > 0 {
		fmt.Fprintf(a.w.Stderr, "%.0f more series exceed the bound of a scrape: choose queries by name or with --tag\n", over)
	}
	if a.asJSON {
		return nil
	}
	return t.Flush()
}
