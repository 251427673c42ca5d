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

// A haltWatch knows why the results of endpoints may no longer be true. Goroutines that serve followers read
// it, because they must not wait for a loop or for another node.
type haltWatch struct {
	*Server
	why    atomic.Pointer[map[string]string]
	edited chan struct{} // wakes run
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
	for joined := h.member == nil; ; {
		pause := lookForHalts
		if joined = joined || h.member.Ready() == nil; joined {
			h.update(ctx)
		} else {
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-h.edited:
		}
	}
}

// update looks at the endpoints, and wakes the followers of those that begin or cease to keep results up to date.
func (h *haltWatch) update(ctx context.Context) {
	now := web.Halts{Registry: h.Registry, Daemon: h.loops}.Now()
	if ctx.Err() != nil { // the store may be closed
		return
	}
	was, turned := map[string]string{}, map[string]bool{}
	if known := h.why.Load(); known != nil {
		was = *known
	}
	for name := range now {
		turned[name] = was[name] == ""
	}
	for name := range was {
		turned[name] = turned[name] || now[name] == ""
	}
	ids, err := h.queriesOf(turned)
	if err != nil { // the next look finds the same
		h.log.Error("followers hear late that results may no longer be true", "error", err)
		return
	}
	h.why.Store(&now)
	h.Waker.Wake(ids...)
}

// queriesOf returns the queries of the endpoints that are true in the map.
func (h *haltWatch) queriesOf(endpoints map[string]bool) (ids []string, err error) {
	if !slices.Contains(slices.Collect(maps.Values(endpoints)), true) {
		return nil, nil
	}
	list, err := h.Store.Catalog.Digests("")
	for i := range list {
		if endpoints[list[i].Endpoint] {
			ids = append(ids, list[i].ID)
		}
	}
	return ids, err
}
