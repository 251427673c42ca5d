package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/api"
)

// condition writes an endpoint's state in a word or two.
func condition(e *api.Endpoint) string {
	s := valueOf(e.State)
	switch {
	case e.Pause != nil:
		return "paused"
	case s.Halted != "":
		return "halted"
	case s.Health.State == registry.HealthFailing && s.NextTry != nil:
		return fmt.Sprintf("failing, next try at %s", s.NextTry.UTC().Format("15:04:05"))
	case s.Debt > 0:
		return fmt.Sprintf("%s, in debt: %.3g s", s.Health.State, s.Debt)
	default:
		return s.Health.State
	}
}

// endpointError returns the last error of an endpoint that is not healthy.
func endpointError(e *api.Endpoint) string {
	s := valueOf(e.State)
	if s.Halted != "" && e.Pause == nil {
		return show.Shortened(s.Halted, 100)
	}
	if e.Pause != nil || s.Health.State == registry.Healthy {
		return ""
	}
	return show.Shortened(s.Health.Error, 100)
}

// valueOf returns what a pointer points to, the zero value for nil.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

var endpointTable = row{use: "endpoint", short: "Manage endpoints",
	example: "freshet endpoint add coins http://127.0.0.1:3030/sparql --set budget=5s --set slot='@every 10s'\n" +
		"freshet endpoint tick coins\nfreshet endpoint slots coins --limit 5",
	rows: []row{
		{use: "add [NAME [URL]]", short: "Add an endpoint",
			long: `Adds an endpoint. With --pack, the settings are those of a well-known public endpoint
('freshet endpoint packs' lists them): NAME, URL and --set override them. Public endpoints
need a contact: start the server with --contact.`,
			example: "freshet endpoint add coins http://127.0.0.1:3030/sparql --set budget=5s --set slot='@every 10s'\nfreshet " +
				"endpoint add --pack wikidata",
			run: addEndpoint, flags: []option{
				{name: "set", value: texts(nil), usage: "setting as KEY=VALUE, e.g. budget=5s; may be given several times"},
				{name: "pack", value: "", usage: "take the settings of this pack, e.g. wikidata"},
			}},
		checkRow,
		{use: "packs [NAME]", short: "List the packs of well-known endpoints, or the settings of one with their sources",
			example: "freshet endpoint packs wikidata", run: printPacks},
		{use: "set NAME KEY=VALUE...", short: "Change settings of an endpoint",
			example: "freshet endpoint set coins policy=rr budget=20s\nfreshet endpoint set coins rule=debt timeout=1m",
			run: func(a *remote, c *cobra.Command, args []string) error {
				body, err := settingsBody(args[1:])
				if err != nil {
					return err
				}
				return printEdited("changed")(c.Context(), a, sending{http.MethodPatch, endpointPath(args[0]), body, args[0]})
			}},
		{use: "list", short: "List endpoints", example: "freshet endpoint list", call: "GET /v1/endpoints",
			out: printList("endpoints", "NAME\tSTATE\tQUERIES\tSLOT\tBUDGET\tPOLICY\tURL\tWHY", func(e api.Endpoint) []any {
				return []any{e.Name, condition(&e), valueOf(e.State).Queries, e.Slot, e.Budget, e.Policy, e.URL, endpointError(&e)}
			})},
		{use: "show NAME", short: "Show the settings in force, where they come from, and the health",
			example: "freshet endpoint show coins --json", call: "GET /v1/endpoints/{}", out: printWith(printEndpoint)},
		{use: "slots NAME", short: "Show the last slots, newest first",
			long: `Shows the last slots, newest first. "After it" is what ran between a slot and the next one: because of
hints, events of a feed or new queries.`,
			example: "freshet endpoint slots coins --limit 5",
			call:    "GET /v1/endpoints/{}/slots", flags: []option{{name: "limit", value: 20, usage: "how many"}},
			out: printList("slots", "SLOT\tSTARTED\tPLANNED\tRUN\tCHANGED\tFAILED\tPASSED OVER\tUSED\tBUDGET\tDEBT\tAFTER IT",
				func(s scheduler.Slot) []any {
					return []any{s.Number, s.Started.UTC().Format("2 Jan 15:04:05"), s.Planned, s.Run, s.Changed, s.Failed, s.Skipped,
						fmt.Sprintf("%.3g s", s.Used), fmt.Sprintf("%.3g s", s.Budget), owed(s), between(s)}
				})},
		{use: "tick NAME", short: "Run the next slot now and wait for it", example: "freshet endpoint tick coins",
			call: "POST /v1/endpoints/{}/tick", out: printWith(printSlot)},
		templatesRow, shadowRows,
		{use: "revert NAME [KEY...]", short: "Take the configuration file's values back, of all settings without a KEY",
			example: "freshet endpoint revert coins budget",
			run: func(a *remote, c *cobra.Command, args []string) error {
				path := withParameters(endpointPath(args[0])+"/revert", map[string]any{"setting": args[1:]})
				return printEdited("has the file's values")(c.Context(), a, sending{http.MethodPost, path, nil, args[0]})
			}},
		{use: "pause NAME", short: "Stop its slots until resumed", example: "freshet endpoint pause coins",
			call: "POST /v1/endpoints/{}/pause", out: printDone("paused")},
		{use: "resume NAME", short: "Undo pause", example: "freshet endpoint resume coins",
			call: "POST /v1/endpoints/{}/resume", out: printDone("resumed")},
		{use: "rm NAME", short: "Remove an endpoint with its queries and their history", example: "freshet endpoint rm coins",
			long: `Removes an endpoint with its queries and their history, which cannot be brought back.
An endpoint that the configuration names comes back, without queries, when that is
loaded again: remove it there, too.`,
			call: "DELETE /v1/endpoints/{}", out: removeEndpoint},
	}}

// removeEndpoint removes an endpoint. A note says that it comes back if the configuration names it.
func removeEndpoint(ctx context.Context, a *remote, r sending) error {
	var e api.Endpoint
	if err := a.do(ctx, http.MethodGet, r.path, nil, &e); err != nil {
		return err
	}
	if err := printDone("removed")(ctx, a, r); err != nil {
		return err
	}
	if s := e.Sources["url"]; s.From != registry.FromDefault && (s.From != registry.FromHere || s.File != nil) {
		fmt.Fprintf(a.w.Stderr, "note: the configuration names %s: remove it there, too, or it comes back, without queries, at the next start "+
			"or SIGHUP\n", r.ref)
	}
	return nil
}

func endpointPath(name string) string { return "/v1/endpoints/" + url.PathEscape(name) }

// settingsBody reads KEY=VALUE settings; values are JSON where they can be
// (numbers, true, lists), and strings otherwise.
func settingsBody(set []string) (map[string]any, error) {
	body := map[string]any{}
	for _, s := range set {
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			return nil, cli.UsageErrorf("a setting is KEY=VALUE, such as budget=5s, not %q", s)
		}
		var parsed any
		if json.Unmarshal([]byte(v), &parsed) != nil {
			parsed = v
		}
		body[k] = parsed
	}
	return body, nil
}

func addEndpoint(a *remote, c *cobra.Command, args []string) error {
	body, err := settingsBody(listOf(c, "set"))
	if err != nil {
		return err
	}
	name := textOf(c, "pack")
	if name == "" && len(args) < 2 {
		return cli.UsageErrorf("give a NAME and a URL, or --pack")
	}
	if name != "" {
		body["pack"] = name
	}
	for i, member := range []string{"name", "url"}[:len(args)] {
		body[member] = args[i]
	}
	if len(args) > 0 {
		name = args[0]
	}
	return printDone("added")(c.Context(), a, sending{http.MethodPost, "/v1/endpoints", body, name})
}

// printPacks lists the packs of this program. It needs no server.
func printPacks(a *remote, _ *cobra.Command, args []string) error {
	list := pack.All()
	if len(args) > 0 {
		p, err := pack.Find(args[0])
		if err != nil {
			return cli.WithCode(cli.ExitNotFound, err)
		}
		list = []pack.Pack{p}
	}
	for _, p := range list {
		switch {
		case a.asJSON:
			if err := cli.PrintJSON(a.w.Stdout, p); err != nil {
				return err
			}
		case len(args) == 0:
			fmt.Fprintf(a.w.Stdout, "%-18s %s\n", p.Name, p.Title)
		default:
			printPack(a.w.Stdout, p)
		}
	}
	return nil
}

func printPack(w io.Writer, p pack.Pack) {
	fmt.Fprintf(w, "%s\n", p.Title)
	for _, s := range p.Settings {
		value, _ := json.Marshal(s.Value)
		fmt.Fprintf(w, "  %s: %s\n      %s\n", s.Name, value, s.Source)
	}
	for _, n := range append([]pack.Note{p.Contact}, p.Quirks...) {
		fmt.Fprintf(w, "%s\n      %s\n", n.Text, n.Source)
	}
	for _, r := range p.Rates {
		fmt.Fprintf(w, "%d changes in %d executions of %s\n      %s\n", r.Changes, r.Executions, r.Template, r.Source)
	}
}

// printEdited says what was done to an endpoint, after the server's notes on it.
func printEdited(done string) printer {
	return func(ctx context.Context, a *remote, r sending) error {
		return showAs(ctx, a, r.method, r.path, r.body, func(e api.Endpoint) error {
			for _, note := range e.Notes {
				fmt.Fprintf(a.w.Stderr, "note: %s\n", note)
			}
			_, err := fmt.Fprintf(a.w.Stderr, "%s %s\n", r.ref, done)
			return err
		})
	}
}

// printEndpoint prints an endpoint and the sources of its settings.
func printEndpoint(a *remote, raw json.RawMessage) error {
	var e api.Endpoint
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	remark := func(name string) string {
		if s := e.Sources[name]; s.From != registry.FromDefault {
			return s.String()
		}
		return ""
	}
	return printFields(a.w.Stdout, raw, remark, "sources")
}

// owed writes what a slot repaid, and the debt that it leaves.
func owed(s scheduler.Slot) string {
	var words []string
	if s.Repaid > 0 {
		words = append(words, fmt.Sprintf("repaid %.3g s", s.Repaid))
	}
	if debt := s.Owes().Seconds(); debt > 0 {
		words = append(words, fmt.Sprintf("owes %.3g s", debt))
	}
	return strings.Join(words, ", ")
}

// between writes what ran after a slot and before the next one.
func between(s scheduler.Slot) string {
	if s.OffGrid.Run == 0 {
		return ""
	}
	return fmt.Sprintf("%d ran, %d changed, %d failed", s.OffGrid.Run, s.OffGrid.Changed, s.OffGrid.Failed)
}

func printSlot(a *remote, s scheduler.Slot) error {
	debt := owed(s)
	if debt != "" {
		debt = ", " + debt
	}
	_, err := fmt.Fprintf(a.w.Stdout, "slot %d: %d ran, %d changed, %d failed, %d passed over, %.3g of %.3g s%s\n",
		s.Number, s.Run, s.Changed, s.Failed, s.Skipped, s.Used, s.Budget, debt)
	return err
}
