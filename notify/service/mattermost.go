// This file sends messages to Mattermost.

package service

import (
	"net/http"
	"net/url"
	"regexp"

	"github.com/freshet/freshet/notify/deliver"
)

var mattermostPath = regexp.MustCompile(`/hooks/[a-z0-9]{26}/?$`)

// Mattermost: https://developers.mattermost.com/integrate/webhooks/incoming/
var _ = known(&Kind{Name: "mattermost", Title: "Mattermost", Form: "https://HOST/hooks/KEY", most: 2000,
	own:   func(u *url.URL) bool { return mattermostPath.MatchString(u.Path) },
	check: func(u *url.URL) error { return needs("key", len(u.Path) > 1) },
	request: func(u *url.URL, m *Message) request {
		text := "**" + escaped(silent(m.Title)) + "**"
		if m.Text != "" {
			text += "\n" + lines(escaped(silent(m.Text)))
		}
		if m.Link != "" {
			text += "\n[Open](" + m.Link + ")"
		}
		return request{url: u.String(), json: map[string]any{"text": text}}
	},
	reply: func(r *deliver.Reply) {
		switch {
		case r.OK():
		case says(r, "web.incoming_webhook.invalid", "incoming_webhook.channel.app_error", "incoming_webhook.channel_locked"):
			gone(r, "Mattermost says that the webhook or its channel is gone")
		case says(r, "incoming_webhook.text.length"):
			r.Status = http.StatusRequestEntityTooLarge
		}
	},
})
