package service

import (
	"net/url"
	"strings"

	"github.com/freshet/freshet/registry"
)

// Its documentation is https://docs.ntfy.sh/publish/. The name of a topic is its secret, unless the server asks for a token.
var _ = known(&Kind{Name: "ntfy", Title: "ntfy", Form: "https://ntfy.sh/TOPIC or ntfy+https://TOKEN@HOST/TOPIC", most: 1000, text: true,
	own:   func(u *url.URL) bool { return u.Host == "ntfy.sh" },
	check: func(u *url.URL) error { return needs("topic", strings.Trim(u.Path, "/") != "") },
	request: func(u *url.URL, m *Message) request {
		base, topic := splitLast(u)
		q := request{url: base, header: bearer(u)}
		body := map[string]any{"topic": topic, "title": m.Title, "message": m.Text}
		if m.Link != "" {
			body["click"] = m.Link
		}
		switch m.State {
		case registry.AlertFiring:
			body["tags"], body["priority"] = []string{"rotating_light"}, 4
		case registry.AlertResolved:
			body["tags"] = []string{"white_check_mark"}
		}
		q.json = body
		return q
	},
})

// splitLast returns an address without its last segment, secrets and query, and that segment.
func splitLast(u *url.URL) (base, last string) {
	path := strings.TrimRight(u.Path, "/")
	at := strings.LastIndex(path, "/") + 1
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path[:at]}).String(), path[at:]
}

// bearer returns a header with the token or the sign-in before the host of an address.
func bearer(u *url.URL) map[string][]string {
	if u.User == nil {
		return nil
	}
	if password, ok := u.User.Password(); ok {
		return map[string][]string{"Authorization": {basic(u.User.Username(), password)}}
	}
	return map[string][]string{"Authorization": {"Bearer " + u.User.Username()}}
}
