package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/city"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler"
)

// The endpoints of the demo. All of them serve the same city.
const (
	cityEndpoint    = "city"    // has time for everything
	archiveEndpoint = "archive" // has many queries and a tight budget
	partnerEndpoint = "partner" // is down for a while every now and then
)

// demoServers serves the endpoints on loopback.
type demoServers struct {
	engine *local.Engine
	urls   map[string]string
	close  []func()
}

// serveCity loads the city and serves its endpoints.
func (d demo) serveCity(ctx context.Context, w *cli.Env, town *city.City) (*demoServers, error) {
	log := config.Log{Level: "warn", Format: "auto"}.Logger(w)
	e, err := cli.OpenEngine(ctx, d.engine, log)
	if err != nil {
		return nil, err
	}
	s := &demoServers{engine: e, urls: map[string]string{}, close: []func(){func() { e.Close() }}}
	if err := e.Load(ctx, bytes.NewReader(town.Base()), "nt"); err != nil {
		return s, err
	}
	handler := local.Handler(e, local.HandlerOptions{AllowUpdate: true, Logger: log})
	for name, h := range map[string]http.Handler{cityEndpoint: handler, archiveEndpoint: handler,
		partnerEndpoint: &unreliable{Handler: handler, since: time.Now()}} {
		served, err := local.Listen(ctx, "127.0.0.1:0", h)
		if err != nil {
			return s, err
		}
		s.close = append(s.close, func() { served.Close() })
		s.urls[name] = served.URL
	}
	return s, nil
}

func (s *demoServers) stop() {
	if s == nil {
		return
	}
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
}

// serveLoopback serves a handler on a free port of this machine.
func serveLoopback(ctx context.Context, h http.Handler) (address string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends when it is closed
	}()
	return "http://" + l.Addr().String(), func() { _ = s.Close(); <-done }, nil
}

// An unreliable endpoint is under maintenance in the last 15 of every 90 seconds.
type unreliable struct {
	http.Handler
	since time.Time
}

func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if time.Since(u.since)%(90*time.Second) < 75*time.Second {
		u.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, "<!doctype html><title>Maintenance</title><p>The partner's endpoint is under maintenance.")
}

// endpoints returns the settings of the demo's endpoints.
func (d demo) endpoints(urls map[string]string) []registry.Endpoint {
	budget := func(most time.Duration) registry.Duration {
		if gap := scheduler.Gap(registry.Endpoint{Slot: d.slot}); gap > 0 {
			most = min(most, gap)
		}
		return registry.Duration(most)
	}
	return []registry.Endpoint{
		{Name: cityEndpoint, URL: urls[cityEndpoint], Slot: d.slot, Budget: budget(2 * time.Second), Policy: "mrsf:p",
			FallbackPolicy: "ttl:max=4:reset"},
		{Name: archiveEndpoint, URL: urls[archiveEndpoint], Slot: d.slot, Budget: budget(60 * time.Millisecond), Policy: "hybrid"},
		{Name: partnerEndpoint, URL: urls[partnerEndpoint], Slot: d.slot, Budget: budget(time.Second), Policy: "rr"},
	}
}

// register registers the sample queries at the city, generated ones at the
// archive, a few at the partner, and a profile. It returns the names of the
// city's queries by id.
func (d demo) register(srv *server.Server) (map[string]string, error) {
	admin := registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}
	names := map[string]string{}
	add := func(endpoint, name string, q city.Query) error {
		r, _, err := srv.Registry.Register(admin, registry.Registration{Endpoint: endpoint, Text: q.Text, Name: name, Tags: q.Tags})
		if err != nil {
			return fmt.Errorf("sample query %s: %w", name, err)
		}
		if endpoint == cityEndpoint {
			names[r.ID] = name
		}
		return nil
	}
	samples := city.SampleQueries()
	for _, q := range samples {
		if err := add(cityEndpoint, q.Name, q); err != nil {
			return nil, err
		}
	}
	for _, q := range city.Queries(80, d.seed) {
		if err := add(archiveEndpoint, q.Name, q); err != nil {
			return nil, err
		}
	}
	for _, q := range samples[:6] {
		if err := add(partnerEndpoint, "partner-"+q.Name, q); err != nil {
			return nil, err
		}
	}
	if _, _, err := srv.Registry.CreateProfile(admin, urgentProfile()); err != nil {
		return nil, fmt.Errorf("sample profile: %w", err)
	}
	w := registry.Registration{Endpoint: cityEndpoint, Name: "dock-001"}
	watched, err := watch.Watch{IRI: city.Entities + "dock/001", Labels: []string{"en"}}.Normalize()
	if err != nil {
		return nil, fmt.Errorf("sample watch: %w", err)
	}
	watched.Apply(&w)
	if err := add(cityEndpoint, w.Name, city.Query{Text: w.Text, Tags: w.Tags}); err != nil {
		return nil, err
	}
	return names, nil
}

// urgentProfile returns the profile of the demo: when a departure is at least five minutes
// late, it asks within two slots for other ways to leave the stop.
func urgentProfile() registry.ProfileRequest {
	late := registry.When{Changed: "late-departures", Where: []registry.Condition{{Var: "delay", Op: ">=", Value: 5.0}}}
	return registry.ProfileRequest{Name: "getting away", Window: registry.Span{Slots: 2}, Items: []registry.Item{
		{Query: "late-departures", When: late}, {Query: "bikes-harbour", When: late}, {Query: "departures-central", When: late}}}
}

// applications runs the followers of the demo: a service with a webhook, registered at one
// server, and a display over the WebSocket of another one.
func (d demo) applications(ctx context.Context, srv, other *server.Server) error {
	service, stop, err := serveLoopback(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	if err != nil {
		return err
	}
	defer stop()
	if err := d.hook(ctx, srv, service); err != nil && ctx.Err() == nil {
		return fmt.Errorf("webhook of the demo: %w", err)
	}
	if err := d.rule(ctx, srv); err != nil && ctx.Err() == nil {
		return fmt.Errorf("alert rule of the demo: %w", err)
	}
	err = client.Follow(ctx, client.Options{Server: other.URL(), Query: "departures-central"}, func(client.Event) error { return nil })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// rule makes the alert rule, unless an earlier demo left it in the store.
func (d demo) rule(ctx context.Context, srv *server.Server) error {
	rule := map[string]any{"name": "very-late", "query": "late-departures", "when": "?delay >= 8",
		"labels": map[string]string{"line": "?line", "stop": "?stop"}, "summary": "line ?line leaves ?stop ?delay minutes late"}
	return whileStarting(ctx, func() error {
		var list struct{ Rules []struct{ Name string } }
		if err := srv.Call(ctx, http.MethodGet, "/v1/rules", nil, &list); err != nil || len(list.Rules) > 0 {
			return err
		}
		return srv.Call(ctx, http.MethodPost, "/v1/rules", rule, nil)
	})
}

const demoHook = "late departures board"

// whileStarting retries a call of the server while it starts, or while its cluster chooses the
// node that evaluates rules.
func whileStarting(ctx context.Context, call func() error) (err error) {
	for range 300 {
		if err = call(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

// hook makes the webhook. It replaces one that an earlier demo left in the store.
func (d demo) hook(ctx context.Context, srv *server.Server, service string) error {
	var list struct {
		Webhooks []struct{ ID, Name string }
	}
	if err := whileStarting(ctx, func() error { return srv.Call(ctx, http.MethodGet, "/v1/webhooks", nil, &list) }); err != nil {
		return err
	}
	for _, h := range list.Webhooks {
		if h.Name == demoHook {
			if err := srv.Call(ctx, http.MethodDelete, "/v1/webhooks/"+h.ID, nil, nil); err != nil {
				return err
			}
		}
	}
	return srv.Call(ctx, http.MethodPost, "/v1/webhooks", map[string]string{"query": "late-departures", "name": demoHook,
		"url": service + "/departures"}, nil)
}
