package main

import (
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/web/api"
)

// `freshet letter` manages the messages that were given up.
var letterTable = row{use: "letter", short: "List, send again or drop the messages that were given up",
	long: `A message that a webhook or a receiver of alerts does not accept is given up and
becomes a dead letter. An admin sees those of all callers, others see their own.`,
	example: "freshet letter list\nfreshet letter resend wh_4kq… msg_7QH…\nfreshet letter drop wh_4kq… msg_7QH… msg_5B2…",
	rows: []row{
		{use: "list", short: "List the messages that were given up", example: "freshet letter list", call: "GET /v1/dead-letters",
			out: printList("subscriptions", "SUBSCRIPTION\tLETTER\tGIVEN UP\tTO\tMESSAGE\tWHY", lettersIn)},
		{use: "resend SUBSCRIPTION LETTER...", short: "Send messages again, one attempt each", example: "freshet letter resend wh_4kq… msg_7QH…",
			call: "POST /v1/subscriptions/{}/dead-letters/{}/resend", out: printDone("is sent next")},
		{use: "drop SUBSCRIPTION LETTER...", short: "Forget messages", example: "freshet letter drop wh_4kq… msg_7QH…",
			call: "DELETE /v1/subscriptions/{}/dead-letters/{}", out: printDone("is dropped")},
	}}

// lettersIn returns the cells of the dead letters of a subscription, which has a line for each of them.
func lettersIn(b api.LetterBox) []any {
	var lines []string
	for _, d := range b.DeadLetters {
		said := d.Summary
		if said == "" {
			said = d.Type
		}
		cells := []string{b.Subscription, d.ID, d.GivenUpAt.Format(time.RFC3339), b.Callback, said, d.Error}
		for i := range cells {
			cells[i] = show.Escape(cells[i])
		}
		lines = append(lines, strings.Join(cells, "\t"))
	}
	return []any{strings.Join(lines, "\n")}
}
