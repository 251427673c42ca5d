// This file sends messages to Discord.

package service

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

const mostDiscordTitle = 256

var discordHosts = []string{"discord.com", "discordapp.com", "ptb.discord.com", "canary.discord.com"}

// Discord: https://discord.com/developers/docs/resources/webhook#execute-webhook
var _ = known(&Kind{Name: "discord", Title: "Discord", Form: "https://discord.com/api/webhooks/…", most: 2000,
	own: func(u *url.URL) bool {
		return slices.Contains(discordHosts, u.Host) && strings.HasPrefix(u.Path, "/api/") && strings.Contains(u.Path, "/webhooks/")
	},
	check: func(u *url.URL) error { return needs("path /api/webhooks/ID/TOKEN", strings.Count(u.Path, "/") >= 4) },
	request: func(u *url.URL, m *Message) request {
		title := escaped(m.Title)
		for most := mostTitle; utf8.RuneCountInString(title) > mostDiscordTitle; most -= 10 {
			title = escaped(Cut(m.Title, most))
		}
		card := map[string]any{"title": title, "description": lines(escaped(m.Text)), "timestamp": m.At.UTC().Format(time.RFC3339)}
		if m.Link != "" {
			card["url"] = m.Link
		}
		if color := map[registry.AlertState]int{registry.AlertFiring: 0xd03030, registry.AlertResolved: 0x309040}[m.State]; color != 0 {
			card["color"] = color
		}
		return request{url: u.String(), json: map[string]any{"embeds": []any{card}, "allowed_mentions": map[string]any{"parse": []string{}}}}
	},
	reply: func(r *deliver.Reply) {
		waitIn(r, time.Second, "retry_after")
		switch {
		case r.Status == http.StatusNotFound:
			gone(r, "Discord says that the webhook is gone")
		case r.Status == http.StatusBadRequest && says(r, "BASE_TYPE_MAX_LENGTH"):
			r.Status = http.StatusRequestEntityTooLarge
		}
	},
})
