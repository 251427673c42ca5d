package web

// This file serves event streams and feeds of changes.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
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
		again := c.Rechecks.Rechecked() // before the look, or a change in between would be missed
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
	q, err := c.Registry.Resolve(c.caller, query)
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
	if c.Followers == nil {
		offers = offers[:1]
	}
	i := accept.Choose(c.r.Header.Values("Accept"), offers...)
	if i < 0 {
		return false, &problem{Problem: newProblem("not-acceptable", "changes come as JSON or as server-sent events"), available: slices.Concat(offers...)}
	}
	return i == 1, nil
}

// queryFeed serves a query's changes as Atom. The feed is a WebSub topic.
func (c changeAPI) queryFeed(q registry.Query) error {
	st, _, err := c.History.Current(q.ID, false)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s at %s, edition %d, %s", q.ID, st.Position, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.feed(key, func() (Feed, error) { return c.Feeds.QueryFeed(&q, c.params.Values) }, q.Public())
}

// feed serves the changes of a watch as Atom. Only the newest ones have labels that are not known yet.
func (c watchAPI) feed(w watched) error {
	st, _, err := c.History.Current(w.query.ID, false)
	if err != nil {
		return err
	}
	log, err := c.History.After(w.query.ID, registry.Position{Epoch: st.Position.Epoch, Seq: st.Position.Seq - min(st.Position.Seq, usualPage)}, usualPage)
	if _, told := ProblemOf(err); err != nil && !told {
		return err
	}
	deltas := make([]*diff.Delta, len(log))
	for i := range log {
		deltas[i] = log[i].Delta
	}
	f, err := c.Feeds.WatchFeed(&w.query, w.watch, c.names(w.query.Endpoint, w.watch, deltas...), c.params.Values)
	if err != nil {
		return err
	}
	c.linkSelf(f.Self, f.ETag, f.Modified, false)
	if c.unchanged(f.ETag, f.Modified) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.bytes(http.StatusOK, f.Type, f.Body)
}

// allFeed serves the changes of all queries as Atom, or those of a tag or an endpoint.
func (c changeAPI) allFeed() error {
	head, err := c.History.Head()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("all at %s, edition %d, %s", head, c.Registry.Revision(), c.r.URL.RawQuery)
	return c.feed(key, func() (Feed, error) { return c.Feeds.AllFeed(c.params.Values) }, false)
}

func (c changeAPI) feed(key string, read func() (Feed, error), public bool) error {
	doc, about, err := c.Documents.Open("feeds", key, func(w io.Writer) (any, error) {
		f, err := read()
		if err != nil {
			return nil, err
		}
		_, err = w.Write(f.Body)
		f.Body = nil
		return f, err
	})
	if err != nil {
		return err
	}
	defer doc.Close()
	f, _ := about.(Feed)
	if err := c.expected(f.ETag, f.Modified); err != nil {
		return err
	}
	if f.Topic {
		c.linkHub()
	}
	c.linkSelf(f.Self, f.ETag, f.Modified, public)
	if c.unchanged(f.ETag, f.Modified) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.send(http.StatusOK, f.Type, doc)
}
