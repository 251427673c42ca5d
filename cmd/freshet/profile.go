package main

// This file holds `freshet profile`, which manages profiles and shows their rounds.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

var profileTable = row{use: "profile", short: "Refresh several queries within a common deadline",
	long: `A profile asks for a set of queries of one endpoint to be refreshed within a common
deadline: periodically, when a query changes, or when a change is predicted. Each
round is captured when all of its queries were executed within their intervals.
Otherwise it expires, with a reason. Under the policies sedf, mrsf and medf (each
np or p), intervals run ahead of other queries.`,
	example: "freshet profile add --name oil --window 10m --item 'news on rates where headline contains oil' --item 'money on " +
		"rates where headline contains oil'\n" +
		"freshet profile captures oil --state expired\nfreshet profile watch oil",
	rows: []row{
		{use: "add [FILE]", short: "Create a profile from flags or from the JSON in FILE (- for standard input)",
			long: `An item has the form QUERY every SPAN [slack SPAN], QUERY on QUERY [where VAR OP
VALUE]... [within SPAN], or QUERY predicted [within SPAN], as in the pages. Spans
are durations (10m) or numbers of slots (3 slots). Put other values that contain
blanks in double quotes.`,
			example: "freshet profile add --name board --item 'trams every 5m slack 1m' --item 'lifts every 10m slack 4m'\n" +
				"freshet profile add --window 10m --item 'parking on tunnel where boolean = false within 2m'\n" +
				"freshet profile add profile.json",
			call: "POST /v1/profiles", body: profileBody, out: printWith(printProfile), flags: []option{
				{name: "name", value: "", usage: "your name for the profile"},
				{name: "window", value: "", usage: "how long a round waits after a change or a prediction, e.g. 10m or 3slots"},
				{name: "budget", value: "", usage: "maximum execution seconds for it in a slot, e.g. 2s"},
				{name: "endpoint", value: "", usage: "endpoint of the queries (default: theirs)"},
				{name: "weight", value: 1.0, usage: "importance beside other profiles"},
				{name: "item", value: texts(nil), usage: "a query and when to run it; may be given several times", member: "-"},
			}},
		{use: "list", short: "List profiles", example: "freshet profile list --endpoint coins", call: "GET /v1/profiles",
			out: printList("profiles", "ID\tNAME\tENDPOINT\tPOLICY\tSTATE\tQUERIES\tCAPTURED\tEXPIRED\tOPEN\tLAST", func(p api.Profile) []any {
				return []any{p.ID, p.Name, p.Endpoint, p.Policy, p.State, len(p.Items), p.Captured, p.Expired, p.Open, show.Ago(p.EndedAt, time.Now())}
			}), flags: []option{
				{name: "endpoint", value: "", usage: "only this endpoint"},
				{name: "q", value: "", usage: "only if the name or id contains this"},
			}},
		{use: "show ID", short: "Show a profile", example: "freshet profile show oil", call: "GET /v1/profiles/{}", out: printMembers},
		{use: "set ID", short: "Edit name, budget or weight", example: "freshet profile set oil --weight 3 --budget 4s",
			call: "PATCH /v1/profiles/{}", body: somethingGiven("nothing to set: give --name, --budget or --weight"),
			out: printDone("edited"), flags: []option{
				{name: "name", value: "", usage: "your name for the profile"},
				{name: "budget", value: "", usage: "maximum execution seconds for it in a slot; 0s for no limit"},
				{name: "weight", value: 1.0, usage: "importance beside other profiles"},
			}},
		{use: "captures ID", short: "Show a profile's rounds, newest first: captured, expired and open ones",
			example: "freshet profile captures oil\nfreshet profile captures oil --state expired --json",
			run:     showCaptures, flags: []option{
				{name: "state", value: "", usage: "only this state: open, captured, expired"},
				{name: "most", value: 20, usage: "how many rounds to show, 0 for all"},
			}},
		{use: "watch ID", short: "Follow a profile's captures and expiries live", example: "freshet profile watch oil --json",
			long: `Prints a line for each round that is captured or expires, over the event stream
that applications use. It reconnects after interruptions and continues after the
last capture printed. With --json each event is one object a line: event, id, data.`,
			run: watchCaptures},
		{use: "rm ID...", short: "Delete profiles with their captures; their queries stay", example: "freshet profile rm oil",
			call: "DELETE /v1/profiles/{}", out: printDone("ended")},
	}}

func capturesPath(profile string) string {
	return "/v1/profiles/" + url.PathEscape(profile) + "/captures"
}

// profileBody completes a new profile: flags override the members in the file.
func profileBody(a *remote, c *cobra.Command, args []string, body map[string]any) error {
	if len(args) == 1 {
		text, err := a.readText(args[0])
		if err != nil {
			return err
		}
		given := maps.Clone(body)
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			return cli.UsageErrorf("%s is no JSON object: %v", args[0], err)
		}
		if body == nil { // the JSON is null
			return cli.UsageErrorf("%s is no JSON object", args[0])
		}
		maps.Copy(body, given)
	}
	items, err := parseItems(listOf(c, "item"))
	if len(items) > 0 {
		body["items"] = items
	}
	return err
}

func printProfile(a *remote, p api.Profile) error {
	for _, x := range p.Warnings {
		fmt.Fprintf(a.w.Stderr, "warning: %s\n", x.Message)
	}
	_, err := fmt.Fprintln(a.w.Stdout, p.ID)
	return err
}

// parseItems parses the values of --item.
func parseItems(texts []string) (list []registry.Item, err error) {
	for _, text := range texts {
		item, err := registry.ParseItem(text)
		if err != nil {
			return nil, cli.UsageErrorf("--item %q: %v", text, err)
		}
		list = append(list, item)
	}
	return list, nil
}

func showCaptures(a *remote, c *cobra.Command, args []string) error {
	most, shown := intOf(c, "most"), 0
	path := withParameters(capturesPath(args[0]), map[string]any{"state": textOf(c, "state")})
	return each(c.Context(), a, path, "rounds", func(raw json.RawMessage) error {
		if shown++; most > 0 && shown > most {
			return errEnough
		}
		return a.printRound(raw)
	})
}

// errEnough ends a list early.
var errEnough = fmt.Errorf("enough is shown")

func (a *remote) printRound(raw json.RawMessage) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, raw)
	}
	var r api.Round
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	head := fmt.Sprintf("round %d %s, opened %s", r.Round, r.State, show.Clock(r.OpenedAt))
	if r.EndedAt != nil {
		head += ", ended " + show.Clock(*r.EndedAt)
	}
	fmt.Fprintln(a.w.Stdout, head)
	for _, x := range r.Intervals {
		name, more := cmp.Or(x.Name, x.Query), ""
		switch {
		case x.State == "captured":
			more = fmt.Sprintf(" at %s, result %d, %s", show.Clock(valueOf(x.CapturedAt)), x.Seq, x.Tier)
		case x.Reason != "":
			more = ": " + show.Bounded(x.Reason)
		case x.Until != nil:
			more = " until " + show.Clock(*x.Until)
		case x.LastSlot != nil:
			more = fmt.Sprintf(" until slot %d", *x.LastSlot)
		}
		fmt.Fprintf(a.w.Stdout, "  %-28s %s%s\n", show.Bounded(name), x.State, more)
	}
	return nil
}
