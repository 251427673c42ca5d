package notify_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
)

// A countedConn counts the writes of the server.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A countingListener hands out counted connections.
type countingListener struct {
	net.Listener
	last *countedConn
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.last = &countedConn{Conn: c}
	return l.last, nil
}

// count serves the rig's handler at a listener whose connections count writes.
func (r *rig) count() *countingListener {
	first, second := r.http, httptest.NewUnstartedServer(r.http.Config.Handler)
	l := &countingListener{Listener: second.Listener}
	second.Listener = l
	second.Start()
	r.http = second
	r.t.Cleanup(func() {
		second.CloseClientConnections()
		second.Close()
		r.http = first
	})
	return l
}

const (
	slotChanges  = 1000 // of one slot
	windowSize   = 64   // changes that share a commit
	clientsShare = 16   // of them go to one client
)

// commitSlot changes all queries, with a commit and a wake-up for each window.
func (r *rig) commitSlot(ids []string, version int) {
	for window := range slices.Chunk(ids, windowSize) {
		results := make([]*diff.Result, len(window))
		for i := range results {
			results[i] = rows(fmt.Sprint(i, " has ", version))
		}
		r.log.RecordAll(window, results, time.Unix(1_790_000_000+int64(version), 0))
		r.waker.Wake(window...)
	}
}

// shares are the queries that one client follows: all in one commit, or each in another.
func shares(ids []string) map[string][]string {
	far := make([]string, clientsShare)
	for i := range far {
		far[i] = ids[i*len(ids)/clientsShare]
	}
	return map[string][]string{"one commit": ids[windowSize:][:clientsShare], "many commits": far}
}

// TestChangesOfOneClientShareWrites counts the writes to a client that follows 16 of the
// 1,000 queries that change in a slot. Changes of one commit take one write over a
// WebSocket, and a second one if the commit meets a turn of the session. Over an event
// stream they take one write for each buffer of net/http that they fill. Changes of several
// commits take at most one write each, because none waits for a later commit.
func TestChangesOfOneClientShareWrites(t *testing.T) {
	for _, way := range []string{"websocket", "sse"} {
		for where, most := range map[string]map[string]int{"one commit": {"websocket": 2, "sse": 3},
			"many commits": {"websocket": clientsShare, "sse": clientsShare}} {
			t.Run(way+"/"+where, func(t *testing.T) {
				r := newRig(t, func(o *notify.Options) { o.Timing.Ping, o.Timing.Read = time.Hour, 2*time.Hour }) // a heartbeat is a write
				counted := r.count()
				ids := make([]string, slotChanges)
				for i := range ids {
					ids[i] = r.log.Add(fmt.Sprintf("q%04d", i), diff.Select, false)
				}
				r.commitSlot(ids, 1)
				follow := map[string]func([]string) func(){"websocket": r.followShare, "sse": r.streamShare}[way]
				receive := follow(shares(ids)[where])
				for version := 2; version < 6; version++ {
					before := counted.last.writes.Load()
					r.commitSlot(ids, version)
					receive()
					n := int(counted.last.writes.Load() - before)
					t.Logf("%d writes", n)
					if n > most[way] {
						t.Errorf("%d changes take %d writes, at most %d are wanted", clientsShare, n, most[way])
					}
				}
			})
		}
	}
}

// followShare follows queries over a WebSocket. The returned function receives a change of
// each.
func (r *rig) followShare(ids []string) (receive func()) {
	p := r.hello()
	for i, id := range ids {
		p.send(fmt.Sprintf(`{"type":"subscribe","id":"%d","query":%q}`, i, id))
		p.expect("subscribed")
		p.expect("snapshot")
	}
	return func() {
		for range ids {
			p.expect("delta")
		}
	}
}

// streamShare is followShare for an event stream.
func (r *rig) streamShare(ids []string) (receive func()) {
	answer, err := http.Get(r.http.URL + "/v1/changes?only=" + strings.Join(ids, ","))
	must(err)
	r.t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func() {
		for n := 0; n < len(ids); {
			if !lines.Scan() {
				r.t.Fatal("the stream has ended: ", lines.Err())
			}
			if strings.HasPrefix(lines.Text(), "data:") {
				n++
			}
		}
	}
}
