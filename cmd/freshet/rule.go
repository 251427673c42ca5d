// This file holds the commands of alert rules.

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

func ruleCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	c := &cobra.Command{Use: "rule", Short: "Make alert rules for results, and try them on the history",
		Long: `Makes, tries and lists alert rules. A rule watches the result of a query and sends
alerts to Alertmanager, to webhooks and by e-mail. Only complete answers count: while a result
is stale, nothing fires and nothing is resolved.

A condition (--when) is the number of rows, as in "rows > 0", comparisons of the
variables of a row, as in '?delay > 10 and ?line != "S1"', or the word changed.`,
		Example: "  freshet rule try --query departures --when '?delay > 10' --for 5m\n  freshet rule add late --query departures --when '?delay > 10' --alertmanager http://127.0.0.1:9093\n  freshet rule edit late --for 10m\n  freshet rule pause late\n  freshet rule show late"}
	a.flags(c)
	remove := a.changeEach("remove NAME...", "Remove rules; their firing alerts are resolved", http.MethodDelete, below("/v1/rules", ""), "is removed")
	remove.Aliases = []string{"rm"}
	removeLocally(w, remove)
	pause := a.changeEach("pause NAME...", "Stop evaluating rules; their firing alerts are resolved", http.MethodPost, below("/v1/rules", "/pause"), "is paused")
	resume := a.changeEach("resume NAME...", "Evaluate paused rules from the current results on", http.MethodPost, below("/v1/rules", "/resume"), "is resumed")
	c.AddCommand(a.ruleAdd(), a.ruleTry(), a.ruleList(), a.ruleShow(), a.ruleEdit(), pause, resume, remove)
	return c
}

// removeLocally adds the flags with which a command removes rules from the store of a stopped server.
func removeLocally(w *cli.Env, c *cobra.Command) {
	var local bool
	var data string
	c.Flags().BoolVar(&local, "local", false, "remove from the store of a stopped server; receivers are told nothing")
	c.Flags().StringVar(&data, "data", cmp.Or(w.Getenv(config.Variable("data")), config.Default().Data), "with --local: directory of the store")
	ask := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !local {
			return ask(c, args)
		}
		path := filepath.Join(data, store.File)
		if follows, err := store.Follows(path); err != nil {
			return cli.UsageErrorf("--data: %v", err)
		} else if follows {
			return cli.UsageErrorf("--local: %s belongs to a node of a cluster: start the node and remove the rule there, or at any other node", path)
		}
		db, err := store.Open(data, store.Options{})
		if err != nil {
			return err
		}
		defer db.Close()
		return removeStored(w, db, args)
	}
}

// removeStored removes rules by their ids or names. A name may be that of several callers' rules.
func removeStored(w *cli.Env, db *store.DB, refs []string) error {
	rules, err := db.Rules.Rules()
	if err != nil {
		return err
	}
	for _, ref := range refs {
		var ids []string
		for _, r := range rules {
			if r.ID == ref || r.Name == ref {
				ids = append(ids, r.ID)
			}
		}
		switch len(ids) {
		case 0:
			return fmt.Errorf("no rule has the id or name %s", ref)
		case 1:
		default:
			return fmt.Errorf("several callers use the name %s: use an id: %s", ref, strings.Join(ids, " "))
		}
		if err := db.Rules.EditRules(&registry.RuleEdit{Remove: ids}); err != nil {
			return err
		}
		fmt.Fprintln(w.Stderr, ref, "is removed")
	}
	return nil
}

// A ruleView holds the members of a rule that the commands print.
type ruleView struct {
	ID, Name, Query, When, Status, Reason string
	For                                   string
	KeepFiringFor                         string `json:"keep_firing_for"`
	Pending, Firing                       int
	Fired                                 uint64
	To                                    []struct {
		Webhook, Alertmanager, Email, Secret string
		Waiting, Failures                    int
		LastError                            string `json:"last_error"`
	}
	Alerts  []ruleAlert
	History []ruleAlert
}

// A ruleAlert is an alert, or an event of the history of one.
type ruleAlert struct {
	State   string
	Labels  map[string]string
	Summary string
	Since   time.Time
	Time    time.Time
}

// line describes an alert on one line.
func (v ruleAlert) line() string {
	at := v.Since
	if !v.Time.IsZero() {
		at = v.Time
	}
	text := fmt.Sprintf("  %s  %-8s", at.UTC().Format(time.RFC3339), v.State)
	for _, name := range slices.Sorted(maps.Keys(v.Labels)) {
		text += fmt.Sprintf("  %s=%s", name, v.Labels[name])
	}
	if v.Summary != "" {
		text += "  " + v.Summary
	}
	return escapeControls(text)
}

// ruleFlags adds the flags of a rule's settings.
func ruleFlags(c *cobra.Command) {
	f := c.Flags()
	f.String("query", "", "id or name of the query")
	f.String("when", "", `the condition: "rows > 0", "?delay > 10", or changed`)
	f.String("for", "", "how long it is met before an alert fires, e.g. 30m")
	f.String("keep-firing-for", "", "how long an alert fires after it was met last, e.g. 10m")
	f.StringArray("label", nil, `a label, e.g. line=?line (default: the variables that --when does not compare); may be given several times`)
	f.String("summary", "", `a text for people, e.g. "?line is ?delay minutes late"`)
}

// ruleSettings returns the settings that the flags of a command describe.
func ruleSettings(c *cobra.Command) (map[string]any, error) {
	body := given(c, map[string]string{"label": "", "webhook": "", "alertmanager": "", "email": ""})
	labels, err := c.Flags().GetStringArray("label")
	if err != nil {
		return nil, err
	}
	if len(labels) > 0 {
		all := map[string]string{}
		for _, l := range labels {
			name, value, ok := strings.Cut(l, "=")
			if !ok || name == "" {
				return nil, cli.UsageErrorf("--label: %q is not of the form NAME=TEXT, such as line=?line", l)
			}
			all[name] = value
		}
		body["labels"] = all
	}
	return body, nil
}

func (a *api) ruleAdd() *cobra.Command {
	c := &cobra.Command{Use: "add NAME", Short: "Make a rule", Args: cobra.ExactArgs(1),
		Long: `Makes a rule and prints its id. Without a receiver, its alerts are shown by
"rule show" and on the pages only. The secret that signs the messages of a webhook is
printed once, to standard error (with --json it is in the object).`,
		RunE: func(c *cobra.Command, args []string) error {
			body, err := ruleSettings(c)
			if err != nil {
				return err
			}
			if body["to"], err = alertReceivers(c); err != nil {
				return err
			}
			body["name"] = args[0]
			return showAs(c.Context(), a, http.MethodPost, "/v1/rules", body, func(v ruleView) error { return printSaved(a, v) })
		}}
	ruleFlags(c)
	receiverFlags(c)
	return c
}

func receiverFlags(c *cobra.Command) {
	c.Flags().StringArray("webhook", nil, "URL that gets the alerts after Standard Webhooks; may be given several times")
	c.Flags().StringArray("alertmanager", nil, "base URL of Alertmanager, e.g. http://127.0.0.1:9093; may be given several times")
	c.Flags().StringArray("email", nil, "address that gets the alerts by e-mail; may be given several times")
}

// alertReceivers returns the receivers that the flags of a command name.
func alertReceivers(c *cobra.Command) ([]map[string]string, error) {
	to := []map[string]string{}
	for _, kind := range []string{"webhook", "alertmanager", "email"} {
		list, err := c.Flags().GetStringArray(kind)
		if err != nil {
			return nil, err
		}
		for _, address := range list {
			to = append(to, map[string]string{kind: address})
		}
	}
	return to, nil
}

// printSaved prints the id of a rule, and the secrets of its webhooks that are new.
func printSaved(a *api, v ruleView) error {
	for _, x := range v.To {
		if x.Secret != "" {
			fmt.Fprintf(a.w.Stderr, "The secret of %s is shown only now: %s\n", x.Webhook, x.Secret)
		}
	}
	_, err := fmt.Fprintln(a.w.Stdout, v.ID)
	return err
}

func (a *api) ruleEdit() *cobra.Command {
	c := &cobra.Command{Use: "edit NAME", Short: "Change settings of a rule", Args: cobra.ExactArgs(1),
		Long: `Changes the settings that are given and prints the id of the rule. After a change of
--name, --query, --when or --label its alerts begin again: firing ones are resolved, and the
rule is evaluated from the current result on. After any other change they go on. Receivers
that are given replace all of the rule's. An empty text resets a setting to its default.`,
		Example: "  freshet rule edit late --when '?delay > 15'\n  freshet rule edit late --for 10m --alertmanager http://127.0.0.1:9093\n  freshet rule edit late --no-receivers",
		RunE: func(c *cobra.Command, args []string) error {
			body, err := ruleSettings(c)
			if err != nil {
				return err
			}
			delete(body, "no_receivers")
			for name, value := range body {
				if value == "" {
					body[name] = nil
				}
			}
			to, err := alertReceivers(c)
			if err != nil {
				return err
			}
			if none, err := c.Flags().GetBool("no-receivers"); err != nil {
				return err
			} else if none && len(to) > 0 {
				return cli.UsageErrorf("--no-receivers: give receivers or this flag, not both")
			} else if none || len(to) > 0 {
				body["to"] = to
			}
			if len(body) == 0 {
				return cli.UsageErrorf("nothing to change: give at least one setting, such as --for 10m")
			}
			return showAs(c.Context(), a, http.MethodPatch, below("/v1/rules", "")(args[0]), body, func(v ruleView) error { return printSaved(a, v) })
		}}
	ruleFlags(c)
	receiverFlags(c)
	c.Flags().String("name", "", "another name")
	c.Flags().Bool("no-receivers", false, "send the alerts to no one")
	return c
}

func (a *api) ruleTry() *cobra.Command {
	c := &cobra.Command{Use: "try", Short: "Show what a rule would have done over the history of its query", Args: cobra.NoArgs,
		Long: `Evaluates a rule over the changes of its query that are kept, and prints when it would
have fired. Nothing is saved and nothing is sent. The log holds changes only: the trial
supposes that each result was confirmed all the time until the next change.`,
		RunE: func(c *cobra.Command, _ []string) error {
			body, err := ruleSettings(c)
			if err != nil {
				return err
			}
			return tryRule(c.Context(), a, body)
		}}
	ruleFlags(c)
	return c
}

func tryRule(ctx context.Context, a *api, body any) error {
	return showAs(ctx, a, http.MethodPost, "/v1/rules/try", body, func(v struct {
		From, To        time.Time
		Changes         int
		Fired, Resolved uint64
		Problem         string
		History         []ruleAlert
	}) error {
		fmt.Fprintf(a.w.Stdout, "would have fired %s since %s, in %s\n", counted(v.Fired, "time"), v.From.UTC().Format(time.RFC3339), counted(uint64(v.Changes), "change"))
		for _, e := range v.History {
			fmt.Fprintln(a.w.Stdout, e.line())
		}
		if v.Problem != "" {
			fmt.Fprintln(a.w.Stdout, escapeControls(v.Problem))
		}
		return nil
	})
}

// counted writes a number of things.
func counted(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (a *api) ruleList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List rules", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return printTable(c.Context(), a, withGiven("/v1/rules", c, nil), "rules", "NAME\tSTATUS\tFIRING\tPENDING\tFIRED\tQUERY\tWHEN\tTROUBLE", func(v ruleView) []any {
				trouble := v.Reason
				for _, x := range v.To {
					if x.LastError != "" {
						trouble = strings.TrimSpace(trouble + " " + x.LastError)
					}
				}
				return []any{v.Name, v.Status, v.Firing, v.Pending, v.Fired, v.Query, v.When, escapeControls(trouble)}
			})
		}}
	c.Flags().String("status", "", "only this status: firing, pending, inactive, stale, waiting, failing, paused, ended")
	c.Flags().String("query", "", "only of this query (its id)")
	return c
}

func (a *api) ruleShow() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show a rule with its alerts and its history", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showAs(c.Context(), a, http.MethodGet, below("/v1/rules", "")(args[0]), nil, func(v ruleView) error {
				printRule(a, v)
				return nil
			})
		}}
}

func printRule(a *api, v ruleView) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(a.w.Stdout, "%-10s %s\n", name, escapeControls(fmt.Sprintf(format, args...)))
	}
	line("rule", "%s (%s)", v.Name, v.ID)
	line("query", "%s", v.Query)
	when := v.When
	if v.For != "0s" {
		when += ", for " + v.For
	}
	if v.KeepFiringFor != "0s" {
		when += ", keeps firing for " + v.KeepFiringFor
	}
	line("when", "%s", when)
	status := v.Status
	if v.Reason != "" {
		status += ": " + v.Reason
	}
	line("status", "%s", status)
	line("fired", "%s", counted(v.Fired, "time"))
	for _, x := range v.To {
		text := strings.TrimSpace(x.Webhook + x.Alertmanager + x.Email)
		if x.Waiting > 0 {
			text += fmt.Sprintf(", %s waiting", counted(uint64(x.Waiting), "message"))
		}
		if x.LastError != "" {
			text += ": " + x.LastError
		}
		line("to", "%s", text)
	}
	print := func(title string, list []ruleAlert) {
		if len(list) > 0 {
			fmt.Fprintln(a.w.Stdout, title)
		}
		for _, x := range list {
			fmt.Fprintln(a.w.Stdout, x.line())
		}
	}
	print("alerts, with the time since when", v.Alerts)
	print("history", v.History)
}
