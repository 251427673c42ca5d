package notify

import (
	"sync/atomic"

	"github.com/freshet/freshet/registry"
)

// A count is what has been done by one way out since the start.
type count struct {
	open            atomic.Int64
	delivered, slow atomic.Uint64
}

// counts are those of the ways out that hold connections; the last one is for
// what is not listed.
type counts [4]count

var live = [...]registry.Way{registry.WebSocket, registry.SSE, registry.SEPA}

func (c *counts) of(way registry.Way) *count {
	for i, w := range live {
		if w == way {
			return &c[i]
		}
	}
	return &c[len(live)]
}

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
