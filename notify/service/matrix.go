package service

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
)

// Matrix: https://spec.matrix.org/latest/client-server-api/, with the access token of a user who is in the room.
// A message that is sent again has the same transaction, so it appears once.
var _ = known(&Kind{Name: "matrix", Title: "Matrix", Form: "matrix+https://TOKEN@HOST/!ROOM:SERVER", most: 4000,
	check: func(u *url.URL) error {
		if err := needs("token", u.User != nil && u.User.Username() != ""); err != nil {
			return err
		}
		return needs("room", strings.HasPrefix(strings.Trim(u.Path, "/"), "!"))
	},
	request: func(u *url.URL, m *Message) request {
		path := []string{"_matrix", "client", "v3", "rooms", strings.Trim(u.Path, "/"), "send", "m.room.message", m.ID}
		at := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
		for _, part := range path {
			at += "/" + url.PathEscape(part)
		}
		return request{method: http.MethodPut, url: at, header: http.Header{"Authorization": {"Bearer " + secretOf(u)}},
			json: map[string]any{"msgtype": "m.text", "body": plain(m), "format": "org.matrix.custom.html", "formatted_body": tagged(m,
				"<br>"), "m.mentions": map[string]any{}}}
	},
	reply: func(r *deliver.Reply) {
		waitIn(r, time.Millisecond, "retry_after_ms")
		if r.Status == http.StatusForbidden {
			r.Said = "Matrix answered 403: the user of the token is not in the room, or may not write there"
		}
	},
})
