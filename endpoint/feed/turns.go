package feed

import (
	"context"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Wikimedia allows two connections from one address. With more feeds of one server, they take turns: each continues
// where it was, so nothing is lost.
const (
	together = 2  // connections to a server
	turn     = 60 // pauses after which a feed makes room for one that waits: a minute
)

// A gate lets a few feeds of one server through at a time, in the order in which they come.
type gate struct {
	*semaphore.Weighted
	feeds int // that are through or wait
}

var gates = struct {
	sync.Mutex
	of map[string]*gate // by the server's address
}{of: map[string]*gate{}}

// awaitTurn waits until a connection to the server is free. It calls over when the connection has had its turn and another
// feed waits. The caller calls leave when the connection has ended.
func (w *wikimedia) awaitTurn(ctx context.Context, over func()) (leave func(), err error) {
	u, err := url.Parse(w.url)
	if err != nil {
		return nil, err
	}
	gates.Lock()
	g := gates.of[u.Host]
	if g == nil {
		g = &gate{Weighted: semaphore.NewWeighted(together)}
		gates.of[u.Host] = g
	}
	g.feeds++
	if g.feeds > together && !w.told {
		w.told = true
		w.log.Info("a feed takes turns with others, because the server takes two connections from one address", "feed", w.Name,
			"server", u.Host)
	}
	gates.Unlock()
	gone := func() {
		gates.Lock()
		defer gates.Unlock()
		if g.feeds--; g.feeds == 0 {
			delete(gates.of, u.Host)
		}
	}
	if err := g.Acquire(ctx, 1); err != nil {
		gone()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		for tick := time.Tick(turn * w.pause); ; {
			select {
			case <-ended:
				return
			case <-tick:
			}
			gates.Lock()
			crowded := g.feeds > together
			gates.Unlock()
			if crowded {
				over()
			}
		}
	}()
	return func() {
		close(ended)
		g.Release(1)
		gone()
	}, nil
}
