// The network between the nodes of the nemesis test: proxies that hold and delay bytes.

package main

import (
	"bytes"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"
)

// A link is one direction between two nodes.
type link struct{ from, to string }

// linkSet is the network. Each node listens behind a proxy, and the proxy learns from the first
// bytes of a connection which node it comes from.
type linkSet struct {
	t     *testing.T
	mu    sync.Mutex
	moved *sync.Cond // when held or delayed has changed, or a connection has ended
	held  map[link]int
	slow  map[link]time.Duration
	conns map[net.Conn]bool
	over  bool
}

func newLinks(t *testing.T) *linkSet {
	n := &linkSet{t: t, held: map[link]int{}, slow: map[link]time.Duration{}, conns: map[net.Conn]bool{}}
	n.moved = sync.NewCond(&n.mu)
	t.Cleanup(func() {
		n.mu.Lock()
		n.over = true
		n.mu.Unlock()
		n.cut()
	})
	return n
}

// proxy returns an address at which the others reach a node.
func (n *linkSet) proxy(node, target string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.forward(c, node, target)
		}
	}()
	return l.Addr().String()
}

func (n *linkSet) forward(in net.Conn, node, target string) {
	out, err := net.Dial("tcp", target)
	if err != nil {
		in.Close()
		return
	}
	n.mu.Lock()
	n.conns[in], n.conns[out] = true, true
	n.mu.Unlock()
	x := &linked{linkSet: n, node: node}
	var both sync.WaitGroup
	both.Go(func() { x.copy(out, in, true) })
	both.Go(func() { x.copy(in, out, false) })
	both.Wait()
}

// linked is a connection through a proxy.
type linked struct {
	*linkSet
	node string // that the proxy belongs to
	peer string // that has connected; "" if unknown
}

var serverName = regexp.MustCompile(`"server_name":"(\w+)"`)

func (x *linked) copy(to, from net.Conn, fromPeer bool) {
	defer func() {
		to.Close()
		from.Close()
		x.mu.Lock()
		delete(x.conns, to)
		delete(x.conns, from)
		x.moved.Broadcast()
		x.mu.Unlock()
	}()
	var first bytes.Buffer
	known := false
	b := make([]byte, 64<<10)
	for {
		k, err := from.Read(b)
		if k > 0 {
			if fromPeer && !known {
				first.Write(b[:k])
				if m := serverName.FindSubmatch(first.Bytes()); m != nil {
					x.mu.Lock()
					x.peer, known = string(m[1]), true
					x.mu.Unlock()
				}
			}
			if !x.pass(from, fromPeer) {
				return
			}
			if _, err := to.Write(b[:k]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until bytes may go on. It returns false if the connection has ended.
func (x *linked) pass(from net.Conn, fromPeer bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	way := func() link {
		if fromPeer {
			return link{x.peer, x.node}
		}
		return link{x.node, x.peer}
	}
	for x.held[way()] > 0 && x.conns[from] {
		x.moved.Wait()
	}
	if d := x.slow[way()]; d > 0 {
		x.mu.Unlock()
		time.Sleep(d)
		x.mu.Lock()
	}
	return x.conns[from]
}

// hold holds all bytes of some links until the returned function is called.
func (n *linkSet) hold(links ...link) (heal func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.held[l]++
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range links {
			n.held[l]--
		}
		n.moved.Broadcast()
	}
}

// delay makes some links slow until the returned function is called.
func (n *linkSet) delay(d time.Duration, links ...link) (heal func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.slow[l] += d
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range links {
			n.slow[l] -= d
		}
	}
}

// cut closes all connections.
func (n *linkSet) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.Close()
		delete(n.conns, c)
	}
	n.moved.Broadcast()
}
