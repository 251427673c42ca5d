// This file holds the commands of alert rules.

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web/api"
)

var ruleTable = row{use: "rule", short: "Make alert rules for results, and try them on the history",
	long: `Makes, tries and lists alert rules. A rule watches the result of a query and sends
alerts to Alertmanager, to webhooks and by e-mail. Only complete answers count: while a result
is stale, nothing fires and nothing is resolved.

A condition (--when) is the number of rows, as in "rows > 0", comparisons of the
variables of a row, as in '?delay > 10 and ?line != "S1"', or the word changed.`,
	example: "freshet rule try --query departures --when '?delay > 10' --for 5m\n" +
		"freshet rule add late --query departures --when '?delay > 10' --alertmanager http://127.0.0.1:9093\n" +
		"freshet rule edit late --for 10m\nfreshet rule pause late\nfreshet rule show late",
	rows: []row{
		{use: "add NAME", short: "Make a rule",
			long: `Makes a rule and prints its id. Without a receiver, its alerts are shown by
"rule show" and on the pages only. The secret that signs the messages of a webhook is
printed once, to standard error (with --json it is in the object).`,
			example: "freshet rule add late --query departures --when '?delay > 10' --notify https://ntfy.sh/city-a81b --quiet " +
				"22:00-07:00 --repeat 4h\n" +
				"freshet rule add late --query departures --when '?delay > 10' --for 5m --label line=?line \\\n" +
				"    --summary '?line is ?delay minutes late' --alertmanager http://127.0.0.1:9093",
			call: "POST /v1/rules", arg: "name", body: newRule, out: printWith(printSaved), flags: slices.Concat(ruleFlags, receiverFlags)},
		{use: "try", short: "Show what a rule would have done over the history of its query",
			long: `Evaluates a rule over the changes of its query that are kept, and prints when it would
have fired. Nothing is saved and nothing is sent. The log holds changes only: the trial
supposes that each result was confirmed all the time until the next change.`,
			example: "freshet rule try --query departures --when 'rows > 0' --for 30m",
			call:    "POST /v1/rules/try", body: ruleLabels, out: printWith(printTrial), flags: ruleFlags},
		{use: "list", short: "List rules", example: "freshet rule list --status firing", call: "GET /v1/rules",
			out: printList("rules", "NAME\tSTATUS\tFIRING\tPENDING\tFIRED\tQUERY\tWHEN\tTROUBLE", func(v api.Rule) []any {
				return []any{v.Name, v.Status, v.Firing, v.Pending, v.Fired, v.Query, v.When, show.Escape(ruleTrouble(&v))}
			}), flags: []option{
				{name: "status", value: "", usage: "only this status: firing, pending, inactive, stale, waiting, failing, paused, ended"},
				{name: "query", value: "", usage: "only of this query (its id or name)"},
			}},
		{use: "show NAME", short: "Show a rule with its alerts and its history", example: "freshet rule show late",
			call: "GET /v1/rules/{}", out: printWith(printRule)},
		{use: "alerts NAME", short: "List the alerts that a rule has now", example: "freshet rule alerts late --state firing",
			call: "GET /v1/rules/{}/alerts",
			out: printList("alerts", "SINCE\tSTATE\tALERT", func(v api.Alert) []any {
				return []any{v.Since.UTC().Format(time.RFC3339), v.State, strings.TrimSpace(alertText(v.Labels, v.Summary))}
			}), flags: []option{{name: "state", value: "", usage: "only this state: firing, pending"}}},
		{use: "edit NAME", short: "Change settings of a rule",
			long: `Changes the settings that are given and prints the id of the rule. After a change of
--name, --query, --when or --label its alerts begin again: firing ones are resolved, and the
rule is evaluated from the current result on. After any other change they go on. Receivers
that are given replace all of the rule's. An empty text resets a setting to its default.`,
			example: "freshet rule edit late --when '?delay > 15'\nfreshet rule edit late --for 10m --alertmanager http://127.0.0.1:9093\n" +
				"freshet rule edit late --no-receivers",
			call: "PATCH /v1/rules/{}", body: editedRule, out: printWith(printSaved), flags: slices.Concat(ruleFlags, receiverFlags, []option{
				{name: "name", value: "", usage: "another name"},
				{name: "no-receivers", value: false, usage: "send the alerts to no one", member: "-"},
			})},
		{use: "pause NAME...", short: "Stop evaluating rules; their firing alerts are resolved", example: "freshet rule pause late",
			call: "POST /v1/rules/{}/pause", out: printDone("is paused")},
		{use: "resume NAME...", short: "Evaluate paused rules from the current results on", example: "freshet rule resume late",
			call: "POST /v1/rules/{}/resume", out: printDone("is resumed")},
		{use: "remove NAME...", alias: "rm", short: "Remove rules; their firing alerts are resolved", example: "freshet rule remove late",
			run: removeRules, flags: []option{
				{name: "local", value: false, usage: "remove from the store of a stopped server; receivers are told nothing"},
				{name: "data", value: variable(dataDirectory), usage: "with --local: directory of the store"},
			}},
	}}

// removeRules removes rules, with --local from the store of a stopped server.
func removeRules(a *remote, c *cobra.Command, args []string) error {
	if !isOn(c, "local") {
		return a.sendEach(row{use: c.Use, call: "DELETE /v1/rules/{}", out: printDone("is removed")}, c, args)
	}
	if err := outsideCluster(textOf(c, "data"), "--local", "remove the rule there"); err != nil {
		return err
	}
	return withStore(store.Options{}, removeStored)(a, c, args)
}

// removeStored removes rules by their ids or names. A name may be that of several callers' rules.
func removeStored(a *remote, db *store.DB, _ *cobra.Command, refs []string) error {
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
		if err := a.sayDone(ref, "is removed"); err != nil {
			return err
		}
	}
	return nil
}

// alertLine describes an alert, or an event of the history of one, on one line.
func alertLine(at time.Time, state registry.AlertState, labels map[string]string, summary string) string {
	return fmt.Sprintf("  %s  %-8s%s", at.UTC().Format(time.RFC3339), state, alertText(labels, summary))
}

// alertText says which alert it is, after two blanks.
func alertText(labels map[string]string, summary string) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text += fmt.Sprintf("  %s=%s", name, labels[name])
	}
	if summary != "" {
		text += "  " + summary
	}
	return show.Escape(text)
}

func printEvents(a *remote, events []api.RuleEvent) {
	for _, e := range events {
		fmt.Fprintln(a.w.Stdout, alertLine(e.Time, e.State, e.Labels, e.Summary))
	}
}

// ruleTrouble returns why the rule has its status, and the last errors of its receivers.
func ruleTrouble(v *api.Rule) string {
	trouble := v.Reason
	for _, x := range v.To {
		if x.LastError != "" {
			trouble = strings.TrimSpace(trouble + " " + x.LastError)
		}
	}
	return trouble
}

// ruleFlags are those of a rule's settings.
var ruleFlags = []option{
	{name: "query", value: "", usage: "id or name of the query"},
	{name: "when", value: "", usage: `the condition: "rows > 0", "?delay > 10", or changed`},
	{name: "for", value: "", usage: "how long it is met before an alert fires, e.g. 30m"},
	{name: "keep-firing-for", value: "", usage: "how long an alert fires after it was met last, e.g. 10m"},
	{name: "label", value: texts(nil), member: "-",
		usage: `a label, e.g. line=?line (default: the variables that --when does not compare); may be given several times`},
	{name: "summary", value: "", usage: `a text for people, e.g. "?line is ?delay minutes late"`},
}

// receiverFlags are those of a rule's receivers, one for each kind.
var receiverFlags = func() (list []option) {
	for _, k := range alert.Kinds() {
		list = append(list, option{name: k.Name, value: texts(nil), usage: k.Usage + "; may be given several times", member: "-"})
	}
	return append(list, quietFlags...)
}()

// quietFlags say when the receivers of the command are told something.
var quietFlags = []option{
	{name: "digest", value: "", usage: "with --notify or --email: one message for all, each 1h (1m to 24h), or each day at a " +
		"time such as 08:00", member: "-"},
	{name: "zone", value: "", usage: "with --notify or --email: time zone of the times, e.g. Europe/Berlin (default UTC)", member: "-"},
	{name: "quiet", value: "", usage: "with --notify or --email: hours without messages, e.g. 22:00-07:00", member: "-"},
	{name: "most", value: "", usage: "with --notify or --email: the largest number of messages in an hour", member: "-"},
	{name: "repeat", value: "", member: "-",
		usage: "with --notify, --email or --webhook: send what still fires again and again, e.g. every 4h"},
}

// ruleLabels adds the labels of a rule.
func ruleLabels(_ *remote, c *cobra.Command, _ []string, body map[string]any) error {
	labels := map[string]string{}
	for _, l := range listOf(c, "label") {
		name, value, ok := strings.Cut(l, "=")
		if !ok || name == "" {
			return cli.UsageErrorf("--label: %q is not of the form NAME=TEXT, such as line=?line", l)
		}
		labels[name] = value
	}
	if len(labels) > 0 {
		body["labels"] = labels
	}
	return nil
}

// newRule adds labels and receivers.
func newRule(a *remote, c *cobra.Command, args []string, body map[string]any) error {
	to, err := alertReceivers(c)
	if err != nil {
		return err
	}
	body["to"] = to
	return ruleLabels(a, c, args, body)
}

// editedRule completes the changes of a rule.
func editedRule(a *remote, c *cobra.Command, args []string, body map[string]any) error {
	if err := ruleLabels(a, c, args, body); err != nil {
		return err
	}
	for name, value := range body {
		if value == "" {
			body[name] = nil
		}
	}
	to, err := alertReceivers(c)
	if err != nil {
		return err
	}
	if none := isOn(c, "no-receivers"); none && len(to) > 0 {
		return cli.UsageErrorf("--no-receivers: give receivers or this flag, not both")
	} else if none || len(to) > 0 {
		body["to"] = to
	}
	return somethingGiven("nothing to change: give at least one setting, such as --for 10m")(a, c, args, body)
}

// alertReceivers returns the receivers that the flags of a command name, and when they are told something.
func alertReceivers(c *cobra.Command) ([]map[string]string, error) {
	to, used := []map[string]string{}, map[string]bool{}
	for _, kind := range alert.Kinds() {
		for _, address := range listOf(c, kind.Name) {
			x := map[string]string{kind.Name: address}
			for _, f := range quietFlags {
				machine := kind.Name == "alertmanager" || kind.Name == "webhook" && f.name != "repeat"
				if text := textOf(c, f.name); text != "" && !machine {
					x[f.name], used[f.name] = text, true
				}
			}
			to = append(to, x)
		}
	}
	for _, f := range quietFlags {
		if textOf(c, f.name) != "" && !used[f.name] {
			about, _, _ := strings.Cut(f.usage, ":")
			return nil, cli.UsageErrorf("--%s: give it %s", f.name, about)
		}
	}
	return to, nil
}

// printSaved prints the id of a rule, and the secrets of its webhooks that are new.
func printSaved(a *remote, v api.Rule) error {
	for _, x := range v.To {
		if x.Secret != "" {
			fmt.Fprintf(a.w.Stderr, "The secret of %s is shown only now: %s\n", x.Address, x.Secret)
		}
	}
	_, err := fmt.Fprintln(a.w.Stdout, v.ID)
	return err
}

func printTrial(a *remote, v api.RuleTrial) error {
	fmt.Fprintf(a.w.Stdout, "would have fired %s since %s, in %s\n", show.Quantity(int(v.Fired), "time"),
		v.From.UTC().Format(time.RFC3339), show.Quantity(v.Changes, "change"))
	printEvents(a, v.History)
	if v.Problem != "" {
		fmt.Fprintln(a.w.Stdout, show.Escape(v.Problem))
	}
	return nil
}

func printRule(a *remote, v api.Rule) error {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(a.w.Stdout, "%-10s %s\n", name, show.Escape(fmt.Sprintf(format, args...)))
	}
	line("rule", "%s (%s)", v.Name, v.ID)
	line("query", "%s", v.Query)
	when := v.When
	if v.For > 0 {
		when += ", for " + v.For.String()
	}
	if v.KeepFiringFor > 0 {
		when += ", keeps firing for " + v.KeepFiringFor.String()
	}
	line("when", "%s", when)
	status := string(v.Status)
	if v.Reason != "" {
		status += ": " + v.Reason
	}
	line("status", "%s", status)
	line("fired", "%s", show.Quantity(int(v.Fired), "time"))
	for _, x := range v.To {
		text := x.Address
		if x.Waiting > 0 {
			text += fmt.Sprintf(", %s waiting", show.Quantity(x.Waiting, "message"))
		}
		if x.LastError != "" {
			text += ": " + x.LastError
		}
		line("to", "%s", text)
	}
	if len(v.Alerts) > 0 {
		fmt.Fprintln(a.w.Stdout, "alerts, with the time since when")
	}
	for _, x := range v.Alerts {
		fmt.Fprintln(a.w.Stdout, alertLine(x.Since, x.State, x.Labels, x.Summary))
	}
	if more := v.Firing + v.Pending - len(v.Alerts); more > 0 {
		fmt.Fprintf(a.w.Stdout, "  and %d more: freshet rule alerts %s\n", more, v.Name)
	}
	if len(v.History) > 0 {
		fmt.Fprintln(a.w.Stdout, "history")
	}
	printEvents(a, v.History)
	return nil
}
