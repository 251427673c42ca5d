// Live connections of followers, at this node and at other nodes of the cluster.

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A connections is web.Subscriptions of this node's own connections.
type connections struct{ *notify.Server }

// Subscriptions implements web.Subscriptions.
func (c connections) Subscriptions(after string, limit int) ([]registry.Subscription, error) {
	return c.Server.Subscriptions(after, limit), nil
}

// Act implements web.Subscriptions.
func (c connections) Act(id, verb string) (registry.Subscription, error) {
	x, err := c.Subscription(id)
	switch {
	case err != nil:
		return x, err
	case verb == "drop":
		return x, c.Drop(id)
	case verb == "pause" && x.State != registry.Active:
		return x, &registry.Problem{Kind: registry.KindConflict, Detail: "it is paused already"}
	}
	return c.SetPaused(id, verb == "pause")
}

// A connection is how the API describes one.
type connection struct {
	registry.Subscription
	Epoch string
	Seq   uint64
}

func (c connection) subscription() registry.Subscription {
	c.Cursor = registry.Position{Epoch: c.Epoch, Seq: c.Seq}
	return c.Subscription
}

// everywhere sends a request to all other nodes that live. It calls f with the answer of each, one
// after the other.
func everywhere[T any](p *peers, r request, f func(T, error)) {
	nodes, _, err := p.member.store.Leases.Nodes()
	if err != nil {
		f(*new(T), err)
		return
	}
	var mu sync.Mutex
	var calls sync.WaitGroup
	r.page = true
	for _, n := range nodes { // one may be the last process of this node
		if n.Session == "" || n.Name == p.member.conf.Node || !p.member.Lives(n.Name) {
			continue
		}
		calls.Go(func() {
			var x T
			err := p.send(context.Background(), n, role{text: "has connections of its own"}, r, &x)
			mu.Lock()
			defer mu.Unlock()
			f(x, err)
		})
	}
	calls.Wait()
}

// connections returns connections of other nodes. Those of a node that does not answer, which was
// logged, are left out.
func (p *peers) connections(after string, limit int) (all []registry.Subscription) {
	if p == nil { // there is no cluster
		return nil
	}
	path := fmt.Sprint("/v1/subscriptions?limit=", limit)
	if after != "" {
		path += "&cursor=" + url.QueryEscape(after)
	}
	everywhere(p, request{method: http.MethodGet, path: path}, func(page struct{ Subscriptions []connection }, _ error) {
		for _, c := range page.Subscriptions {
			all = append(all, c.subscription())
		}
	})
	return all
}

// connection reads a connection of another node, or does something about it. It returns missing if no
// other node has it, and a problem of the kind unavailable if a node that may have it does not answer.
func (p *peers) connection(id, verb string, missing error) (x registry.Subscription, err error) {
	err = missing
	if p == nil || !strings.HasPrefix(id, notify.LiveID) {
		return x, err
	}
	r := request{method: http.MethodGet, path: "/v1/subscriptions/" + url.PathEscape(id)}
	switch verb {
	case "drop":
		r.method = http.MethodDelete
	case "pause", "resume":
		r.method, r.path = http.MethodPost, r.path+"/"+verb
	}
	everywhere(p, r, func(c connection, failed error) {
		switch {
		case failed == nil:
			x, err = c.subscription(), nil
		case err != nil && !errors.Is(failed, registry.ErrNotFound):
			err = failed
		}
	})
	return x, err
}
