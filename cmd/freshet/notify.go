package main

// This file holds `freshet notify`, and the flag of other commands that does the same.

import (
	"context"
	"fmt"
	"net/http"

	"github.com/freshet/freshet/web/api"
)

// notifyFlag makes a new query or watch tell people its changes.
var notifyFlag = option{name: "notify", value: texts(nil), usage: "address of a service that tells people its changes, e.g. " +
	"https://ntfy.sh/TOPIC; may be given several times"}

var notifyTable = row{use: "notify", short: "Tell people the changes of a query: ntfy, Slack, Telegram, ...",
	long: `Tells people what changes, in words, by ntfy, Gotify, Slack, Mattermost, Discord, Telegram,
Microsoft Teams, Matrix, Pushover, Apprise, by e-mail, or to any URL that takes a text. An address is the
service's own web address if that is enough, or begins with the name of the service:
https://ntfy.sh/TOPIC, https://hooks.slack.com/services/..., telegram://TOKEN@/CHAT.
"freshet subscription" lists, pauses and drops receivers (nt_...).`,
	example: "freshet notify test https://ntfy.sh/city-a81b\nfreshet notify add https://ntfy.sh/city-a81b --query departures\n" +
		"freshet notify add telegram://TOKEN@/CHAT --query departures --digest 08:00 --zone Europe/Berlin",
	rows: []row{
		{use: "add ADDRESS", short: "Send the changes of a query to an address from now on",
			long: `Sends the changes of a query to an address from now on, and prints the id of the subscription.
The same address and query again get the new settings. What waits, because of --digest, --quiet or
--most or because the service does not answer, comes as one net change.`,
			example: "freshet notify add https://hooks.slack.com/services/T0/B0/X --query departures --quiet 22:00-07:00",
			call:    "POST /v1/receivers", arg: "notify", out: printWith(printReceiver), flags: []option{
				{name: "query", value: "", usage: "id or name of the query"},
				{name: "name", value: "", usage: "your name for it"},
				{name: "digest", value: "", usage: "one message for all that changed: each 1h (1m to 24h), or each day at a time such as 08:00"},
				{name: "zone", value: "", usage: "time zone of the times, e.g. Europe/Berlin (default UTC)"},
				{name: "quiet", value: "", usage: "hours without messages, e.g. 22:00-07:00"},
				{name: "most", value: "", usage: "the largest number of messages in an hour"},
			}},
		{use: "test ADDRESS", short: "Send a test message to an address", example: "freshet notify test https://ntfy.sh/city-a81b",
			call: "POST /v1/receivers/test", arg: "notify", out: printWith(printTested)},
	}}

func printReceiver(a *remote, v api.Subscription) error {
	_, err := fmt.Fprintln(a.w.Stdout, v.ID)
	return err
}

func printTested(a *remote, v struct{ Kind string }) error {
	_, err := fmt.Fprintf(a.w.Stderr, "%s has taken the test message\n", v.Kind)
	return err
}

// withReceivers returns a printer that registers something, and then tells its changes to the addresses
// of the flag.
func withReceivers[T any](print func(*remote, T) error, id func(T) string) printer {
	return func(ctx context.Context, a *remote, r sending) error {
		body, _ := r.body.(map[string]any)
		to, _ := body["notify"].([]string)
		delete(body, "notify")
		var v T
		_, err := a.answer(ctx, r, &v)
		if err == nil && !a.asJSON {
			err = print(a, v)
		}
		if err != nil {
			return err
		}
		for _, address := range to {
			if err := a.do(ctx, http.MethodPost, "/v1/receivers", map[string]string{"notify": address, "query": id(v)}, nil); err != nil {
				return fmt.Errorf("it is registered, but an address of --notify gets nothing: %w", err)
			}
		}
		return nil
	}
}
