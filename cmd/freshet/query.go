package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A queryView holds the members of the query resource that the commands print.
type queryView struct {
	ID        string         `json:"id"`
	Endpoint  string         `json:"endpoint"`
	Name      string         `json:"name"`
	Form      string         `json:"form"`
	State     string         `json:"state"`
	Query     string         `json:"query"`
	Rows      int            `json:"rows"`
	Boolean   *bool          `json:"boolean"` // of ASK
	Changes   int            `json:"changes"`
	CheckedAt time.Time      `json:"checked_at"`
	ChangedAt time.Time      `json:"changed_at"`
	Paused    registry.Pause `json:"paused"`
	Error     string         `json:"error"`
	Since     time.Time      `json:"failing_since"`
	Failures  int            `json:"failures"`
	Warnings  []struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Line    int    `json:"line"`
	} `json:"warnings"`
}

// why returns in one line why a query is neither live nor new, according to its last
// execution.
func (q *queryView) why() string {
	if q.State == "live" || q.State == "new" || q.Error == "" {
		return ""
	}
	s := shortened(q.Error, 100)
	switch {
	case q.Failures > 1:
		return fmt.Sprintf("%d times since %s: %s", q.Failures, q.Since.UTC().Format("2 Jan 15:04"), s)
	case !q.Since.IsZero():
		return "since " + q.Since.UTC().Format("2 Jan 15:04") + ": " + s
	}
	return s
}

// shortened returns a text in one line of at most so many bytes.
func shortened(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

func queryCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	c := &cobra.Command{Use: "query", Short: "Register and manage queries",
		Example: "  freshet query add --endpoint coins --name types types.rq\n  echo 'ASK {?s ?p ?o}' | freshet query add --endpoint coins -\n  freshet query list --tag demo"}
	a.flags(c)
	c.AddCommand(a.queryAdd(), a.queryList(), a.queryShow(), a.queryValidate(), a.queryRemove())
	for _, v := range []struct{ name, short, done string }{
		{"pause", "Stop executions until resumed", "paused"},
		{"resume", "Undo pause", "resumed"},
		{"refresh", "Run in the next slot, before ranked queries", "runs in the next slot"},
	} {
		c.AddCommand(&cobra.Command{Use: v.name + " ID...", Short: v.short, Args: cobra.MinimumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				for _, ref := range args {
					if err := a.act(c.Context(), ref, v.name, v.done); err != nil {
						return err
					}
				}
				return nil
			}})
	}
	return c
}

// act applies a verb to a query and reports the outcome.
func (a *api) act(ctx context.Context, ref, verb, done string) error {
	return showAs(ctx, a, http.MethodPost, below("/v1/queries", "/"+verb)(ref), nil, func(q queryView) error {
		switch by := q.Paused.By; {
		case verb == "pause" && by == "":
			done = "paused for you; other holders want it to run"
		case verb == "resume" && by != "":
			done = "is still paused by " + by
		}
		_, err := fmt.Fprintf(a.w.Stderr, "%s %s\n", ref, done)
		return err
	})
}

// readQuery reads the query text from a file, or from standard input for "-".
func (a *api) readQuery(path string) (string, error) {
	var b []byte
	var err error
	if path == "-" {
		b, err = io.ReadAll(a.w.Stdin)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return "", cli.UsageErrorf("the query cannot be read: %v", err)
	}
	if !utf8.Valid(b) { // JSON would replace the bytes
		return "", cli.UsageErrorf("%s is not UTF-8: convert it first", path)
	}
	return string(b), nil
}

func (a *api) queryAdd() *cobra.Command {
	c := &cobra.Command{Use: "add FILE", Short: "Register the query in FILE (- for standard input)", Args: cobra.ExactArgs(1),
		Long: `Registers the query and prints its id. A name belongs to one of your queries. To give a name
to another text, use --replace: it moves the name to the new query and releases your
registration of the old one. The new query starts a history of its own.`,
		Example: "  freshet query add --endpoint coins --name types --tag demo types.rq\n  freshet query add --name types --replace types.rq",
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.readQuery(args[0])
			if err != nil {
				return err
			}
			body := given(c, map[string]string{"tag": "tags", "default-graph": "default_graph_uri", "named-graph": "named_graph_uri"})
			body["query"] = text
			return showAs(c.Context(), a, http.MethodPost, "/v1/queries", body, a.printAdded)
		}}
	f := c.Flags()
	f.String("endpoint", "", "endpoint to ask (default: the server's default, or the only one)")
	f.String("name", "", "your name for the query")
	f.StringSlice("tag", nil, "tag; may be given several times")
	f.Float64("weight", 1, "importance beside other queries")
	f.String("max-staleness", "", "maximum age of the result, e.g. 10m")
	f.String("min-interval", "", "minimum time between two executions, e.g. 1m")
	f.Bool("ordered", false, "treat the order of rows as part of the result (default: if the query has ORDER BY)")
	f.Bool("alone", false, "never ask it in one request with other queries")
	f.Bool("public", false, "let anyone read the results without a token")
	f.Bool("replace", false, "move the name from your other query, and release that query")
	f.StringArray("default-graph", nil, "default graph IRI; may be given several times")
	f.StringArray("named-graph", nil, "named graph IRI; may be given several times")
	return c
}

func (a *api) printAdded(q queryView) error {
	for _, x := range q.Warnings {
		fmt.Fprintf(a.w.Stderr, "warning: line %d: %s\n", x.Line, x.Message)
	}
	_, err := fmt.Fprintln(a.w.Stdout, q.ID)
	return err
}

func (a *api) queryList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List queries", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return listQueries(c.Context(), a, withGiven("/v1/queries", c, nil))
		}}
	f := c.Flags()
	f.String("endpoint", "", "only this endpoint")
	f.String("state", "", "only this state: new, live, stale, failing, paused, idle")
	f.String("tag", "", "only this tag")
	f.String("q", "", "only if the name, id or text contains this")
	return c
}

// listQueries prints queries in the order of their names.
func listQueries(ctx context.Context, a *api, path string) error {
	if a.asJSON {
		return printTable[json.RawMessage](ctx, a, path, "queries", "", nil)
	}
	var all []queryView
	if err := each(ctx, a, path, "queries", func(q queryView) error {
		all = append(all, q)
		return nil
	}); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(x, y queryView) int { return strings.Compare(x.label(), y.label()) })
	now := time.Now()
	t := tabwriter.NewWriter(a.w.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tENDPOINT\tSTATE\tROWS\tCHANGES\tCHECKED\tCHANGED\tID\tWHY")
	for _, q := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", escapeControls(q.label()), q.Endpoint, q.State, q.size(), q.Changes, ago(q.CheckedAt, now), ago(q.ChangedAt, now), q.ID, q.why())
	}
	return t.Flush()
}

// label is the name of a query, or the beginning of its text.
func (q *queryView) label() string { return cmp.Or(q.Name, shortened(q.Query, 30)) }

// size is the number of rows of the result, or the answer to an ASK query.
func (q *queryView) size() string {
	switch {
	case q.Boolean != nil:
		return fmt.Sprint(*q.Boolean)
	case q.Form == string(diff.Ask):
		return "–"
	}
	return fmt.Sprint(q.Rows)
}

func (a *api) queryShow() *cobra.Command {
	var results, explain bool
	c := &cobra.Command{Use: "show ID", Short: "Show a query, its result or why it ran", Args: cobra.ExactArgs(1),
		Example: "  freshet query show types --results\n  freshet query show types --explain",
		RunE: func(c *cobra.Command, args []string) error {
			path := below("/v1/queries", "")(args[0])
			if explain {
				path += "/explain"
			}
			if !results {
				return showAs(c.Context(), a, http.MethodGet, path, nil, func(raw json.RawMessage) error {
					if explain {
						return printExplanation(a.w.Stdout, raw)
					}
					return printFields(a.w.Stdout, raw, nil)
				})
			}
			resp, err := a.send(c.Context(), http.MethodGet, path+"/results", "", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return printResult(a.w, resp, "", a.asJSON)
		}}
	c.Flags().BoolVar(&results, "results", false, "print the last complete result")
	c.Flags().BoolVar(&explain, "explain", false, "show why it ran or did not, and when it runs next")
	c.MarkFlagsMutuallyExclusive("results", "explain")
	return c
}

// printExplanation prints why a query ran or did not, and then what decided it.
func printExplanation(w io.Writer, raw json.RawMessage) error {
	var x struct {
		Why string `json:"why"`
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	if x.Why != "" {
		fmt.Fprintf(w, "%s\n\n", escapeControls(x.Why))
	}
	return printFields(w, raw, nil, "why")
}

func (a *api) queryValidate() *cobra.Command {
	var try bool
	c := &cobra.Command{Use: "validate FILE", Short: "Check whether a query can be registered, and show warnings", Args: cobra.ExactArgs(1),
		Long: `Analyses the query in FILE (- for standard input) without registering it. With
--run the query is executed once; the exit code is 1 if the execution is not
complete.`,
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.readQuery(args[0])
			if err != nil {
				return err
			}
			path := "/v1/queries/validate"
			if try {
				path += "?run=1"
			}
			body := given(c, map[string]string{"run": ""})
			body["query"] = text
			var raw json.RawMessage
			if err := a.do(c.Context(), http.MethodPost, path, body, &raw); err != nil {
				return err
			}
			return a.printAnalysis(raw)
		}}
	c.Flags().String("endpoint", "", "endpoint to ask")
	c.Flags().BoolVar(&try, "run", false, "execute it once and show the first rows")
	return c
}

// A trial is one execution by "query validate --run".
type trial struct {
	Outcome string          `json:"outcome"`
	Elapsed float64         `json:"elapsed_seconds"`
	Rows    int             `json:"rows"`
	Results json.RawMessage `json:"results"`
	Error   string          `json:"error"`
}

// printAnalysis prints the analysis of a query, and its trial run if there was one. It
// returns an error if that was not complete.
func (a *api) printAnalysis(raw json.RawMessage) error {
	var v struct {
		queryView
		Run *trial `json:"run"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if a.asJSON {
		if err := cli.PrintJSON(a.w.Stdout, raw); err != nil {
			return err
		}
		return v.Run.problem()
	}
	if err := printFields(a.w.Stdout, raw, nil, "warnings", "run"); err != nil {
		return err
	}
	for _, x := range v.Warnings {
		fmt.Fprintf(a.w.Stdout, "warning: line %d: %s\n", x.Line, escapeControls(x.Message))
	}
	if err := v.Run.problem(); v.Run == nil || err != nil {
		return err
	}
	fmt.Fprintf(a.w.Stdout, "trial run: complete in %.3g s, %s\n", v.Run.Elapsed, v.Run.size())
	return v.Run.printRows(a.w.Stdout)
}

// problem returns an error that says why a trial run was not complete.
func (t *trial) problem() error {
	if t == nil || t.Outcome == "complete" {
		return nil
	}
	return fmt.Errorf("the trial run was not complete: %s: %s", t.Outcome, escapeControls(t.Error))
}

// size returns the number of rows of a trial run, or its truth value.
func (t *trial) size() string {
	var ask struct{ Boolean *bool }
	if json.Unmarshal(t.Results, &ask) == nil && ask.Boolean != nil {
		return strconv.FormatBool(*ask.Boolean)
	}
	return quantity(t.Rows, "row")
}

// printRows prints the first rows, one a line.
func (t *trial) printRows(w io.Writer) error {
	var r struct {
		Head    struct{ Vars []string }
		Results struct{ Bindings []json.RawMessage }
		Triples []string
	}
	if err := json.Unmarshal(t.Results, &r); err != nil {
		return err
	}
	for _, row := range r.Results.Bindings {
		fmt.Fprintf(w, "  %s\n", rowText(diff.Select, r.Head.Vars, row))
	}
	for _, triple := range r.Triples {
		fmt.Fprintf(w, "  %s\n", boundedText(triple))
	}
	if n := t.Rows - len(r.Results.Bindings) - len(r.Triples); n > 0 && len(r.Results.Bindings)+len(r.Triples) > 0 {
		fmt.Fprintf(w, "  and %d more\n", n)
	}
	return nil
}

func (a *api) queryRemove() *cobra.Command {
	var force bool
	c := a.changeEach("rm ID...", "Release your registration; the query ends with its last registration", http.MethodDelete, func(ref string) string {
		if force {
			return below("/v1/queries", "?force=1")(ref)
		}
		return below("/v1/queries", "")(ref)
	}, "released")
	c.Flags().BoolVar(&force, "force", false, "end it for all holders (admin)")
	return c
}
