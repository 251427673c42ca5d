package deliver

import "github.com/freshet/freshet/registry"

// Stats counts requests since the start.
type Stats struct {
	Subscriptions       int
	Sent, Taken, Failed uint64
	Running, Queued     int
}

// A tallied is what a WayStats is about: the deliveries of a way, or to one kind of receivers of alerts.
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
func (w *WayStats) count(r *Reply, before, after *registry.Subscription) {
	w.Taken += after.Deliveries - before.Deliveries
	if r != nil && !r.OK() {
		w.Failed++
	}
	if r != nil && before.Failures > 0 {
		w.Retried++
	}
	w.GivenUp += after.GaveUp - before.GaveUp
}
