package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// followed describes what a subscription follows.
func followed(v *api.Subscription) string {
	switch {
	case v.Way == registry.Alerts:
		return "alert rules"
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

// troubleOf returns the error of the last attempt and the time of the next.
func troubleOf(v *api.Subscription, now time.Time) string {
	text := v.Reason
	if text == "" {
		text = v.LastError
	}
	if v.NextTry != nil && v.NextTry.After(now) {
		failures := "failures"
		if v.Failures == 1 {
			failures = "failure"
		}
		text += fmt.Sprintf(" (%d %s, again in %s)", v.Failures, failures, v.NextTry.Sub(now).Round(time.Second))
	}
	return text
}

var subscriptionTable = row{use: "subscription", short: "List and manage the subscriptions to changes",
	long: `Lists and manages subscriptions of all protocols: WebSub (ws_…), webhooks (wh_…),
services that people read (nt_…), receivers of alerts (al_…), and clients that are
connected now (live_…) by WebSocket, event stream (sse) or SEPA. An admin sees all
of them, other callers see their own.`,
	example: "freshet subscription list --state disabled\nfreshet subscription show wh_4kq…\nfreshet subscription pause " +
		"live_2xr…\nfreshet subscription drop wh_4kq…",
	rows: []row{
		{use: "list", short: "List subscriptions", example: "freshet subscription list --way webhook --state disabled",
			call: "GET /v1/subscriptions", out: subscriptionsIn("subscriptions"), flags: []option{
				{name: "way", value: "", usage: "only this way: websub, webhook, notify, alert, websocket, sse, sepa"},
				{name: "state", value: "", usage: "only this state: pending, active, paused, disabled"},
				{name: "query", value: "", usage: "only of this query (its id or name)"},
			}},
		{use: "show ID", short: "Print a subscription as JSON", example: "freshet subscription show wh_4kq…",
			call: "GET /v1/subscriptions/{}", out: printWith(printPretty)},
		{use: "pause ID...", short: "Stop deliveries; changes wait in the log (of a connection: while it lasts)",
			example: "freshet subscription pause live_2xr…", call: "POST /v1/subscriptions/{}/pause", out: printDone("paused")},
		{use: "resume ID...", short: "Resume a paused or disabled subscription",
			example: "freshet subscription resume live_2xr…", call: "POST /v1/subscriptions/{}/resume", out: printDone("resumed")},
		{use: "drop ID...", short: "End it, and inform the subscriber where its protocol allows it",
			example: "freshet subscription drop wh_4kq…", call: "DELETE /v1/subscriptions/{}", out: printDone("dropped")},
	}}

// subscriptionsIn prints the subscriptions in a member of the answer.
func subscriptionsIn(member string) printer {
	return printList(member, "ID\tWAY\tCALLER\tFOLLOWS\tSTATE\tBEHIND\tTO\tTROUBLE", func(v api.Subscription) []any {
		behind := "-"
		if v.Lag.Changes > 0 {
			behind = fmt.Sprintf("%d, %s", v.Lag.Changes, show.Rounded(time.Duration(v.Lag.Behind)))
		}
		return []any{v.ID, v.Way, v.Caller, followed(&v), v.State, behind, v.Callback, troubleOf(&v, time.Now())}
	})
}

func printPretty(a *remote, raw json.RawMessage) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.w.Stdout, pretty.String())
	return err
}
