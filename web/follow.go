package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/accept"
)

// follow passes the request to an event stream, of one query or of all (""); HEAD only
// checks whether the stream exists. The stream ends when its caller loses access.
func (c *call) follow(query string, stream func()) error {
	if c.r.Method == http.MethodHead {
		c.w.Header().Set("Content-Type", typeSSE)
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	again := *c
	again.w = nil // belongs to the stream, and so does what is recorded of it
	ctx, cancel := context.WithCancel(c.r.Context())
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	c.r = c.r.WithContext(ctx)
	watch.Go(func() {
		defer cancel()
		again.watch(ctx, query)
	})
	stream()
	return nil
}

// name is who calls, as subscriptions show it.
func (c *call) name() string {
	if c.caller.Name == "" {
		return registry.Anonymous
	}
	return c.caller.Name
}

// watch returns when the caller loses access or ctx ends. A failed check also ends the
// stream: its client reconnects and receives the error.
func (c *call) watch(ctx context.Context, query string) {
	tick := time.NewTicker(c.Limits.Recheck)
	defer tick.Stop()
	for {
		again := c.Rechecked() // before the look, or a change in between would be missed
		if err := c.readmit(query); err != nil {
			c.Logger.Info("event stream ended: its caller is not let in any more", "caller", c.caller.Name, "query", query, "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-again:
		}
	}
}

// readmit repeats the checks that admitted the caller. The stream itself reports that
// the query has ended.
func (c *call) readmit(query string) error {
	if err := c.admit(c.route); err != nil || c.signed {
		return err
	}
	q, err := c.Registry.Query(query)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return nil
	case err == nil && !c.caller.MayRead(&q):
		return errNoToken
	}
	return err
}

const typeSSE = "text/event-stream"

// wantsStream chooses between JSON and server-sent events.
func (c *call) wantsStream() (bool, error) {
	c.w.Header().Add("Vary", "Accept")
	offers := [][]string{{typeJSON}, {typeSSE}}
	i := accept.Choose(c.r.Header.Values("Accept"), offers...)
	if i < 0 {
		return false, &registry.Problem{Kind: "not-acceptable", Detail: "changes come as JSON or as server-sent events",
			Available: slices.Concat(offers...)}
	}
	return i == 1, nil
}
