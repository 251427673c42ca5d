package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
)

// A profileView holds the members of the profile resource that the commands print.
type profileView struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	State    string `json:"state"`
	Policy   string `json:"policy"`
	Items    []struct {
		Name string `json:"name"`
	} `json:"items"`
	Captured int       `json:"captured"`
	Expired  int       `json:"expired"`
	Open     int       `json:"open"`
	EndedAt  time.Time `json:"ended_at"`
	Warnings []struct {
		Message string `json:"message"`
	} `json:"warnings"`
}

// profileCommands are the commands about profiles.
type profileCommands struct{ *api }

func profileCommand(w *cli.Env) *cobra.Command {
	a := profileCommands{&api{w: w}}
	c := &cobra.Command{Use: "profile", Short: "Refresh several queries within a common deadline",
		Long: `A profile asks for a set of queries of one endpoint to be refreshed within a common
deadline: periodically, when a query changes, or when a change is predicted. Each
round is captured when all of its queries were executed within their intervals.
Otherwise it expires, with a reason. Under the policies sedf, mrsf and medf (each
np or p), intervals run ahead of other queries.`,
		Example: "  freshet profile add --name oil --window 10m --item 'news on rates where headline contains oil' --item 'money on rates where headline contains oil'\n" +
			"  freshet profile captures oil --state expired\n  freshet profile watch oil"}
	a.flags(c)
	c.AddCommand(a.add(), a.list(), a.show(), a.set(), a.captures(), a.watch(),
		a.changeEach("rm ID...", "Delete profiles with their captures; their queries stay", http.MethodDelete, profilePath, "ended"))
	return c
}

var profilePath = below("/v1/profiles", "")

func (a profileCommands) add() *cobra.Command {
	var items []string
	c := &cobra.Command{Use: "add [FILE]", Short: "Create a profile from flags or from the JSON in FILE (- for standard input)", Args: cobra.MaximumNArgs(1),
		Long: `An item has the form QUERY every SPAN [slack SPAN], QUERY on QUERY [where VAR OP
VALUE]... [within SPAN], or QUERY predicted [within SPAN], as in the pages. Spans
are durations (10m) or numbers of slots (3 slots). Put other values that contain
blanks in double quotes.`,
		Example: "  freshet profile add --name board --item 'trams every 5m slack 1m' --item 'lifts every 10m slack 4m'\n" +
			"  freshet profile add --window 10m --item 'parking on tunnel where boolean = false within 2m'\n" +
			"  freshet profile add profile.json",
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{}
			if len(args) == 1 {
				text, err := a.readQuery(args[0])
				if err != nil {
					return err
				}
				if err := json.Unmarshal([]byte(text), &body); err != nil {
					return cli.UsageErrorf("%s is no JSON object: %v", args[0], err)
				}
			}
			maps.Copy(body, given(c, map[string]string{"item": ""}))
			if len(items) > 0 {
				list, err := parseItems(items)
				if err != nil {
					return err
				}
				body["items"] = list
			}
			return showAs(c.Context(), a.api, http.MethodPost, "/v1/profiles", body, a.printProfile)
		}}
	f := c.Flags()
	f.String("name", "", "your name for the profile")
	f.String("window", "", "how long a round waits after a change or a prediction, e.g. 10m or 3slots")
	f.String("budget", "", "maximum execution seconds for it in a slot, e.g. 2s")
	f.String("endpoint", "", "endpoint of the queries (default: theirs)")
	f.Float64("weight", 1, "importance beside other profiles")
	f.StringArrayVar(&items, "item", nil, "a query and when to run it; may be given several times")
	return c
}

func (a profileCommands) printProfile(p profileView) error {
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

func (a profileCommands) list() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List profiles", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			now := time.Now()
			return printTable(c.Context(), a.api, withGiven("/v1/profiles", c, nil), "profiles", "ID\tNAME\tENDPOINT\tPOLICY\tSTATE\tQUERIES\tCAPTURED\tEXPIRED\tOPEN\tLAST", func(p profileView) []any {
				return []any{p.ID, p.Name, p.Endpoint, p.Policy, p.State, len(p.Items), p.Captured, p.Expired, p.Open, ago(p.EndedAt, now)}
			})
		}}
	c.Flags().String("endpoint", "", "only this endpoint")
	c.Flags().String("q", "", "only if the name or id contains this")
	return c
}

func (a profileCommands) show() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Show a profile", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showAs(c.Context(), a.api, http.MethodGet, profilePath(args[0]), nil, func(raw json.RawMessage) error { return printFields(a.w.Stdout, raw, nil) })
		}}
}

func (a profileCommands) set() *cobra.Command {
	c := &cobra.Command{Use: "set ID", Short: "Edit name, budget or weight", Args: cobra.ExactArgs(1),
		Example: "  freshet profile set oil --weight 3 --budget 4s",
		RunE: func(c *cobra.Command, args []string) error {
			body := given(c, nil)
			if len(body) == 0 {
				return cli.UsageErrorf("nothing to set: give --name, --budget or --weight")
			}
			return a.change(c.Context(), http.MethodPatch, profilePath(args[0]), body, args[0], "edited")
		}}
	c.Flags().String("name", "", "your name for the profile")
	c.Flags().String("budget", "", "maximum execution seconds for it in a slot; 0s for no limit")
	c.Flags().Float64("weight", 1, "importance beside other profiles")
	return c
}

// A roundView holds the members of a round that the commands print.
type roundView struct {
	Round     uint64    `json:"round"`
	State     string    `json:"state"`
	OpenedAt  time.Time `json:"opened_at"`
	EndedAt   time.Time `json:"ended_at"`
	Seq       uint64    `json:"seq"`
	Intervals []struct {
		Query      string    `json:"query"`
		Name       string    `json:"name"`
		State      string    `json:"state"`
		CapturedAt time.Time `json:"captured_at"`
		Until      time.Time `json:"until"`
		LastSlot   uint64    `json:"last_slot"`
		Seq        uint64    `json:"seq"`
		Tier       string    `json:"tier"`
		Reason     string    `json:"reason"`
	} `json:"intervals"`
}

func (a profileCommands) captures() *cobra.Command {
	var most int
	c := &cobra.Command{Use: "captures ID", Short: "Show a profile's rounds, newest first: captured, expired and open ones", Args: cobra.ExactArgs(1),
		Example: "  freshet profile captures oil\n  freshet profile captures oil --state expired --json",
		RunE: func(c *cobra.Command, args []string) error {
			shown := 0
			path := withGiven(profilePath(args[0])+"/captures", c, map[string]string{"most": ""})
			err := each(c.Context(), a.api, path, "rounds", func(raw json.RawMessage) error {
				if shown++; most > 0 && shown > most {
					return errEnough
				}
				return a.printRound(raw)
			})
			if err == errEnough {
				return nil
			}
			return err
		}}
	c.Flags().String("state", "", "only this state: open, captured, expired")
	c.Flags().IntVar(&most, "most", 20, "how many rounds to show, 0 for all")
	return c
}

// errEnough ends a list early.
var errEnough = fmt.Errorf("enough is shown")

func (a profileCommands) printRound(raw json.RawMessage) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, raw)
	}
	var r roundView
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	head := fmt.Sprintf("round %d %s, opened %s", r.Round, r.State, clockTime(r.OpenedAt))
	if !r.EndedAt.IsZero() {
		head += ", ended " + clockTime(r.EndedAt)
	}
	fmt.Fprintln(a.w.Stdout, head)
	for _, x := range r.Intervals {
		name, more := x.Name, ""
		if name == "" {
			name = x.Query
		}
		switch {
		case x.State == "captured":
			more = fmt.Sprintf(" at %s, result %d, %s", clockTime(x.CapturedAt), x.Seq, x.Tier)
		case x.Reason != "":
			more = ": " + boundedText(x.Reason)
		case !x.Until.IsZero():
			more = " until " + clockTime(x.Until)
		case x.LastSlot > 0:
			more = fmt.Sprintf(" until slot %d", x.LastSlot)
		}
		fmt.Fprintf(a.w.Stdout, "  %-28s %s%s\n", boundedText(name), x.State, more)
	}
	return nil
}
