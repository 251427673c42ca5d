// Live connections of followers at other nodes of the cluster.

package server

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A connectionCall is a call about the live connections of a node.
type connectionCall struct {
	Do    string // a verb of web.Subscriptions, or one of those below
	ID    string // of a connection; a list begins after it
	Limit int    // of a list
}

const (
	connectionRead = "read"
	connectionList = "list"
)

// perform makes a call about the connections of this node.
func (c *connectionCall) perform(live *notify.Server) (list []registry.Subscription, err error) {
	if c.Do == connectionList {
		return live.Subscriptions(c.ID, c.Limit), nil
	}
	x, err := act(live, c.ID, c.Do)
	return []registry.Subscription{x}, err
}

// act does something about a connection of this node. It wraps registry.ErrNotFound.
func act(live *notify.Server, id, verb string) (registry.Subscription, error) {
	x, err := live.Subscription(id)
	switch {
	case err != nil || verb == connectionRead:
		return x, err
	case verb == "drop":
		return x, live.Drop(id)
	case verb == "pause" && x.State != registry.Active:
		return x, &registry.Problem{Kind: registry.KindConflict, Detail: "it is paused already"}
	}
	return live.SetPaused(id, verb == "pause")
}

// everywhere makes a call at all other nodes that live. It calls f with the answer of each, one
// after the other.
func (p *peers) everywhere(c connectionCall, f func([]registry.Subscription, error)) {
	if p == nil { // there is no cluster
		return
	}
	nodes, _, err := p.member.store.Leases.Nodes()
	if err != nil {
		f(nil, err)
		return
	}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for _, n := range nodes { // one may be the last process of this node
		if n.Session == "" || n.Name == p.member.conf.Node || !p.member.Lives(n.Name) {
			continue
		}
		calls.Go(func() {
			r, err := p.reach(context.Background(), n, duty{text: "has connections of its own"}, nodeCall{Verb: verbConnections, Connections: &c})
			mu.Lock()
			defer mu.Unlock()
			f(r.Connections, err)
		})
	}
	calls.Wait()
}

// connections returns connections of other nodes. Those of a node that does not answer, which was
// logged, are left out.
func (p *peers) connections(after string, limit int) (all []registry.Subscription) {
	p.everywhere(connectionCall{Do: connectionList, ID: after, Limit: limit}, func(list []registry.Subscription, err error) {
		if err == nil {
			all = append(all, list...)
		}
	})
	return all
}

// connection makes a call about one connection at the node that has it. It returns missing if no
// other node has it, and a problem of the kind unavailable if a node that may have it does not
// answer.
func (p *peers) connection(c connectionCall, missing error) (x registry.Subscription, err error) {
	err = missing
	if !strings.HasPrefix(c.ID, notify.LiveID) {
		return x, err
	}
	p.everywhere(c, func(list []registry.Subscription, failed error) {
		switch {
		case failed == nil && len(list) == 1:
			x, err = list[0], nil
		case failed != nil && err != nil && !errors.Is(failed, registry.ErrNotFound):
			err = failed
		}
	})
	return x, err
}
