package service

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Apprise: https://github.com/caronc/apprise-api, a server that knows a hundred other services. Its configuration
// has a key, or ?urls= names the services.
var _ = known(&Kind{Name: "apprise", Title: "Apprise", Form: "apprise+https://HOST/notify/KEY", most: 4000, text: true,
	check: func(u *url.URL) error {
		if u.Query().Has("urls") {
			return nil
		}
		return needs("key", strings.Trim(strings.TrimPrefix(u.Path, "/notify"), "/") != "")
	},
	request: func(u *url.URL, m *Message) request {
		body := map[string]any{"title": m.Title, "body": plain(&Message{Text: m.Text, Link: m.Link}), "format": "text", "type": "info"}
		switch m.State {
		case registry.AlertFiring:
			body["type"] = "failure"
		case registry.AlertResolved:
			body["type"] = "success"
		}
		for _, name := range []string{"urls", "tag"} {
			if v := u.Query().Get(name); v != "" {
				body[name] = v
			}
		}
		return request{url: (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}).String(),
			header: bearer(u), json: body}
	},
	reply: func(r *deliver.Reply) {
		switch r.Status {
		case http.StatusNoContent:
			r.Status, r.Said = http.StatusNotFound, "Apprise has no configuration with this key"
		case http.StatusFailedDependency:
			r.Said = "Apprise answered 424: one of its services did not take the message"
		}
	},
})
