// Followers hear when the results of an endpoint may no longer be true.

package server

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/web"
)

// lookForHalts is how often endpoints are looked at.
const lookForHalts = 5 * time.Second

// startWait is how long a node that has joined waits for the nodes that ask endpoints before followers hear that none does: all
// nodes of a cluster may start together.
const startWait = 10 * time.Second

// A haltWatch knows why the results of endpoints may no longer be true. Goroutines that serve followers read
// it, because they must not wait for a loop or for another node.
type haltWatch struct {
	*Server
	why    atomic.Pointer[map[string]string]
	edited chan struct{}        // wakes run
	away   map[string]time.Time // endpoints for which no node has answered yet, since when; only run uses it
}

func newHaltWatch(s *Server) *haltWatch { return &haltWatch{Server: s, edited: make(chan struct{}, 1)} }

// Why returns why the results of an endpoint may no longer be true, "" if it keeps them up to date.
func (h *haltWatch) Why(endpoint string) string {
	if why := h.why.Load(); why != nil {
		return (*why)[endpoint]
	}
	return ""
}

// look makes run look now.
func (h *haltWatch) look() {
	select {
	case h.edited <- struct{}{}:
	default:
	}
}

// run looks at the endpoints until ctx ends, also without followers: the first status of one that connects comes at once.
// A node that has not joined its cluster yet cannot know more than its store.
func (h *haltWatch) run(ctx context.Context) {
	const soon = 100 * time.Millisecond
	pause := soon
	for joined := h.member == nil; ; {
		joined = joined || h.member.Ready() == nil && h.member.Valid()
		if pause = min(2*pause, lookForHalts); !joined || h.update(ctx) {
			pause = soon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-h.edited:
		}
	}
}

// update looks at the endpoints, and wakes the followers of those that begin or cease to keep results up to date. It reports
// whether there are any, or may be soon.
func (h *haltWatch) update(ctx context.Context) (turned bool) {
	now := web.Halts{Registry: h.Registry, Daemon: h.loops}.Now()
	waits := h.wait(now)
	if ctx.Err() != nil { // the store may be closed
		return false
	}
	was, of := map[string]string{}, map[string]bool{}
	if known := h.why.Load(); known != nil {
		was = *known
	}
	for name := range now {
		of[name] = was[name] == ""
	}
	for name := range was {
		of[name] = of[name] || now[name] == ""
	}
	turned = slices.Contains(slices.Collect(maps.Values(of)), true)
	var ids []string
	if turned {
		var err error
		if ids, err = h.queriesOf(of); err != nil { // the next look finds the same
			h.log.Error("followers hear late that results may no longer be true", "error", err)
			return false
		}
	}
	h.why.Store(&now)
	h.Waker.Wake(ids...)
	return turned || waits
}

// wait leaves out the endpoints for which no node has answered since this one joined, unless that is long ago. It reports
// whether there are any.
func (h *haltWatch) wait(why map[string]string) (some bool) {
	first, away := h.why.Load() == nil, map[string]time.Time{}
	for name := range why {
		since, waits := h.away[name]
		if st, err := h.loops.State(name); err != nil || !st.Away || !waits && !first {
			continue
		}
		if first {
			since = time.Now()
		}
		if away[name] = since; time.Since(since) < startWait {
			delete(why, name)
			some = true
		}
	}
	h.away = away
	return some
}

// queriesOf returns the queries of the endpoints that are true in the map.
func (h *haltWatch) queriesOf(endpoints map[string]bool) (ids []string, err error) {
	list, err := h.Store.Catalog.Digests("")
	for i := range list {
		if endpoints[list[i].Endpoint] {
			ids = append(ids, list[i].ID)
		}
	}
	return ids, err
}
