package notify

import (
	"sync/atomic"

	"github.com/freshet/freshet/registry"
)

// A count holds the counters of one protocol since the start.
type count struct {
	open            atomic.Int64
	delivered, slow atomic.Uint64
}

// counts holds the counters of the protocols with connections. The last element is
// for streams that are not listed.
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
