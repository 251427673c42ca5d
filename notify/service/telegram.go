package service

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
)

// Telegram: https://core.telegram.org/bots/api#sendmessage, with the token of a bot and the id of a chat.
var _ = known(&Kind{Name: "telegram", Title: "Telegram", Form: "telegram://TOKEN@/CHAT", host: "api.telegram.org", most: 2000,
	check: func(u *url.URL) error {
		if err := needs("token", u.User != nil && u.User.Username() != ""); err != nil {
			return err
		}
		return needs("chat", strings.Trim(u.Path, "/") != "")
	},
	request: func(u *url.URL, m *Message) request {
		chat := m.asSilent()
		at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/bot" + secretOf(u) + "/sendMessage"}
		return request{url: at.String(), json: map[string]any{"chat_id": strings.Trim(u.Path, "/"), "text": tagged(&chat, "\n"),
			"parse_mode":           "HTML",
			"link_preview_options": map[string]any{"is_disabled": true}}}
	},
	reply: func(r *deliver.Reply) {
		waitIn(r, time.Second, "parameters", "retry_after")
		switch {
		case r.Status == http.StatusForbidden:
			gone(r, "Telegram says that the bot was blocked, or removed from the chat")
		case r.Status == http.StatusNotFound:
			r.Said = "Telegram answered 404: the token of the bot is wrong"
		case r.Status == http.StatusBadRequest && says(r, "message is too long"):
			r.Status = http.StatusRequestEntityTooLarge
		case r.Status == http.StatusBadRequest && says(r, "chat not found"):
			r.Said = "Telegram answered 400: it does not know the chat, or the bot is not in it"
		}
	},
})

func (m *Message) asSilent() Message {
	c := *m
	c.Title, c.Text = silent(m.Title), silent(m.Text)
	return c
}

// secretOf returns what is before the host of an address, where the token of a bot has a colon.
func secretOf(u *url.URL) string {
	if password, ok := u.User.Password(); ok {
		return u.User.Username() + ":" + password
	}
	return u.User.Username()
}
