package service

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/freshet/freshet/registry"
)

// Gotify: https://gotify.net/docs/pushmsg, with the token of an application.
var _ = known(&Kind{Name: "gotify", Title: "Gotify", Form: "gotify+https://HOST/?token=TOKEN", most: 2000, text: true,
	check: func(u *url.URL) error { return needs("token", u.Query().Get("token") != "") },
	request: func(u *url.URL, m *Message) request {
		at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/") + "/message"}
		body := map[string]any{"title": m.Title, "message": m.Text, "priority": 5}
		if m.State == registry.AlertFiring {
			body["priority"] = 8
		}
		if m.Link != "" {
			body["extras"] = map[string]any{"client::notification": map[string]any{"click": map[string]string{"url": m.Link}}}
		}
		return request{url: at.String(), header: http.Header{"X-Gotify-Key": {u.Query().Get("token")}}, json: body}
	},
})
