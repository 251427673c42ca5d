package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
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
		if text := p.Errors[0].Detail; strings.Contains(text, "endpoint "+e.Name) || pointer == "/url" &&
			!(strings.Contains(text, "`contact`") && strings.Contains(text, "--contact")) {
			t.Errorf("%s: %s", pointer, text)
		}
	}
}

// over returns a server over a store, which runs nothing.
func over(db *store.DB) *Server {
	log := slog.New(slog.DiscardHandler)
	return &Server{Store: db, conf: &config.Config{}, log: log, Waker: notify.NewWaker(), clock: clock.New(time.Now, clock.Patience, log)}
}

// A stored setting that this program does not know names the remedy, because the API that
// could edit it does not run.
func TestStoredSettingIsUnknown(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Endpoints.EditEndpoint("city", func(c *registry.Configured, _ bool) error {
		c.Endpoint = registry.Endpoint{Name: "city", URL: "http://127.0.0.1:1/sparql", Policy: "own"}.WithDefaults()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f := newFleet(over(db), db.Ledger)
	err = f.syncAll()
	if err == nil || strings.Count(err.Error(), "endpoint city") != 1 || !strings.Contains(err.Error(), `"own"`) ||
		!strings.Contains(err.Error(), "set policy to a value that this one accepts in the configuration file") {
		t.Error(err)
	}
}

// A process before this one may have been killed in the first slot of the endpoint, of which nothing is
// recorded. So the first request of a process waits for min_gap.
func TestGapBeginsWithProcess(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	asked := make(chan struct{}, 1)
	engine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer engine.Close()
	f := newFleet(over(db), db.Ledger)
	c, err := f.dial(registry.Endpoint{Name: "city", URL: engine.URL, MinGap: registry.Duration(time.Hour)}.WithDefaults(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c.Execute(ctx, &registry.Query{ID: "q_a", Text: "ASK {}", Form: "ASK"}, endpoint.Memory{}, time.Minute)
	select {
	case <-asked:
		t.Error("the endpoint was asked at once")
	default:
	}
}

// A stuckLedger does not answer about one endpoint until let is closed. Then it
// returns fail, unless that is nil.
type stuckLedger struct {
	scheduler.Ledger
	endpoint   string
	asked, let chan struct{}
	fail       error
}

func (l *stuckLedger) Since(endpoint string, revision uint64) (scheduler.News, error) {
	if endpoint == l.endpoint {
		close(l.asked)
		<-l.let
		if l.fail != nil {
			return scheduler.News{}, l.fail
		}
	}
	return l.Ledger.Since(endpoint, revision)
}

// The server is ready once every loop has read its queries. It does not wait for a
// loop that has failed, nor longer than the limit.
func TestReadyWaitsForLoops(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		let   bool
		fail  error
	}{
		"loaded": {time.Hour, true, nil}, "failed": {time.Hour, true, errors.New("broken")}, "limit": {time.Millisecond, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.TempDir(), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			log := slog.New(slog.DiscardHandler)
			l := &stuckLedger{Ledger: db.Ledger, endpoint: "slow", asked: make(chan struct{}), let: make(chan struct{}), fail: c.fail}
			f := newFleet(over(db), l)
			for _, name := range []string{"slow", "other"} {
				e := registry.Endpoint{Name: name, URL: "http://127.0.0.1:1/sparql", Slot: "never"}
				client, err := endpoint.New(e, endpoint.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if err := f.Add(e, client); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			over, ready := make(chan error, 1), make(chan int, 1)
			s := &Server{fleet: f, log: log, Store: db}
			s.WhenReady = func(context.Context) { ready <- f.Starting() }
			go func() { over <- f.Run(ctx) }()
			<-l.asked
			if err := (health{s}).Ready(); err == nil {
				t.Error("ready before an endpoint has read its queries")
			}
			go s.becomeReady(ctx, c.limit)
			want := 0
			if c.let {
				select {
				case <-ready:
					t.Fatal("ready before an endpoint has read its queries")
				case <-time.After(200 * time.Millisecond): // far longer than it takes without a wait
				}
				close(l.let)
			} else {
				want = 1
			}
			if n := <-ready; n != want {
				t.Errorf("%d endpoints are starting, want %d", n, want)
			}
			if err := (health{s}).Ready(); err != nil {
				t.Error(err)
			}
			if cancel(); !c.let {
				close(l.let)
			}
			if err := <-over; !errors.Is(err, c.fail) {
				t.Error(err)
			}
		})
	}
}

// An endpoint that is removed while its loop is at work keeps no edit of another
// one waiting.
func TestEndpointsDoNotWaitForEachOther(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := &stuckLedger{Ledger: db.Ledger, endpoint: "stuck", asked: make(chan struct{}), let: make(chan struct{})}
	f := newFleet(over(db), l)
	defer f.close()
	r, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints, Check: f.check, EndpointEdited: func(name string) {
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
