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
