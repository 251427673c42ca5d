package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// quick shortens the server's time limits for a test.
func quick(o *notify.Options) {
	o.Timing = notify.Timing{Init: 200 * time.Millisecond, Ping: 100 * time.Millisecond, Write: 300 * time.Millisecond, Close: time.Second}
}

// brief accepts every token, which expires at once.
type brief struct{}

func (brief) Authenticate(string, string) (registry.Caller, error) {
	return registry.Caller{Name: "b", Role: registry.RoleRead, Expires: time.Now()}, nil
}

// few allows a client only few messages.
func few(o *notify.Options) { o.Limits.Rate, o.Limits.Burst = 1, 10 }

// frames sends bytes after init.
func frames(raw string) func(*rig, *peer) {
	return func(r *rig, p *peer) {
		p.send(`{"type":"init"}`)
		p.expect("ready")
		if _, err := p.conn.NetConn().Write([]byte(raw)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestCloseCodes(t *testing.T) {
	reader := gate{"good": {Name: "r", Role: registry.RoleRead}, "none": {Name: "n", Role: ""}}
	for _, c := range []struct {
		name string
		opts func(*notify.Options)
		do   func(r *rig, p *peer)
		want int
	}{
		{"not JSON", nil, say(`{"type":"init"}`, `hello`), 4400},
		{"no object", nil, say(`{"type":"init"}`, `[1]`), 4400},
		{"no type", nil, say(`{"type":"init"}`, `{"id":"a"}`), 4400},
		{"type no string", nil, say(`{"type":"init"}`, `{"type":7}`), 4400},
		{"trailing garbage", nil, say(`{"type":"init"}`, `{"type":"ping"} x`), 4400},
		{"empty frame", nil, say(`{"type":"init"}`, ``), 4400},
		{"not initialised", nil, say(`{"type":"ping"}`), 4401},
		{"malformed before init", nil, say(`nonsense`), 4400},
		{"no bearer token", func(o *notify.Options) { o.Gate = reader }, func(r *rig, p *peer) {
			p.conn.Close()
			*p = *r.dial(http.Header{"Authorization": {"Basic eDp5"}})
			p.send(`{"type":"init"}`)
		}, 4401},
		{"too many wrong tokens", func(o *notify.Options) { o.Gate = reader }, say(`{"type":"init","token":"guess"}`), 4003},
		{"bad token", func(o *notify.Options) { o.Gate = reader }, say(`{"type":"init","token":"bad"}`), 4401},
		{"token without right", func(o *notify.Options) { o.Gate = reader }, say(`{"type":"init","token":"none"}`), 4403},
		{"cut off", func(o *notify.Options) {
			o.Gate = gateFunc(func(string) (registry.Caller, error) {
				return registry.Caller{}, &registry.Problem{Kind: registry.KindUnavailable, Detail: "ask another node"}
			})
		}, say(`{"type":"init","token":"made elsewhere"}`), 4005},
		{"token expires", func(o *notify.Options) { o.Gate = brief{} }, say(`{"type":"init","token":"brief"}`), 4002},
		{"no init", quick, say(), 4408},
		{"id in use", nil, say(`{"type":"init"}`, `{"type":"subscribe","id":"a","query":"q"}`,
			`{"type":"subscribe","id":"a","query":"q"}`), 4409},
		{"second init", nil, say(`{"type":"init"}`, `{"type":"init"}`), 4429},
		{"binary", nil, func(_ *rig, p *peer) { p.conn.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"init"}`)) }, 1003},
		{"bad UTF-8", nil, func(_ *rig, p *peer) {
			p.conn.WriteMessage(websocket.TextMessage, []byte("{\"type\":\"init\",\"client\":\"\xff\"}"))
		}, 1007},
		{"bad UTF-8 later", nil, say(`{"type":"init"}`, "{\"type\":\"ping\",\"payload\":\"\xc3\x28\"}"), 1007},
		{"too large", func(o *notify.Options) { o.Limits.Message = 1000 }, say(`{"type":"init","client":"` + strings.Repeat("x", 1000) +
			`"}`), 1009},
		{"too large before init", nil, say(`{"type":"init","client":"` + strings.Repeat("x", 16<<10) + `"}`), 1009},
		{"too large in fragments before init", nil, fragments(20, 1000), 1009},
		{"as large after init as it may be", nil, say(`{"type":"init"}`, `{"type":"ping","payload":"`+strings.Repeat("x", 1<<20-100)+`"}`,
			`{"type":"ping","payload":"`+strings.Repeat("x", 1<<20)+`"}`), 1009},
		{"too large without a token", func(o *notify.Options) { o.Gate = reader }, say(`{"type":"init"}`,
			`{"type":"ping","payload":"`+strings.Repeat("x", 16<<10-100)+`"}`, `{"type":"ping","payload":"`+strings.Repeat("x", 16<<10)+`"}`),
			1009},
		{"too large in fragments", func(o *notify.Options) { o.Limits.Message = 1000 }, fragments(20, 100), 1009},
		{"too many pings", few, frames(strings.Repeat("\x89\x80abcd", 20)), 4003},
		{"too many pongs", few, frames(strings.Repeat("\x8a\x81abcd!", 20)), 4003},
		{"too many fragments", func(o *notify.Options) { o.Limits.Message = 1000 },
			frames("\x01\x80abcd" + strings.Repeat("\x00\x80abcd", 400)), 4003},
		{"too often", func(o *notify.Options) { o.Limits.Rate, o.Limits.Burst = 1, 5 },
			say(strings.Split(`{"type":"init"}`+strings.Repeat("\n"+`{"type":"ping"}`, 8), "\n")...), 4003},
		{"draining", nil, func(r *rig, p *peer) {
			say(`{"type":"init"}`)(r, p)
			p.expect("ready")
			go r.srv.Shutdown(t.Context())
		}, 4004},
		{"a node that is cut off", cutOff, say(`{"type":"init"}`, `{"type":"subscribe","id":"a","query":"q"}`), 4005},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.opts)
			r.log.Add("q", "SELECT", false)
			p := r.dial(nil)
			c.do(r, p)
			if got := p.closed(); got != c.want {
				t.Errorf("closed with %d, want %d", got, c.want)
			}
		})
	}
}

// cutOff makes a server that does not know the newest state of its cluster.
func cutOff(o *notify.Options) {
	o.Confirm = func() error {
		return fmt.Errorf("confirm: %w", &registry.Problem{Kind: registry.KindUnavailable, Detail: "ask another node"})
	}
}

// While a node asks the others before it begins a subscription, or finds what it follows, the connection's other
// messages do not wait.
func TestMessagesWhileSubscriptionWaits(t *testing.T) {
	asked, answer := make(chan string, 9), make(chan error)
	for name, c := range map[string]struct {
		edit      func(*notify.Options)
		subscribe string
	}{
		"the newest state": {func(o *notify.Options) {
			first := true
			o.Confirm = func() error {
				if first {
					first = false
					return nil
				}
				asked <- ""
				return <-answer
			}
		}, `{"type":"subscribe","id":"b","query":"q"}`},
		"the position": {func(o *notify.Options) { o.Log = askingLog{o.Log, asked, answer} },
			`{"type":"subscribe","id":"b","query":"q","resume":{"epoch":"other","seq":5}}`},
		"the query": {func(o *notify.Options) { o.Registrar = askingRegistrar{o.Registrar, asked, answer} },
			`{"type":"subscribe","id":"b","query":"unknown"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.edit)
			id := r.log.Add("q", "SELECT", false)
			r.record(id, rows("1"))
			p := r.hello()
			p.follow("a", "q", "")
			p.expect("snapshot")
			p.send(c.subscribe)
			<-asked
			defer func() { answer <- nil }()
			r.record(id, rows("2"))
			if d := p.expect("delta"); d.ID != "a" {
				t.Errorf("%+v", d)
			}
		})
	}
}

// An askingLog asks before it says that it does not continue from a position.
type askingLog struct {
	notify.Log
	asked  chan<- string
	answer <-chan error
}

func (l askingLog) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	if p.Epoch == "other" {
		l.asked <- query
		<-l.answer
	}
	return l.Log.After(query, p, limit)
}

// An askingRegistrar asks before it says that a query does not exist.
type askingRegistrar struct {
	notify.Registrar
	asked  chan<- string
	answer <-chan error
}

func (g askingRegistrar) Resolve(c registry.Caller, ref string) (registry.Query, error) {
	if ref == "unknown" {
		g.asked <- ref
		<-g.answer
	}
	return g.Registrar.Resolve(c, ref)
}

// An event stream does not begin with a result that may not be the newest one.
func TestEventsOfNodeThatIsCutOff(t *testing.T) {
	r := newRig(t, cutOff)
	r.log.Add("q", "SELECT", false)
	resp, err := http.Get(r.http.URL + "/v1/queries/q/changes")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(body), "ask another node") {
		t.Errorf("%s, %v: %s", resp.Status, err, body)
	}
}

// Acknowledgements do not count towards the rate: a client may send as many as it
// receives messages.
func TestAcksAreFree(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Rate, o.Limits.Burst = 0.001, 3 })
	id := r.log.Add("q", diff.Select, false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	for range 50 {
		p.send(`{"type":"ack","id":"a","seq":1}`)
	}
	p.send(`{"type":"ping"}`)
	p.expect("pong")
}

// A client that was sent a close frame cannot keep the connection open by sending
// frames.
func TestPongsDoNotOutliveTheClose(t *testing.T) {
	r := newRig(t, quick)
	p := r.dial(nil) // and no init
	left := make(chan struct{})
	go func() {
		defer close(left)
		for p.conn.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second)) == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}()
	r.empty()
	p.conn.Close()
	<-left
}

func say(texts ...string) func(*rig, *peer) {
	return func(_ *rig, p *peer) {
		for _, text := range texts {
			// The server may have closed already: the code says whether that was right.
			p.conn.WriteMessage(websocket.TextMessage, []byte(text))
		}
	}
}

func fragments(n, size int) func(*rig, *peer) {
	return func(_ *rig, p *peer) {
		w, err := p.conn.NextWriter(websocket.TextMessage)
		if err != nil {
			p.t.Fatal(err)
		}
		for range n {
			fmt.Fprint(w, strings.Repeat(" ", size*50)) // more than the write buffer: a frame each
		}
		w.Close()
	}
}

func TestUpgrade(t *testing.T) {
	r := newRig(t, func(o *notify.Options) {
		o.Origins, o.Limits.Connections = []string{"https://app.example"}, 3
	})
	origin := func(s string) http.Header { return http.Header{"Origin": {s}} }
	for o, want := range map[string]bool{
		r.http.URL: true, "https://app.example": true, "http://fresh.example": true, "": true,
		"https://evil.example": false, "https://fresh.example": false, "http://app.example": false, "null": false,
		"https://app.example.evil.example": false,
	} {
		p := r.dial(origin(o))
		p.send(`{"type":"init"}`)
		if want {
			p.expect("ready")
		} else if got := p.closed(); got != 4403 {
			t.Errorf("origin %q: closed with %d, want 4403", o, got)
		}
		p.conn.Close()
		r.empty()
	}
	bare, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.http.URL, "http")+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, bare}
	if got := p.closed(); got != 4406 {
		t.Errorf("without a subprotocol: closed with %d, want 4406", got)
	}
	bare.Close()
	r.empty()
	for range 3 {
		r.hello()
	}
	var why *websocket.CloseError
	if _, err := r.dial(nil).next(); !errors.As(err, &why) || why.Code != 4006 || !strings.Contains(why.Text, "limits.connections") {
		t.Errorf("the fourth of three: %v, want 4006", err)
	}
	resp, err := http.Get(r.http.URL + "/v1/live")
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain GET: %v, %v", resp, err)
	}
	resp.Body.Close()
}

// empty waits until all connections are gone.
func (r *rig) empty() {
	r.t.Helper()
	r.eventually("all connections are gone", func() bool { return r.srv.Connections() == 0 })
}

// sent is the number of changes and snapshots that were written.
func (r *rig) sent() (n uint64) {
	for _, w := range r.srv.WayStats() {
		n += w.Delivered
	}
	return n
}

// slow is the number of connections that were cut off because nothing was read.
func (r *rig) slow() (n uint64) {
	for _, w := range r.srv.WayStats() {
		n += w.Slow
	}
	return n
}

func (r *rig) eventually(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never: %s (%+v)", what, r.srv.WayStats())
		}
	}
}

func TestErrors(t *testing.T) {
	r := newRig(t, func(o *notify.Options) {
		o.Limits.Subscriptions = 3
		o.Gate = gate{"read": {Name: "r", Role: registry.RoleRead}, "app": {Name: "a", Role: registry.RoleApp}}
	})
	id := r.log.Add("q", "SELECT", false)
	r.log.Add("ordered", "SELECT", true)
	r.log.Add("two of them", "SELECT", true)
	r.log.Add("two of them", "SELECT", false)
	p := r.dial(nil)
	p.send(`{"type":"init","token":"app","client":"test/1","surprise":{"x":1}}`)
	if m := p.expect("ready"); !json.Valid(m.Limits) || string(m.Ping) != `"25s"` {
		t.Fatalf("ready: %s", m.raw)
	}
	p.send(`{"type":"subscribe","id":"one","query":"q","more":1}`)
	p.expect("subscribed")
	for _, c := range []struct{ send, code, id string }{
		{`{"type":"dance"}`, "bad_params", ""},
		{`{"type":"subscribe","id":"x","query":"missing"}`, "unknown_query", "x"},
		{`{"type":"subscribe","id":"x","query":"two of them"}`, "ambiguous_name", "x"},
		{`{"type":"subscribe","id":"x"}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":7}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":{"endpoint":"test"}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":{"endpoint":"test","sparql":"DROP ALL"}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","profile":"p"}`, "unknown_query", "x"},
		{`{"type":"subscribe","query":"q"}`, "bad_params", ""},
		{`{"type":"subscribe","id":"has space","query":"q"}`, "bad_params", ""},
		{`{"type":"subscribe","id":"` + strings.Repeat("x", 65) + `","query":"q"}`, "bad_params", ""},
		{`{"type":"subscribe","id":7,"query":"q"}`, "bad_params", ""},
		{`{"type":"subscribe","id":"x","query":"q","mode":"push"}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","rate":"often"}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","rate":5}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","resume":{"epoch":"e"}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","resume":{"epoch":"e","seq":-1}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","resume":{"epoch":"e","seq":9007199254740992}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","resume":{"epoch":"` + strings.Repeat("e", 65) + `","seq":1}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","filter":{"color":"red"}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","filter":{"min_jaccard":2}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"q","filter":{"where":[{"var":"s","op":"~","value":"a"}]}}`, "bad_params", "x"},
		{`{"type":"subscribe","id":"x","query":"ordered","filter":{"vars":["s"]}}`, "bad_params", "x"},
		{`{"type":"unsubscribe","id":"x"}`, "unknown_id", "x"},
		{`{"type":"ack","id":"x","seq":1}`, "unknown_id", "x"},
		{`{"type":"ack","id":"one"}`, "bad_params", "one"},
	} {
		p.send(c.send)
		if m := p.expect("error"); m.Code != c.code || m.ID != c.id || m.Message == "" {
			t.Errorf("%s: %s, want %s", c.send, m.raw, c.code)
		}
	}
	p.send(`{"type":"subscribe","id":"two","query":{"endpoint":"test","sparql":"SELECT live"}}`)
	live := p.expect("subscribed").Query
	if n := r.log.Holds(live); n != 1 {
		t.Errorf("%d holds of a query that one subscription registered", n)
	}
	p.send(`{"type":"subscribe","id":"three","query":"` + id + `"}`)
	p.expect("subscribed")
	p.send(`{"type":"subscribe","id":"four","query":"q"}`)
	if m := p.expect("error"); m.Code != "limit" || m.ID != "four" || !strings.Contains(m.raw, `"retry_after":"10s"`) {
		t.Errorf("above the limit: %s", m.raw)
	}
	p.conn.Close()
	r.eventually("the hold is released", func() bool { return r.log.Holds(live) == 0 })

	q := r.dial(http.Header{"Authorization": {"Bearer read"}})
	q.send(`{"type":"init"}`)
	q.expect("ready")
	q.send(`{"type":"subscribe","id":"x","query":{"endpoint":"test","sparql":"SELECT live"}}`)
	if m := q.expect("error"); m.Code != "not_allowed" {
		t.Errorf("registering as reader: %s", m.raw)
	}
	q.send(`{"type":"subscribe","id":"x","query":"q"}`)
	q.expect("subscribed")
	r.log.Remove(id)
	r.waker.Wake(id)
	if m := q.expect("complete"); m.ID != "x" || m.Reason != "released" {
		t.Errorf("complete: %s", m.raw)
	}
}

// A request that asks for no WebSocket gets a problem document.
func TestPlainRequest(t *testing.T) {
	r := newRig(t, nil)
	resp, err := http.Get(r.http.URL + "/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p struct{ Type, Detail string }
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Content-Type") != "application/problem+json" ||
		p.Type != "/problems/malformed" || p.Detail == "" {
		t.Errorf("%s, %s: %+v", resp.Status, resp.Header.Get("Content-Type"), p)
	}
}
