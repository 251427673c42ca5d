package service

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/freshet/freshet/notify/deliver"
)

// Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/
var _ = known(&Kind{Name: "slack", Title: "Slack", Form: "https://hooks.slack.com/services/…", most: 2000,
	own:   func(u *url.URL) bool { return u.Host == "hooks.slack.com" || u.Host == "hooks.slack-gov.com" },
	check: func(u *url.URL) error { return needs("path", strings.Trim(u.Path, "/") != "") },
	request: func(u *url.URL, m *Message) request {
		escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
		text := "*" + strings.ReplaceAll(escape(m.Title), "*", "∗") + "*"
		if m.Text != "" {
			text += "\n" + escape(m.Text)
		}
		if m.Link != "" {
			text += "\n<" + escape(m.Link) + "|Open>"
		}
		return request{url: u.String(), json: map[string]any{"text": text, "unfurl_links": false}}
	},
	reply: func(r *deliver.Reply) {
		switch {
		case r.OK():
		case says(r, "no_service", "no_team", "team_disabled", "channel_is_archived", "channel_not_found"):
			gone(r, "Slack says that the webhook or its channel is gone")
		case says(r, "msg_too_long"):
			r.Status = http.StatusRequestEntityTooLarge
		}
	},
})
