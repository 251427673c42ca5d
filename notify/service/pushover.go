package service

import (
	"net/http"
	"net/url"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Pushover: https://pushover.net/api, with the key of a user or a group and the token of an application.
var _ = known(&Kind{Name: "pushover", Title: "Pushover", Form: "pushover://USER:TOKEN@", host: "api.pushover.net", most: 1000, text: true,
	check: func(u *url.URL) error {
		there := u.User != nil && u.User.Username() != ""
		if there {
			_, there = u.User.Password()
		}
		return needs("user or token", there)
	},
	request: func(u *url.URL, m *Message) request {
		token, _ := u.User.Password()
		body := map[string]any{"token": token, "user": u.User.Username(), "title": m.Title, "message": m.Text, "timestamp": m.At.Unix()}
		if m.Link != "" {
			body["url"], body["url_title"] = m.Link, "Open"
		}
		if m.State == registry.AlertFiring {
			body["priority"] = 1
		}
		return request{url: (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/1/messages.json"}).String(), json: body}
	},
	reply: func(r *deliver.Reply) {
		switch {
		case r.Status != http.StatusBadRequest:
		case says(r, `"user":"invalid"`, `"token":"invalid"`):
			r.Said = "Pushover answered 400: it does not know the user or the token"
		case says(r, "message is too long"):
			r.Status = http.StatusRequestEntityTooLarge
		}
	},
})
