package notify

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// A listing knows the subscriptions of connected clients, for those who manage
// them. The zero value is empty.
type listing struct {
	mu sync.Mutex
	m  map[string]*listed
}

// A listed subscription's position is written by its session and read by
// anybody.
type listed struct {
	about registry.Subscription
	at    atomic.Pointer[registry.Position]
	end   func() // asks its session to end it; does not wait
}

func (l *listing) add(x *listed) {
	x.about.ID = "live_" + strings.ToLower(rand.Text())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = make(map[string]*listed)
	}
	l.m[x.about.ID] = x
}

func (l *listing) remove(x *listed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, x.about.ID)
}

func (x *listed) show() registry.Subscription {
	s := x.about
	if p := x.at.Load(); p != nil {
		s.Cursor = *p
	}
	return s
}

// Subscriptions lists what WebSocket clients follow now: those after an id, in
// the order of ids, at most limit.
func (s *Server) Subscriptions(after string, limit int) []registry.Subscription {
	s.listing.mu.Lock()
	defer s.listing.mu.Unlock()
	var list []registry.Subscription
	for _, id := range slices.Sorted(maps.Keys(s.listing.m)) {
		if id > after && len(list) < limit {
			list = append(list, s.listing.m[id].show())
		}
	}
	return list
}

// Subscription returns one of them; it wraps registry.ErrNotFound.
func (s *Server) Subscription(id string) (registry.Subscription, error) {
	s.listing.mu.Lock()
	defer s.listing.mu.Unlock()
	if x := s.listing.m[id]; x != nil {
		return x.show(), nil
	}
	return registry.Subscription{}, fmt.Errorf("subscription %s: %w", id, registry.ErrNotFound)
}

// Drop ends one of them: its client is sent complete with the reason dropped.
func (s *Server) Drop(id string) error {
	s.listing.mu.Lock()
	x := s.listing.m[id]
	s.listing.mu.Unlock()
	if x == nil {
		return fmt.Errorf("subscription %s: %w", id, registry.ErrNotFound)
	}
	x.end()
	return nil
}

// errDropped is what an inbound carries that comes from Drop.
type errDropped struct{ sub *subscription }

func (errDropped) Error() string { return "dropped" }

// list enters a subscription among those that can be seen.
func (s *session) list(sub *subscription, filter json.RawMessage) {
	x := &listed{about: registry.Subscription{Way: registry.WebSocket, Caller: s.caller.Name, Name: sub.id, Query: sub.query.ID, Rate: registry.Duration(sub.rate),
		Filter: filter, State: registry.Active, CreatedAt: time.Now().UTC()}}
	x.end = func() {
		go func() { // the session may be writing to a slow client
			select {
			case s.inbox <- inbound{err: errDropped{sub}}:
			case <-s.done:
			}
		}()
	}
	p := sub.pos
	x.at.Store(&p)
	sub.listed = x
	s.srv.listing.add(x)
}

// dropped ends a subscription that Drop named, unless it has ended meanwhile.
func (s *session) dropped(sub *subscription) error {
	if s.subs[sub.id] != sub {
		return nil
	}
	return s.complete(sub, "dropped")
}
