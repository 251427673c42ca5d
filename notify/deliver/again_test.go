package deliver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A resubscribingStore is a store in which a client subscribes again in the transaction that ends
// its subscription.
type resubscribingStore struct {
	table
	after registry.Subscription
	note  func(*registry.Subscription)
}

func (s *resubscribingStore) EditSubscription(id string, do func(*registry.Subscription, bool) error) (registry.Subscription, error) {
	x, err := s.table.EditSubscription(id, do)
	if s.note != nil && err == nil && x.State == registry.Ended {
		s.mu.Lock()
		s.m[id] = s.after
		s.mu.Unlock()
		s.note(&s.after)
		s.note = nil
	}
	return x, err
}

// ending is a way whose subscriptions end with a call that has no Lease.
type ending struct{}

func (ending) Next(_ context.Context, s *registry.Subscription, _ time.Time) (Step, error) {
	if s.Deliveries > uint64(s.Lease) {
		return Step{}, nil
	}
	return Step{Call: &Call{Send: HTTP("POST", s.Callback, nil, nil, 0), Since: time.Now(), Done: func(s *registry.Subscription,
		_ Reply) {
		if s.Lease == 0 {
			s.State = registry.Ended
		}
	}}}, nil
}

// A client that subscribes again while its subscription is being ended is served.
func TestSubscribedAgainAtItsEnd(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	store := &resubscribingStore{table: table{m: map[string]registry.Subscription{}}, after: pendingCalls("a", srv.URL, 1)}
	s := newTestEngine(t, func(o *Options) {
		o.Store, o.Targets = store, map[registry.Way]Target{"count": ending{}}
	})
	store.note = s.update
	if _, err := s.Edit("a", func(x *registry.Subscription, _ bool) error { *x = pendingCalls("a", srv.URL, 0); return nil }); err != nil {
		t.Fatal(err)
	}
	until(t, "the deliveries of the second", func() bool { return s.Stats().Taken == 3 })
}

// A late report of the end does not remove the new subscription.
func TestLateWordOfTheEnd(t *testing.T) {
	s := newTestEngine(t, nil, pendingCalls("a", "http://127.0.0.1:1/", 0))
	gone := pendingCalls("a", "http://127.0.0.1:1/", 0)
	gone.State = registry.Ended
	s.update(&gone)
	if n := s.Stats().Subscriptions; n != 1 {
		t.Errorf("%d subscriptions are in the books, and one is stored", n)
	}
}
