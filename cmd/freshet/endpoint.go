package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An endpointView holds the members of the endpoint resource that the commands print.
type endpointView struct {
	Name   string              `json:"name"`
	URL    string              `json:"url"`
	Slot   string              `json:"slot"`
	Budget string              `json:"budget"`
	Policy string              `json:"policy"`
	Pause  *registry.Pause     `json:"pause"`
	State  scheduler.LoopState `json:"state"`
}

// condition writes an endpoint's state in a word or two.
func (e endpointView) condition() string {
	switch s := e.State; {
	case e.Pause != nil:
		return "paused"
	case s.Halted != "":
		return "halted"
	case s.Health.State == registry.HealthFailing && !s.NextTry.IsZero():
		return fmt.Sprintf("failing, next try at %s", s.NextTry.UTC().Format("15:04:05"))
	case s.Debt > 0:
		return fmt.Sprintf("%s, in debt: %.3g s", s.Health.State, s.Debt)
	default:
		return s.Health.State
	}
}

// why returns the last error of an endpoint that is not healthy.
func (e endpointView) why() string {
	if e.State.Halted != "" && e.Pause == nil {
		return shortened(e.State.Halted, 100)
	}
	if e.Pause != nil || e.State.Health.State == registry.Healthy {
		return ""
	}
	return shortened(e.State.Health.Error, 100)
}

// endpointCommands are the commands about endpoints.
type endpointCommands struct{ *api }

func endpointCommand(w *cli.Env) *cobra.Command {
	a := endpointCommands{&api{w: w}}
	c := &cobra.Command{Use: "endpoint", Short: "Manage endpoints",
		Example: "  freshet endpoint add coins http://127.0.0.1:3030/sparql --set budget=5s --set slot='@every 10s'\n  freshet endpoint tick coins\n  freshet endpoint slots coins --limit 5"}
	a.flags(c)
	c.AddCommand(a.add(), a.check(), a.packs(), a.set(), a.list(), a.show(), a.slots(), a.tick(), a.templates(), a.revert(), a.shadow())
	for _, v := range []struct{ name, method, path, short, done string }{
		{"rm", http.MethodDelete, "", "Remove an endpoint with its queries and their history", "removed"},
		{"pause", http.MethodPost, "/pause", "Stop its slots until resumed", "paused"},
		{"resume", http.MethodPost, "/resume", "Undo pause", "resumed"},
	} {
		c.AddCommand(a.changeEach(v.name+" NAME", v.short, v.method, below("/v1/endpoints", v.path), v.done))
	}
	return c
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

func (a endpointCommands) add() *cobra.Command {
	var set []string
	var from string
	c := &cobra.Command{Use: "add [NAME [URL]]", Short: "Add an endpoint", Args: cobra.MaximumNArgs(2),
		Long: `Adds an endpoint. With --pack, the settings are those of a well-known public endpoint
('freshet endpoint packs' lists them): NAME, URL and --set override them. Public endpoints
need a contact: start the server with --contact.`,
		RunE: func(c *cobra.Command, args []string) error {
			body, err := settingsBody(set)
			if err != nil {
				return err
			}
			if from == "" && len(args) < 2 {
				return cli.UsageErrorf("give a NAME and a URL, or --pack")
			}
			for i, member := range []string{"name", "url"}[:len(args)] {
				body[member] = args[i]
			}
			name := from
			if from != "" {
				body["pack"] = from
			}
			if len(args) > 0 {
				name = args[0]
			}
			return a.change(c.Context(), http.MethodPost, "/v1/endpoints", body, name, "added")
		}}
	c.Flags().StringArrayVar(&set, "set", nil, "setting as KEY=VALUE, e.g. budget=5s; may be given several times")
	c.Flags().StringVar(&from, "pack", "", "take the settings of this pack, e.g. wikidata")
	return c
}

// packs lists the packs of this program. It needs no server.
func (a endpointCommands) packs() *cobra.Command {
	return &cobra.Command{Use: "packs [NAME]", Short: "List the packs of well-known endpoints, or the settings of one with their sources", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, p := range pack.All() {
					if err := a.printPack(p, func() error {
						_, err := fmt.Fprintf(a.w.Stdout, "%-12s %s\n", p.Name, p.Title)
						return err
					}); err != nil {
						return err
					}
				}
				return nil
			}
			p, err := pack.Find(args[0])
			if err != nil {
				return cli.WithCode(cli.ExitNotFound, err)
			}
			return a.printPack(p, func() error {
				fmt.Fprintf(a.w.Stdout, "%s\n", p.Title)
				for _, s := range p.Settings {
					value, _ := json.Marshal(s.Value)
					fmt.Fprintf(a.w.Stdout, "  %s: %s\n      %s\n", s.Name, value, s.Source)
				}
				for _, n := range append([]pack.Note{p.Contact}, p.Quirks...) {
					fmt.Fprintf(a.w.Stdout, "%s\n      %s\n", n.Text, n.Source)
				}
				return nil
			})
		}}
}

func (a endpointCommands) printPack(p pack.Pack, print func() error) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, p)
	}
	return print()
}

func (a endpointCommands) set() *cobra.Command {
	return &cobra.Command{Use: "set NAME KEY=VALUE...", Short: "Change settings of an endpoint", Args: cobra.MinimumNArgs(2),
		Example: "  freshet endpoint set coins policy=rr budget=20s\n  freshet endpoint set coins rule=debt timeout=1m",
		RunE: func(c *cobra.Command, args []string) error {
			body, err := settingsBody(args[1:])
			if err != nil {
				return err
			}
			return a.changeEndpoint(c.Context(), http.MethodPatch, endpointPath(args[0]), body, args[0], "changed")
		}}
}

func (a endpointCommands) revert() *cobra.Command {
	return &cobra.Command{Use: "revert NAME [KEY...]", Short: "Take the configuration file's values back, of all settings without a KEY", Args: cobra.MinimumNArgs(1),
		Example: "  freshet endpoint revert coins budget",
		RunE: func(c *cobra.Command, args []string) error {
			v := url.Values{"setting": args[1:]}
			return a.changeEndpoint(c.Context(), http.MethodPost, endpointPath(args[0])+"/revert?"+v.Encode(), nil, args[0], "has the file's values")
		}}
}

// changeEndpoint is change that also prints the server's notes on the edit.
func (a endpointCommands) changeEndpoint(ctx context.Context, method, path string, in any, name, done string) error {
	return showAs(ctx, a.api, method, path, in, func(e struct {
		Notes []string `json:"notes"`
	}) error {
		for _, note := range e.Notes {
			fmt.Fprintf(a.w.Stderr, "note: %s\n", note)
		}
		_, err := fmt.Fprintf(a.w.Stderr, "%s %s\n", name, done)
		return err
	})
}

func (a endpointCommands) list() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List endpoints", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return printTable(c.Context(), a.api, "/v1/endpoints", "endpoints", "NAME\tSTATE\tQUERIES\tSLOT\tBUDGET\tPOLICY\tURL\tWHY", func(e endpointView) []any {
				return []any{e.Name, e.condition(), e.State.Queries, e.Slot, e.Budget, e.Policy, e.URL, e.why()}
			})
		}}
}

func (a endpointCommands) show() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show the settings in force, where they come from, and the health", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showAs(c.Context(), a.api, http.MethodGet, endpointPath(args[0]), nil, func(raw json.RawMessage) error { return printEndpoint(a.w.Stdout, raw) })
		}}
}

// printEndpoint prints an endpoint and the sources of its settings.
func printEndpoint(w io.Writer, raw json.RawMessage) error {
	var e struct {
		Sources map[string]registry.Source `json:"sources"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	remark := func(name string) string {
		if s := e.Sources[name]; s.From != registry.FromDefault {
			return s.String()
		}
		return ""
	}
	return printFields(w, raw, remark, "sources")
}

func (a endpointCommands) slots() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "slots NAME", Short: "Show the last slots, newest first", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := endpointPath(args[0]) + "/slots?limit=" + strconv.Itoa(limit)
			return printTable(c.Context(), a.api, path, "slots", "SLOT\tSTARTED\tPLANNED\tRUN\tCHANGED\tFAILED\tPASSED OVER\tUSED\tBUDGET\tDEBT", func(s scheduler.Slot) []any {
				return []any{s.Number, s.Started.UTC().Format("2 Jan 15:04:05"), s.Planned, s.Run, s.Found(), s.Failed, s.Skipped,
					fmt.Sprintf("%.3g s", s.Used), fmt.Sprintf("%.3g s", s.Budget), owed(s)}
			})
		}}
	c.Flags().IntVar(&limit, "limit", 20, "how many")
	return c
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

func (a endpointCommands) tick() *cobra.Command {
	return &cobra.Command{Use: "tick NAME", Short: "Run the next slot now and wait for it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showAs(c.Context(), a.api, http.MethodPost, endpointPath(args[0])+"/tick", nil, func(s scheduler.Slot) error {
				debt := owed(s)
				if debt != "" {
					debt = ", " + debt
				}
				_, err := fmt.Fprintf(a.w.Stdout, "slot %d: %d ran, %d changed, %d failed, %d passed over, %.3g of %.3g s%s\n", s.Number, s.Run, s.Changed, s.Failed, s.Skipped, s.Used, s.Budget, debt)
				return err
			})
		}}
}
