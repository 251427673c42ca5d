package notify

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// list enters a subscription at position p among those that can be seen,
// unless about names no way out.
func (s *Server) list(about registry.Subscription, p registry.Position, end, wake func()) *listed {
	about.CreatedAt = time.Now().UTC()
	x := &listed{about: about, count: s.counts.of(about.Way), at: p, end: end, wake: wake}
	if about.Way == "" {
		return x
	}
	s.listing.add(x)
	return x
}

// Subscriptions lists what connected clients follow now, by WebSocket, SSE and
// SEPA: those after an id, in the order of ids, at most limit.
func (s *Server) Subscriptions(after string, limit int) []registry.Subscription {
	var list []registry.Subscription
	for _, x := range s.listing.after(after, limit) {
		list = append(list, x.show())
	}
	return list
}

// AllSubscriptions goes through the subscriptions of connections as they are when it
// begins. Followers that come or go meanwhile do not wait for it.
func (s *Server) AllSubscriptions(yield func(registry.Subscription) bool) {
	for _, x := range s.listing.after("", math.MaxInt) {
		if !yield(x.show()) {
			return
		}
	}
}

// Subscription returns one of them; it wraps registry.ErrNotFound.
func (s *Server) Subscription(id string) (registry.Subscription, error) {
	x, err := s.listing.find(id)
	if err != nil {
		return registry.Subscription{}, err
	}
	return x.show(), nil
}

// Drop ends one of them: its client is sent complete with the reason dropped,
// one of SEPA an error and unsubscribed. It may come back.
func (s *Server) Drop(id string) error {
	x, err := s.listing.find(id)
	if err != nil {
		return err
	}
	x.end()
	return nil
}

// SetPaused pauses one of them, or lets it go on. Its connection stays,
// and what changes meanwhile waits in the log; when the log is trimmed beyond
// its position, that is a gap like any other.
func (s *Server) SetPaused(id string, on bool) (registry.Subscription, error) {
	x, err := s.listing.find(id)
	if err != nil {
		return registry.Subscription{}, err
	}
	x.paused.Store(on)
	if !on {
		x.wake()
	}
	return x.show(), nil
}

// Program is what a request says that its program is, shortened.
func Program(r *http.Request) string { return shortened(strings.ToValidUTF8(r.UserAgent(), "")) }

// A WayStats counts what one way out does.
type WayStats struct {
	Way         registry.Way
	Connections int64  // open now
	Delivered   uint64 // changes and snapshots written since the start
	Slow        uint64 // connections that were cut off because nothing was read
}

// WayStats returns the present counts of WebSocket, SSE and SEPA.
func (s *Server) WayStats() []WayStats {
	var list []WayStats
	for i, way := range live {
		c := &s.counts[i]
		list = append(list, WayStats{way, c.open.Load(), c.delivered.Load(), c.slow.Load()})
	}
	return list
}
