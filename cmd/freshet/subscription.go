package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// A subscriptionView holds the members of a subscription that the commands print.
type subscriptionView struct {
	ID        string     `json:"id"`
	Way       string     `json:"way"`
	Caller    string     `json:"caller"`
	Name      string     `json:"name"`
	Query     string     `json:"query"`
	Profile   string     `json:"profile"`
	Tag       string     `json:"tag"`
	Endpoint  string     `json:"endpoint"`
	Callback  string     `json:"callback"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	LastError string     `json:"last_error"`
	Failures  int        `json:"failures"`
	NextTry   *time.Time `json:"next_try"`
	Lag       struct {
		Changes uint64 `json:"changes"`
		Behind  string `json:"behind"`
	} `json:"lag"`
}

// what describes what the subscription follows.
func (v subscriptionView) what() string {
	switch {
	case v.Query != "":
		return v.Query
	case v.Profile != "":
		return "profile " + v.Profile
	case v.Tag != "" && v.Endpoint != "":
		return "tag " + v.Tag + " on " + v.Endpoint
	case v.Tag != "":
		return "tag " + v.Tag
	case v.Endpoint != "":
		return "everything on " + v.Endpoint
	}
	return "everything"
}

// trouble returns the error of the last attempt and the time of the next.
func (v subscriptionView) trouble(now time.Time) string {
	text := v.Reason
	if text == "" {
		text = v.LastError
	}
	if v.NextTry != nil && v.NextTry.After(now) {
		text += fmt.Sprintf(" (%d failures, again in %s)", v.Failures, v.NextTry.Sub(now).Round(time.Second))
	}
	return text
}

// rounded shortens a duration to tenths of a second, or to seconds from a minute on.
func rounded(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func subscriptionCommand(w *cli.Env) *cobra.Command {
	a := &api{w: w}
	c := &cobra.Command{Use: "subscription", Short: "List and manage the subscriptions to changes",
		Long: `Lists and manages subscriptions of all protocols: WebSub (ws_…), webhooks (wh_…),
and clients that are connected now (live_…) by WebSocket, event stream (sse) or
SEPA. An admin sees all of them, other callers see their own.`,
		Example: "  freshet subscription list --state disabled\n  freshet subscription show wh_4kq…\n  freshet subscription pause live_2xr…\n  freshet subscription drop wh_4kq…"}
	a.flags(c)
	c.AddCommand(a.subscriptionList(), a.subscriptionShow(),
		a.changeEach("pause ID...", "Stop deliveries; changes wait in the log (of a connection: while it lasts)", http.MethodPost, below("/v1/subscriptions", "/pause"), "paused"),
		a.changeEach("resume ID...", "Resume a paused or disabled subscription", http.MethodPost, below("/v1/subscriptions", "/resume"), "resumed"),
		a.changeEach("drop ID...", "End it, and inform the subscriber where its protocol allows it", http.MethodDelete, below("/v1/subscriptions", ""), "dropped"))
	return c
}

func (a *api) subscriptionList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List subscriptions", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.listSubscriptions(c.Context(), withGiven("/v1/subscriptions", c, nil), "subscriptions")
		}}
	c.Flags().String("way", "", "only this protocol: websub, webhook, websocket, sse, sepa")
	c.Flags().String("state", "", "only this state: pending, active, paused, disabled")
	c.Flags().String("query", "", "only of this query (its id)")
	return c
}

func (a *api) subscriptionShow() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Print a subscription as JSON", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showAs(c.Context(), a, http.MethodGet, below("/v1/subscriptions", "")(args[0]), nil, func(raw json.RawMessage) error {
				var pretty bytes.Buffer
				if err := json.Indent(&pretty, raw, "", "  "); err != nil {
					return err
				}
				_, err := fmt.Fprintln(a.w.Stdout, pretty.String())
				return err
			})
		}}
}

func (a *api) listSubscriptions(ctx context.Context, path, member string) error {
	now := time.Now()
	return printTable(ctx, a, path, member, "ID\tWAY\tCALLER\tFOLLOWS\tSTATE\tBEHIND\tTO\tTROUBLE", func(v subscriptionView) []any {
		behind := "-"
		if v.Lag.Changes > 0 {
			behind = fmt.Sprintf("%d, %s", v.Lag.Changes, rounded(v.Lag.Behind))
		}
		return []any{v.ID, v.Way, v.Caller, v.what(), v.State, behind, v.Callback, v.trouble(now)}
	})
}
