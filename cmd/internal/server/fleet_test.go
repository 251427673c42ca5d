package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store"
)

// What keeps an endpoint from being asked points at the setting to change, and
// names the remedy where that is elsewhere.
func TestEndpointThatCannotBeAsked(t *testing.T) {
	f := fleet{}
	for pointer, e := range map[string]registry.Endpoint{
		"/url":    {Name: "public", URL: "http://192.0.2.1/sparql"},
		"/budget": {Name: "slow", URL: "http://127.0.0.1/sparql", Slot: "@every 3s", Budget: registry.Duration(9e9)},
	} {
		err := registry.CheckEndpoint(e.WithDefaults(), f.check)
		var p *registry.Problem
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
			continue
		}
		if text := p.Errors[0].Detail; strings.Contains(text, "endpoint "+e.Name) || pointer == "/url" && !(strings.Contains(text, "`contact`") && strings.Contains(text, "--contact")) {
			t.Errorf("%s: %s", pointer, text)
		}
	}
}

// A stuckLedger does not answer about one endpoint until it is let.
type stuckLedger struct {
	scheduler.Ledger
	endpoint   string
	asked, let chan struct{}
}

func (l *stuckLedger) Since(endpoint string, revision uint64) (scheduler.News, error) {
	if endpoint == l.endpoint {
		close(l.asked)
		<-l.let
	}
	return l.Ledger.Since(endpoint, revision)
}

// An endpoint that is removed while its loop is at work keeps no edit of another
// one waiting.
func TestEndpointsDoNotWaitForEachOther(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := &stuckLedger{Ledger: db, endpoint: "stuck", asked: make(chan struct{}), let: make(chan struct{})}
	f := newFleet(db, "", slog.New(slog.DiscardHandler), l, func([]scheduler.Note) {})
	defer f.close()
	r, err := registry.Open(registry.Config{Store: db, Check: f.check, EndpointEdited: func(name string) {
		if err := f.sync(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	admin := registry.Caller{Name: "root", Role: registry.RoleAdmin}
	for _, name := range []string{"stuck", "other"} {
		if _, err := r.CreateEndpoint(admin, registry.Endpoint{Name: name, URL: "http://127.0.0.1:1/sparql", Slot: "never"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- f.Run(ctx) }()
	<-l.asked
	removed, failed := make(chan struct{}), error(nil)
	go func() {
		defer close(removed)
		failed = r.DeleteEndpoint("stuck", nil)
	}()
	for {
		if _, err := f.State("stuck"); errors.Is(err, registry.ErrNotFound) {
			break // it is being removed
		}
	}
	if _, err := r.PauseEndpoint(admin, "other"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-removed:
		t.Error("the edit has waited until the other endpoint was removed")
	default:
	}
	close(l.let)
	<-removed
	if failed != nil {
		t.Error(failed)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
