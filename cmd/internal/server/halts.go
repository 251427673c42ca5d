// Followers hear when the results of an endpoint may no longer be true.

package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/web"
)

// lookForHalts is how often endpoints are looked at for followers.
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

// run looks at the endpoints while there are followers, until ctx ends.
func (h *haltWatch) run(ctx context.Context) {
	t := time.NewTicker(lookForHalts)
	defer t.Stop()
	for {
		h.update(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-h.edited:
		}
	}
}

// update looks at the endpoints, and wakes the followers of those that begin or cease to keep results up to date.
func (h *haltWatch) update(ctx context.Context) {
	now := map[string]string{}
	if len(h.live.Subscriptions("", 1)) > 0 {
		now = web.Halts{Registry: h.Registry, Daemon: h.loops}.Now()
	}
	if ctx.Err() != nil { // the store may be closed
		return
	}
	was, turned := h.why.Swap(&now), map[string]bool{}
	if was == nil {
		was = &map[string]string{}
	}
	for name := range now {
		turned[name] = (*was)[name] == ""
	}
	for name := range *was {
		turned[name] = turned[name] || now[name] == ""
	}
	h.wakeFollowers(turned)
}

// wakeFollowers wakes the followers of the queries of endpoints.
func (h *haltWatch) wakeFollowers(of map[string]bool) {
	for _, turned := range of {
		if turned {
			list, err := h.Store.Catalog.Digests("")
			if err != nil {
				h.log.Error("followers hear late that results may no longer be true", "error", err)
			}
			var ids []string
			for i := range list {
				if of[list[i].Endpoint] {
					ids = append(ids, list[i].ID)
				}
			}
			h.Waker.Wake(ids...)
			return
		}
	}
}
