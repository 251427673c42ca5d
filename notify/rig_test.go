package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(crowdEnv); spec != "" {
		crowdMain(spec)
		return
	}
	leak.Main(m)
}

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// gate authenticates callers by a table of tokens, in which it also looks up the
// empty token.
type gate map[string]registry.Caller

func (g gate) Authenticate(from, token string) (registry.Caller, error) {
	if token == "guess" && from != "" {
		return registry.Caller{}, registry.ErrGuessing
	}
	c, ok := g[token]
	if !ok || !c.Expires.IsZero() && !time.Now().Before(c.Expires) {
		return c, fmt.Errorf("token: %w", notify.ErrUnauthorized)
	}
	return c, nil
}

// open is a server without tokens.
var open = gate{"": {Name: registry.Anonymous, Role: registry.RoleAdmin}}

// A rig is a running server over a log in memory.
type rig struct {
	t     testing.TB
	log   *notifytest.Log
	waker *notify.Waker
	srv   *notify.Server
	http  *httptest.Server
	tick  int
	token string // of those who connect with hello

	accepted func(net.Conn) // is called with each connection, unless nil
}

func newRig(t testing.TB, change func(*notify.Options)) *rig {
	r := &rig{t: t, log: notifytest.NewLog("store"), waker: notify.NewWaker()}
	o := notifytest.Options(r.log, r.waker, open)
	o.PublicURL = "http://fresh.example"
	if change != nil {
		change(&o)
	}
	r.srv = notify.NewServer(o)
	mux := http.NewServeMux()
	mux.Handle("/v1/live", live.New(r.srv))
	mux.HandleFunc("/v1/queries/{id}/changes", func(w http.ResponseWriter, q *http.Request) {
		query, err := r.log.Resolve(registry.Caller{}, q.PathValue("id"))
		if err != nil {
			query.ID = q.PathValue("id")
		}
		r.srv.Changes(w, q, registry.Anonymous, query)
	})
	mux.HandleFunc("/v1/changes", func(w http.ResponseWriter, q *http.Request) {
		not, only := q.URL.Query().Get("not"), q.URL.Query().Get("only")
		r.srv.All(w, q, registry.Anonymous, func(c *registry.Change) bool {
			return c.Query != not && (only == "" || strings.Contains(only, c.Query))
		})
	})
	r.http = httptest.NewUnstartedServer(mux)
	r.http.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		c.(*net.TCPConn).SetWriteBuffer(64 << 10) // so that a client that does not read is noticed soon
		if r.accepted != nil {
			r.accepted(c)
		}
		return ctx
	}
	r.http.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		r.http.CloseClientConnections()
		r.http.Close()
	})
	return r
}

// record commits a result and wakes the followers.
func (r *rig) record(id string, res *diff.Result) bool {
	r.tick++
	changed := r.log.Record(id, res, time.Unix(1_790_000_000+int64(r.tick), 0))
	r.waker.Wake(id)
	return changed
}

// rows is an unordered SELECT result with one variable.
func rows(values ...string) *diff.Result { return table(false, values...) }

func table(ordered bool, values ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{Ordered: ordered})
	must(b.SetVars([]string{"s"}))
	for _, v := range values {
		must(b.Row(diff.Term{Kind: diff.Literal, Value: v}))
	}
	return finish(b)
}

func graph(values ...string) *diff.Result {
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	for _, v := range values {
		must(b.Triple(diff.Term{Kind: diff.IRI, Value: "http://x/" + v}, diff.Term{Kind: diff.IRI, Value: "http://x/p"},
			diff.Term{Kind: diff.Literal, Value: v}))
	}
	return finish(b)
}

func ask(v bool) *diff.Result {
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	must(b.SetBoolean(v))
	return finish(b)
}

func finish(b *diff.Builder) *diff.Result {
	r, err := b.Finish()
	must(err)
	return r
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A peer is a bare WebSocket client.
type peer struct {
	t    testing.TB
	conn *websocket.Conn
}

func (r *rig) dial(header http.Header) *peer {
	r.t.Helper()
	return r.dialBy(header, func(c net.Conn) net.Conn { return c })
}

// dialSlow connects over a line of about 2 MB a second.
func (r *rig) dialSlow() *peer {
	r.t.Helper()
	return r.dialBy(nil, func(c net.Conn) net.Conn { return slowConn{c} })
}

type slowConn struct{ net.Conn }

func (c slowConn) Read(p []byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return c.Conn.Read(p[:min(len(p), 4<<10)])
}

func (r *rig) dialBy(header http.Header, line func(net.Conn) net.Conn) *peer {
	r.t.Helper()
	own := *websocket.DefaultDialer
	own.Subprotocols = []string{live.Subprotocol}
	own.NetDial = func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err != nil {
			return nil, err
		}
		return line(c), c.(*net.TCPConn).SetReadBuffer(128 << 10)
	}
	conn, _, err := own.Dial("ws"+strings.TrimPrefix(r.http.URL, "http")+"/v1/live", header)
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return &peer{r.t, conn}
}

// hello connects and completes init.
func (r *rig) hello() *peer {
	r.t.Helper()
	p := r.dial(nil)
	p.send(fmt.Sprintf(`{"type":"init","token":%q}`, r.token))
	p.expect("ready")
	return p
}

func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		p.t.Fatalf("send %s: %v", text, err)
	}
}

// A reply is any message of the server.
type reply struct {
	Type, ID, Query, Topic, Epoch, Reason, State, Error, Code, Message, Hash, Form string

	Prev, Seq                                      uint64
	Resumed, Baseline, Filtered, Truncated, Last   bool
	Part                                           int
	Jaccard                                        *float64
	Results, Added, Removed, Payload, Limits, Ping json.RawMessage
	AddedAt                                        []int     `json:"added_at"`
	CheckedAt                                      time.Time `json:"checked_at"`
	NextDue                                        time.Time `json:"next_due"`

	raw string
}

func (p *peer) next() (reply, error) {
	p.conn.SetReadDeadline(time.Now().Add(patience))
	_, b, err := p.conn.ReadMessage()
	if err != nil {
		return reply{}, err
	}
	m := reply{raw: string(b)}
	if err := json.Unmarshal(b, &m); err != nil {
		p.t.Fatalf("message %s: %v", b, err)
	}
	return m, nil
}

// expect reads one message, which must be of this type.
func (p *peer) expect(kind string) reply {
	p.t.Helper()
	m, err := p.next()
	if err != nil {
		p.t.Fatalf("waiting for %s: %v", kind, err)
	}
	if m.Type != kind {
		p.t.Fatalf("got %s, want %s", m.raw, kind)
	}
	return m
}

// closed reads until the connection is closed and returns the code.
func (p *peer) closed() int {
	p.t.Helper()
	for {
		_, err := p.next()
		var c *websocket.CloseError
		if errors.As(err, &c) {
			return c.Code
		}
		if err != nil {
			p.t.Fatalf("closed without a code: %v", err)
		}
	}
}

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
