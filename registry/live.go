package registry

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// liveGrace is how long a registration made by a live subscription lasts after
// its last connection.
const liveGrace = 24 * time.Hour

// liveHolds counts the connections of live subscriptions and ends their
// registrations a grace period after the last one.
type liveHolds struct {
	store QueryStore
	edit  func(id string, edit func(*Query) error) (Query, error)
	now   func() time.Time
	log   *slog.Logger
	node  string                 // "" without a cluster
	lives func(node string) bool // whether another node sends heartbeats

	mu          sync.Mutex
	connections map[LiveHold]int // of each hold whose ReleaseAt is unset
	ended       []LiveHold       // holds without a connection whose ReleaseAt could not be stored yet
}

// restore starts the grace period of the holds that a previous process of this node
// left behind.
func (l *liveHolds) restore() error {
	holds, err := l.store.LiveHolds()
	if err != nil {
		return err
	}
	for _, h := range holds {
		if h.ReleaseAt == nil && (l.node == "" || h.Node == "" || h.Node == l.node) { // others are those of nodes that live
			l.ended = append(l.ended, LiveHold{Query: h.Query, Caller: h.Caller, Node: h.Node})
		}
	}
	if err := l.beginGrace(); !errors.Is(err, ErrReadOnly) {
		return err
	}
	return nil
}

// connect counts one connection. The returned function ends it.
func (l *liveHolds) connect(h LiveHold) (disconnect func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connections[h]++
	return sync.OnceFunc(func() { l.disconnect(h) })
}

func (l *liveHolds) disconnect(h LiveHold) {
	l.mu.Lock()
	l.connections[h]--
	last := l.connections[h] == 0
	if last {
		delete(l.connections, h)
		l.ended = append(l.ended, h)
	}
	l.mu.Unlock()
	if !last {
		return
	}
	if err := l.beginGrace(); err != nil && !errors.Is(err, ErrReadOnly) {
		l.log.Error("storing the end of a live subscription failed", "query", h.Query, "error", err)
	}
}

// beginGrace stores the release time of live holds whose last connection ended.
// What cannot be stored now is retried by the next call.
func (l *liveHolds) beginGrace() error {
	l.mu.Lock()
	ended := l.ended
	l.ended = nil
	l.mu.Unlock()
	for i, h := range ended {
		if l.connected(h) {
			continue
		}
		if err := l.setRelease(h, l.now().Add(liveGrace).UTC()); err != nil {
			l.mu.Lock()
			l.ended = append(l.ended, ended[i:]...)
			l.mu.Unlock()
			return err
		}
	}
	return nil
}

func (l *liveHolds) setRelease(hold LiveHold, at time.Time) error {
	_, err := l.edit(hold.Query, func(q *Query) error {
		for i := range q.Holders {
			if h := &q.Holders[i]; h.Caller == hold.Caller && h.Live && h.ReleaseAt == nil && h.Node == hold.Node {
				h.ReleaseAt = &at
			}
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// adoptHold makes a hold that is connected here one of this node.
func (l *liveHolds) adoptHold(hold LiveHold) error {
	_, err := l.edit(hold.Query, func(q *Query) error {
		for i := range q.Holders {
			if h := &q.Holders[i]; h.Caller == hold.Caller && h.Live {
				h.ReleaseAt, h.Node = nil, l.node
			}
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// sweep releases the live registrations whose grace period has ended. The grace period of
// those of nodes that are gone begins. One that a caller has at two nodes belongs to the node
// at which it connected last; when that connection ends, the other node takes it.
func (l *liveHolds) sweep() error {
	if err := l.beginGrace(); err != nil {
		return err
	}
	holds, err := l.store.LiveHolds()
	if err != nil {
		return err
	}
	now := l.now()
	for _, h := range holds {
		connected := l.connected(h)
		switch {
		case connected && h.ReleaseAt != nil:
			err = l.adoptHold(h)
		case h.ReleaseAt == nil && !connected && h.Node != l.node && !l.lives(h.Node):
			err = l.setRelease(h, now.Add(liveGrace).UTC())
		}
		if err != nil {
			return err
		}
		if h.ReleaseAt == nil || now.Before(*h.ReleaseAt) || connected {
			continue
		}
		_, err := l.edit(h.Query, func(q *Query) error {
			q.Holders = slices.DeleteFunc(q.Holders, func(x Holder) bool {
				return x.Caller == h.Caller && x.Live && x.ReleaseAt != nil && !now.Before(*x.ReleaseAt)
			})
			return nil
		})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

func (l *liveHolds) connected(h LiveHold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connections[LiveHold{Query: h.Query, Caller: h.Caller, Node: l.node}] > 0
}
