package notify

import (
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// Enlist adds an entry to the list of subscriptions, unless about has no Way. end closes the
// subscription; it does not wait.
func (s *Server) Enlist(about registry.Subscription, end func()) *Entry {
	about.CreatedAt = time.Now().UTC()
	x := &Entry{about: about, count: s.counts.of(about.Way), end: end, leave: func() {}}
	if about.Way != "" {
		x.leave = func() { s.listing.remove(x) }
		s.listing.add(x)
	}
	return x
}

// Program returns the User-Agent of a request, shortened.
func Program(r *http.Request) string { return Shortened(strings.ToValidUTF8(r.UserAgent(), "")) }

// Shortened returns at most 64 bytes of a client's description of itself.
func Shortened(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

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
