package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// The page for a new endpoint says on a server without a contact that public endpoints need one.
func TestPageWithoutContact(t *testing.T) {
	for _, contact := range []string{"", "mailto:ops@example.org"} {
		_, nodes := startNodes(t, 1, "", func(n *node) { n.conf = func(c *config.Config) { c.Contact = contact } })
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/add-endpoint", nil)
		r.Host = "localhost"
		nodes[0].http.Handler.ServeHTTP(w, r)
		if said := strings.Contains(w.Body.String(), "This server has no contact."); w.Code != http.StatusOK || said != (contact == "") {
			t.Errorf("contact %q: status %d, says that there is none: %v", contact, w.Code, said)
		}
	}
}

// A check sends nothing to a stored endpoint that must not be asked now, however its URL is written.
func TestChecksLeaveEndpointsAlone(t *testing.T) {
	s, nodes := startNodes(t, 1, "")
	n := nodes[0]
	e, err := n.Store.Endpoints.Endpoint("city")
	if err != nil {
		t.Fatal(err)
	}
	said := func(why string) {
		t.Helper()
		before := s.asked.Load()
		a := n.ask("POST", "/v1/endpoint-check", `{"url":"`+strings.Replace(e.URL, "http", "HTTP", 1)+`/"}`)
		_, err := n.fleet.probe(t.Context(), registry.Endpoint{Name: "new", URL: e.URL}.WithDefaults())
		if why == "" {
			if n := s.asked.Load() - before; a.status != 200 || n < 2 {
				t.Errorf("the endpoint may be asked, and a check says %d %.200s, a probe %v, after %d requests", a.status, a.body, err, n)
			}
			return
		}
		if a.status != 409 || !strings.Contains(a.body, "the endpoint city") || !strings.Contains(a.body, why) || err == nil ||
			!strings.Contains(err.Error(), why) || s.asked.Load() > before {
			t.Errorf("%s: a check says %d %.200s, a probe %v, after %d requests", why, a.status, a.body, err, s.asked.Load()-before)
		}
	}
	said("")
	n.call("POST", "/v1/endpoints/city/pause", nil, nil)
	said("paused")
	n.call("POST", "/v1/endpoints/city/resume", nil, nil)
	n.call("PATCH", "/v1/endpoints/city", map[string]any{"blackout": []registry.Blackout{
		{Start: "0 * * * *", For: registry.Duration(59 * time.Minute)}, {Start: "30 * * * *", For: registry.Duration(59 * time.Minute)}}}, nil)
	said("blackout")
	n.call("POST", "/v1/endpoints", map[string]any{"name": "other", "url": e.URL, "slot": "never"}, nil)
	said("") // the other one may be asked
	n.call("PATCH", "/v1/endpoints/city", map[string]any{"blackout": []string{}}, nil)
	waits := registry.Health{State: registry.HealthThrottled, Until: time.Now().Add(time.Hour), Error: "come back later"}
	if _, err := n.Store.Ledger.Record("city", scheduler.Batch{Health: &waits}); err != nil {
		t.Fatal(err)
	}
	said("come back later")
	fails := registry.Health{State: registry.HealthFailing, Until: time.Now().Add(time.Hour)}
	if _, err := n.Store.Ledger.Record("city", scheduler.Batch{Health: &fails}); err != nil {
		t.Fatal(err)
	}
	said("") // a check may tell why
}
