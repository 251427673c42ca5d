package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web/api"
)

// why returns in one line why a query is neither live nor new, according to its last
// execution.
func why(q *api.Query) string {
	if q.State == registry.Live || q.State == registry.New || q.Error == "" {
		return ""
	}
	s := show.Shortened(q.Error, 100)
	switch {
	case q.Failures > 1:
		return fmt.Sprintf("%d times since %s: %s", q.Failures, valueOf(q.FailingSince).UTC().Format("2 Jan 15:04"), s)
	case q.FailingSince != nil:
		return "since " + q.FailingSince.UTC().Format("2 Jan 15:04") + ": " + s
	}
	return s
}

var queryTable = row{use: "query", short: "Register and manage queries",
	example: "freshet query add --endpoint coins --name types types.rq\n" +
		"echo 'ASK {?s ?p ?o}' | freshet query add --endpoint coins -\nfreshet query list --tag demo",
	rows: []row{
		{use: "add FILE", short: "Register the query in FILE (- for standard input)",
			long: `Registers the query and prints its id. A name belongs to one of your queries. To give a name
to another text, use --replace: it moves the name to the new query and releases your
registration of the old one. The new query starts a history of its own.`,
			example: "freshet query add --endpoint coins --name types --tag demo types.rq\nfreshet query add --name types --replace types.rq",
			call:    "POST /v1/queries", body: queryText, out: withReceivers(printAdded, func(q api.Query) string { return q.ID }), flags: []option{
				{name: "endpoint", value: "", usage: "endpoint to ask (default: the server's default, or the only one)"},
				{name: "name", value: "", usage: "your name for the query"},
				{name: "tag", value: commaTexts(nil), usage: "tag; may be given several times", member: "tags"},
				{name: "weight", value: 1.0, usage: "importance beside other queries"},
				{name: "max-staleness", value: "", usage: "maximum age of the result, e.g. 10m"},
				{name: "min-interval", value: "", usage: "minimum time between two executions, e.g. 1m"},
				{name: "ordered", value: false, usage: "treat the order of rows as part of the result (default: if the query has ORDER BY)"},
				{name: "alone", value: false, usage: "never ask it in one request with other queries"},
				{name: "public", value: false, usage: "let anyone read the results without a token"},
				{name: "replace", value: false, usage: "move the name from your other query, and release that query"},
				{name: "default-graph", value: texts(nil), usage: "default graph IRI; may be given several times", member: "default_graph_uri"},
				notifyFlag,
				{name: "named-graph", value: texts(nil), usage: "named graph IRI; may be given several times", member: "named_graph_uri"},
			}},
		{use: "list", short: "List queries", example: "freshet query list --tag demo --state stale",
			call: "GET /v1/queries",
			out: printList("queries", "NAME\tENDPOINT\tSTATE\tROWS\tCHANGES\tCHECKED\tCHANGED\tID\tWHY", func(q api.Query) []any {
				now := time.Now()
				return []any{show.Escape(label(&q)), q.Endpoint, q.State, sizeOf(&q), q.Changes, show.Ago(q.CheckedAt, now),
					show.Ago(q.ChangedAt, now), q.ID, why(&q)}
			}, func(q api.Query) string { return label(&q) }),
			flags: []option{
				{name: "endpoint", value: "", usage: "only this endpoint"},
				{name: "state", value: "", usage: "only this state: new, live, stale, failing, paused, idle"},
				{name: "tag", value: "", usage: "only this tag"},
				{name: "q", value: "", usage: "only if the name, id or text contains this"},
			}},
		{use: "show ID", short: "Show a query, its result or why it ran",
			example: "freshet query show types --results\nfreshet query show types --explain",
			run:     showQuery, one: []string{"results explain"}, flags: []option{
				{name: "results", value: false, usage: "print the last complete result"},
				{name: "explain", value: false, usage: "show why it ran or did not, and when it runs next"},
			}},
		{use: "validate FILE", short: "Check whether a query can be registered, and show warnings",
			long: `Analyses the query in FILE (- for standard input) without registering it. With
--run the query is executed once; the exit code is 1 if the execution is not
complete.`,
			example: "freshet query validate --endpoint coins --run types.rq",
			call:    "POST /v1/queries/validate", body: queryText, out: validateQuery, flags: []option{
				{name: "endpoint", value: "", usage: "endpoint to ask"},
				{name: "run", value: false, usage: "execute it once and show the first rows", member: "?run"},
			}},
		{use: "pause ID...", short: "Stop executions until resumed", example: "freshet query pause types",
			call: "POST /v1/queries/{}/pause", out: printPaused("paused")},
		{use: "resume ID...", short: "Undo pause", example: "freshet query resume types",
			call: "POST /v1/queries/{}/resume", out: printPaused("resumed")},
		{use: "refresh ID...", short: "Run in the next slot, before ranked queries", example: "freshet query refresh types",
			call: "POST /v1/queries/{}/refresh", out: printPaused("runs in the next slot")},
		{use: "rm ID...", short: "Release your registration; the query ends with its last registration", example: "freshet query rm types",
			call: "DELETE /v1/queries/{}", out: printDone("released"), flags: []option{
				{name: "force", value: false, usage: "end it for all holders (admin)"},
			}},
	}}

// printPaused says what was done to a query, which other holders may have paused.
func printPaused(done string) printer {
	return func(ctx context.Context, a *remote, r sending) error {
		return showAs(ctx, a, r.method, r.path, nil, func(q api.Query) error {
			said, by := done, ""
			if q.Paused != nil {
				by = q.Paused.By
			}
			switch {
			case done == "paused" && by == "":
				said = "paused for you; other holders want it to run"
			case done == "resumed" && by != "":
				said = "is still paused by " + by
			}
			_, err := fmt.Fprintf(a.w.Stderr, "%s %s\n", r.ref, said)
			return err
		})
	}
}

// readText reads a text from a file, or from standard input for "-".
func (a *remote) readText(path string) (string, error) {
	var b []byte
	var err error
	if path == "-" {
		b, err = io.ReadAll(a.w.Stdin)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return "", cli.UsageErrorf("the file cannot be read: %v", err)
	}
	if !utf8.Valid(b) { // JSON would replace the bytes
		return "", cli.UsageErrorf("%s is not UTF-8: convert it first", path)
	}
	return string(b), nil
}

// queryText adds the text of the query in the file that the argument names.
func queryText(a *remote, _ *cobra.Command, args []string, body map[string]any) (err error) {
	body["query"], err = a.readText(args[0])
	return err
}

func printAdded(a *remote, q api.Query) error {
	for _, x := range q.Warnings {
		fmt.Fprintf(a.w.Stderr, "warning: line %d: %s\n", x.Line, x.Message)
	}
	_, err := fmt.Fprintln(a.w.Stdout, q.ID)
	return err
}

// label is the name of a query, or what its comments call it, or the beginning of its text.
func label(q *api.Query) string {
	return cmp.Or(q.Name, watch.TitleOf(q.Query), show.Shortened(q.Query, 30))
}

// sizeOf is the number of rows of the result, or the answer to an ASK query.
func sizeOf(q *api.Query) string {
	switch {
	case q.Boolean != nil:
		return fmt.Sprint(*q.Boolean)
	case q.Form == diff.Ask:
		return "–"
	}
	return fmt.Sprint(q.Rows)
}

func showQuery(a *remote, c *cobra.Command, args []string) error {
	r := sending{method: http.MethodGet, path: "/v1/queries/" + url.PathEscape(args[0])}
	switch {
	case isOn(c, "explain"):
		r.path += "/explain"
		return printWith(printExplanation)(c.Context(), a, r)
	case !isOn(c, "results"):
		return printMembers(c.Context(), a, r)
	}
	return a.printResult(c.Context(), r.path+"/results", "")
}

// printExplanation prints why a query ran or did not, and then what decided it.
func printExplanation(a *remote, raw json.RawMessage) error {
	var x struct {
		Why string `json:"why"`
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	if x.Why != "" {
		fmt.Fprintf(a.w.Stdout, "%s\n\n", show.Escape(x.Why))
	}
	return printFields(a.w.Stdout, raw, nil, "why")
}

// validateQuery prints the analysis of a query, and its trial run if there was one. It
// returns an error if that was not complete.
func validateQuery(ctx context.Context, a *remote, r sending) error {
	var v api.Analysis
	raw, err := a.answer(ctx, r, &v)
	if err != nil || a.asJSON {
		return errors.Join(err, a.printRun(v.Run, ""))
	}
	if err := printFields(a.w.Stdout, raw, nil, "warnings", "run"); err != nil {
		return err
	}
	for _, x := range v.Warnings {
		fmt.Fprintf(a.w.Stdout, "warning: line %d: %s\n", x.Line, show.Escape(x.Message))
	}
	return a.printRun(v.Run, fmt.Sprintf("trial run: complete in %.3g s, ", valueOf(v.Run).Elapsed))
}

// answer reads the answer to a request, and prints it with --json.
func (a *remote) answer(ctx context.Context, r sending, v any) (raw json.RawMessage, err error) {
	if err = a.do(ctx, r.method, r.path, r.body, &raw); err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err == nil && a.asJSON {
		err = cli.PrintJSON(a.w.Stdout, raw)
	}
	return raw, err
}

// printRun prints what a trial run found: the number of rows or the truth value after a text, and the first rows, one
// a line. With --json that is printed already. The error says why the run was not complete.
func (a *remote) printRun(t *api.Trial, before string) error {
	switch {
	case t == nil || a.asJSON && t.Outcome == "complete":
		return nil
	case t.Outcome != "complete":
		return fmt.Errorf("the trial run was not complete: %s: %s", t.Outcome, show.Escape(t.Error))
	}
	var r struct {
		Head    struct{ Vars []string }
		Boolean *bool
		Results struct{ Bindings []json.RawMessage }
		Triples []string
	}
	if err := json.Unmarshal(t.Results, &r); err != nil {
		return err
	}
	size := show.Quantity(valueOf(t.Rows), "row")
	if r.Boolean != nil {
		size = fmt.Sprint(*r.Boolean)
	}
	fmt.Fprintf(a.w.Stdout, "%s%s\n", before, size)
	for _, row := range r.Results.Bindings {
		fmt.Fprintf(a.w.Stdout, "  %s\n", show.Row(diff.Select, r.Head.Vars, row))
	}
	for _, triple := range r.Triples {
		fmt.Fprintf(a.w.Stdout, "  %s\n", show.Bounded(triple))
	}
	shown := len(r.Results.Bindings) + len(r.Triples)
	if n := valueOf(t.Rows) - shown; n > 0 && shown > 0 {
		fmt.Fprintf(a.w.Stdout, "  and %d more\n", n)
	}
	return nil
}
