// The network between the nodes of the nemesis test: proxies that hold and delay bytes.

package trial

import (
	"bytes"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// A link is one direction between two nodes.
type link struct{ from, to string }

// linkSet is the network. The journal and the API of each node are behind a proxy each, and the proxy
// learns from the first bytes of a connection which node it comes from.
type linkSet struct {
	t      *testing.T
	mu     sync.Mutex
	moved  *sync.Cond // when held or delayed has changed, or a connection has ended
	held   map[link]int
	slow   map[link]time.Duration
	conns  map[net.Conn]bool
	passed map[string]int // pieces of data by kind of proxy, and how many of them a cut link has held
	over   bool
}

func newLinks(t *testing.T) *linkSet {
	n := &linkSet{t: t, held: map[link]int{}, slow: map[link]time.Duration{}, conns: map[net.Conn]bool{}, passed: map[string]int{}}
	n.moved = sync.NewCond(&n.mu)
	t.Cleanup(func() {
		n.mu.Lock()
		n.over = true
		n.mu.Unlock()
		n.cut()
	})
	return n
}

// proxy returns an address at which the others reach the journal or the API of a node.
func (n *linkSet) proxy(kind, node, target string) string {
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
			go n.forward(c, kind, node, target)
		}
	}()
	return l.Addr().String()
}

func (n *linkSet) forward(in net.Conn, kind, node, target string) {
	out, err := net.Dial("tcp", target)
	if err != nil {
		in.Close()
		return
	}
	n.mu.Lock()
	n.conns[in], n.conns[out] = true, true
	n.mu.Unlock()
	x := &linked{linkSet: n, kind: kind, node: node}
	var both sync.WaitGroup
	both.Go(func() { x.copy(out, in, true) })
	both.Go(func() { x.copy(in, out, false) })
	both.Wait()
}

// linked is a connection through a proxy.
type linked struct {
	*linkSet
	kind string // of the proxy
	node string // that the proxy belongs to
	peer string // that has connected; "" if unknown
}

// callerName finds which node has connected: in the greeting of a member of the journal, or in the
// header of a call.
var callerName = regexp.MustCompile(`"server_name":"(\w+)"|\r\nFreshet-Node: (\w+)\r\n`)

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
				if m := callerName.FindSubmatch(first.Bytes()); m != nil {
					x.mu.Lock()
					x.peer, known = string(m[1])+string(m[2]), true
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
	x.passed[x.kind]++
	if x.held[way()] > 0 {
		x.passed[x.kind+" held"]++
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

// count returns how many pieces of data were counted under a name that ends so.
func (n *linkSet) count(suffix string) (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, k := range n.passed {
		if strings.HasSuffix(name, suffix) {
			sum += k
		}
	}
	return sum
}
