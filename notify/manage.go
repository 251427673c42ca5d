package notify

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// list adds a subscription at position p to the listing, unless about has no Way.
func (s *Server) list(about registry.Subscription, p registry.Position, end, wake func()) *listed {
	about.CreatedAt = time.Now().UTC()
	x := &listed{about: about, count: s.counts.of(about.Way), at: p, end: end, wake: wake}
	if about.Way == "" {
		return x
	}
	s.listing.add(x)
	return x
}

// Subscriptions lists what connected clients follow by WebSocket, SSE and SEPA: at
// most limit subscriptions after an id, in id order.
func (s *Server) Subscriptions(after string, limit int) []registry.Subscription {
	var list []registry.Subscription
	for _, x := range s.listing.after(after, limit) {
		list = append(list, x.show())
	}
	return list
}

// AllSubscriptions iterates over the subscriptions of connections that exist when it
// begins. Clients that connect or disconnect meanwhile do not wait for it.
func (s *Server) AllSubscriptions(yield func(registry.Subscription) bool) {
	for _, x := range s.listing.after("", math.MaxInt) {
		if !yield(x.show()) {
			return
		}
	}
}

// Subscription returns a subscription of a connection. The error wraps
// registry.ErrNotFound.
func (s *Server) Subscription(id string) (registry.Subscription, error) {
	x, err := s.listing.find(id)
	if err != nil {
		return registry.Subscription{}, err
	}
	return x.show(), nil
}

// Drop ends a subscription of a connection. Its client receives complete with the
// reason dropped or, over SEPA, an error and unsubscribed. It may subscribe again.
func (s *Server) Drop(id string) error {
	x, err := s.listing.find(id)
	if err != nil {
		return err
	}
	x.end()
	return nil
}

// SetPaused pauses or resumes a subscription. The connection stays open, and changes
// wait in the log. If the log is trimmed past the position meanwhile, the client gets
// a gap.
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

// Program returns the User-Agent of a request, shortened.
func Program(r *http.Request) string { return shortened(strings.ToValidUTF8(r.UserAgent(), "")) }

// A WayStats holds the counters of one protocol.
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
