package ui

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Managing is what the pages about the server itself need besides the API's
// parts; whatever is left out has no page, or no place on it.
type Managing struct {
	// Settings are the effective configuration, secrets masked.
	Settings func() ([]Setting, error)
	// Storage tells how large the store is.
	Storage func() (Storage, error)
	// Probe asks an endpoint that is not known yet one small question. An error
	// that can be mended is a *registry.Problem.
	Probe func(ctx context.Context, e registry.Endpoint) (time.Duration, error)
	// Started is when the process began.
	Started time.Time
}

// A Setting is one value of the configuration and where it comes from.
type Setting struct {
	Key, Value string
	From       string // "flag", "environment", "file", "secret file", "default" or, of an endpoint, "changed here by …"
}

// Storage is the size of the store in bytes; Free is the part of Size that
// waits to be used again.
type Storage struct{ Size, Free int64 }

// managing are the pages for those who run the server.
func (s *Server) managing() []page {
	const read, app, admin = registry.RoleRead, registry.RoleApp, registry.RoleAdmin
	all := []page{
		{path: "/register", look: "register", section: "queries", need: app, build: registerForm},
		{path: "/endpoints", look: "endpoints", section: "endpoints", need: read, build: endpoints, live: true},
		{path: "/add-endpoint", look: "newendpoint", section: "endpoints", need: admin, build: newEndpoint},
		{path: "/endpoints/{name}", look: "endpoint", section: "endpoints", need: read, build: endpoint, live: true},
		{path: "/endpoints/{name}/remove", look: "confirm", section: "endpoints", need: admin, build: askToRemove},
		{path: "/about", look: "about", section: "about", need: read, build: about},
	}
	if s.Subscriptions != nil {
		all = append(all,
			page{path: "/deliveries", look: "deliveries", section: "deliveries", need: read, build: deliveries, live: true},
			page{path: "/deliveries/{id}/drop", look: "confirm", section: "deliveries", need: read, build: askToDrop})
	}
	if _, ok := s.Gate.(web.Keys); ok {
		all = append(all,
			page{path: "/tokens", look: "tokens", section: "tokens", need: admin, build: tokens},
			page{path: "/tokens/{name}/revoke", look: "confirm", section: "tokens", need: admin, build: askToRevoke})
	}
	if s.Profiles != nil {
		all = append(all,
			page{path: "/profiles", look: "profiles", section: "profiles", need: read, build: profiles, live: true},
			page{path: "/profiles/{id}", look: "profile", section: "profiles", need: read, build: profile, live: true},
			page{path: "/add-profile", look: "newprofile", section: "profiles", need: app, build: newProfile},
			page{path: "/profiles/{id}/remove", look: "confirm", section: "profiles", need: app, build: askToRemoveProfile})
	}
	if s.Settings != nil {
		all = append(all, page{path: "/settings", look: "settings", section: "settings", need: admin, build: settings})
	}
	return all
}

// managingActions are their forms.
func (s *Server) managingActions() []action {
	const read, app, admin = registry.RoleRead, registry.RoleApp, registry.RoleAdmin
	all := []action{
		{path: "/register", need: app, run: register},
		{path: "/register/check", need: app, run: checkRegistration},
		{path: "/endpoints", need: admin, run: createEndpoint},
		{path: "/endpoints/{name}", need: admin, run: saveEndpoint},
		{path: "/endpoints/{name}/policy", need: admin, run: usePolicy},
		{path: "/endpoints/{name}/shade", need: admin, run: shadePolicy},
		{path: "/endpoints/{name}/revert", need: admin, run: revertEndpoint},
		{path: "/endpoints/{name}/tick", need: admin, run: tickEndpoint},
		{path: "/endpoints/{name}/pause", need: admin, run: pauseEndpoint},
		{path: "/endpoints/{name}/resume", need: admin, run: resumeEndpoint},
		{path: "/endpoints/{name}/remove", need: admin, run: removeEndpoint},
	}
	if s.Subscriptions != nil {
		all = append(all,
			action{path: "/deliveries/{id}/pause", need: read, run: actOnFollower("pause", "is paused: its changes wait in the log.")},
			action{path: "/deliveries/{id}/resume", need: read, run: actOnFollower("resume", "is tried again now.")},
			action{path: "/deliveries/{id}/replay", need: app, run: replayFollower},
			action{path: "/deliveries/{id}/drop", need: read, run: dropFollower})
	}
	if s.Profiles != nil {
		all = append(all,
			action{path: "/profiles", need: app, run: createProfile},
			action{path: "/profiles/{id}/remove", need: app, run: removeProfile})
	}
	if _, ok := s.Gate.(web.Keys); ok {
		all = append(all,
			action{path: "/tokens", need: admin, run: makeToken},
			action{path: "/tokens/{name}/revoke", need: admin, run: revokeToken})
	}
	return all
}

// fragment answers a script with one part of a page.
func (v *visit) fragment(look, name string, data any) error {
	b, err := pack(func(w io.Writer) error { return v.looks[look].part(w, name, data) })
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	b.send(v.w, v.r, http.StatusOK)
	return nil
}
