// This file counts calls and deliveries.

package deliver

import (
	"sync/atomic"

	"github.com/freshet/freshet/registry"
)

// Stats counts requests since the start.
type Stats struct {
	Subscriptions          int
	Sent, Taken, Failed    uint64
	Running, Queued, Hosts int
}

// A tally counts the deliveries of one way.
type tally struct{ taken, failed, retried, givenUp atomic.Uint64 }

// A tallied is what a tally is about: the deliveries of a way, or to one kind of receivers of alerts.
type tallied struct {
	way  registry.Way
	kind string
}

// A WayStats counts deliveries of one way since the start. Verifications and denials
// are not deliveries.
type WayStats struct {
	Way     registry.Way
	Kind    string // of receivers of alerts, "" for all of the way
	Taken   uint64 // accepted by the callback
	Failed  uint64 // failed attempts
	Retried uint64 // attempts after a failed one
	GivenUp uint64 // messages that were given up
}

// count counts an edit that changed a subscription from before to after.
func (t *tally) count(r *Reply, before, after *registry.Subscription) {
	t.taken.Add(after.Deliveries - before.Deliveries)
	if r != nil && !r.OK() {
		t.failed.Add(1)
	}
	if r != nil && before.Failures > 0 {
		t.retried.Add(1)
	}
	t.givenUp.Add(after.GaveUp - before.GaveUp)
}
