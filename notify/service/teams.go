package service

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/freshet/freshet/notify/deliver"
)

// mostRuns is the largest number of lines of a card.
const mostRuns = 20

// Microsoft Teams: the workflow "Post to a channel when a webhook request is received", with an Adaptive Card.
// Its texts are runs, in which nothing is interpreted.
var _ = known(&Kind{Name: "teams", Title: "Microsoft Teams",
	Form: "https://….logic.azure.com/workflows/… or https://….api.powerplatform.com/…", most: 2000,
	own: func(u *url.URL) bool {
		return strings.HasSuffix(u.Hostname(), ".logic.azure.com") || strings.HasSuffix(u.Hostname(), ".api.powerplatform.com")
	},
	check: func(u *url.URL) error { return needs("path", strings.Trim(u.Path, "/") != "") },
	request: func(u *url.URL, m *Message) request {
		run := func(text, weight string) any {
			return map[string]any{"type": "RichTextBlock", "inlines": []any{map[string]any{"type": "TextRun", "text": text, "weight": weight}}}
		}
		body := []any{run(m.Title, "Bolder")}
		for line := range strings.SplitSeq(m.Text, "\n") {
			if line != "" && len(body) < mostRuns {
				body = append(body, run(line, "Default"))
			}
		}
		card := map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard",
			"version": "1.4", "body": body,
			"msteams": map[string]any{"width": "Full"}}
		if m.Link != "" {
			card["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": "Open", "url": m.Link}}
		}
		return request{url: u.String(), json: map[string]any{"type": "message",
			"attachments": []any{map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}}}
	},
	reply: func(r *deliver.Reply) {
		if r.Status == http.StatusNotFound || says(r, "WorkflowNotFound", "WorkflowTriggerIsNotEnabled") && !r.OK() {
			gone(r, "Microsoft Teams says that the workflow is gone or switched off")
		}
	},
})
