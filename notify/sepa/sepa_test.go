package sepa_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/sepa"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
	"github.com/freshet/freshet/web/docs"
	"github.com/freshet/freshet/web/docs/docstest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const patience = time.Minute

var document = sync.OnceValues(func() (*docstest.Document, error) { return docstest.Open(docs.AsyncAPI) })

// A rig is a server over a log in memory. The text of a query is its name.
type rig struct {
	*testing.T
	log   *notifytest.Log
	waker *notify.Waker
	live  *notify.Server
	http  *httptest.Server
	gate  gate
	mu    sync.Mutex
	regs  []registry.Registration
	tick  int
	held  atomic.Int64
}

type gate struct {
	mu       sync.Mutex
	tokens   map[string]registry.Caller
	guessing bool  // wrong tokens come from all addresses
	broken   error // the tokens cannot be read
}

func (g *gate) set(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
}

func (g *gate) Authenticate(from, token string) (registry.Caller, error) {
	if token == "guess" && from != "" {
		return registry.Caller{}, registry.ErrGuessing
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.broken != nil:
		return registry.Caller{}, g.broken
	case g.guessing && from != "":
		return registry.Caller{}, registry.ErrGuessing
	}
	c, ok := g.tokens[token]
	if !ok {
		return c, fmt.Errorf("token: %w", registry.ErrUnauthorized)
	}
	return c, nil
}

func (r *rig) FollowGraphs(_ context.Context, c registry.Caller, reg registry.Registration) (registry.Query, func(), error) {
	r.mu.Lock()
	r.regs = append(r.regs, reg)
	r.mu.Unlock()
	switch reg.Text {
	case "bad":
		return registry.Query{}, nil, &registry.Problem{Kind: registry.KindBadQuery}
	case "full":
		return registry.Query{}, nil, fmt.Errorf("%w: queries", notify.ErrLimit)
	case "broken":
		return registry.Query{}, nil, fmt.Errorf("disk")
	}
	q, err := r.log.Resolve(c, reg.Text)
	if err != nil {
		return q, nil, err
	}
	r.held.Add(1)
	return q, func() { r.held.Add(-1) }, nil
}

// wait waits for something that must happen soon.
func (r *rig) wait(what string, happened func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatal(what)
		}
	}
}

func newRig(t *testing.T, edit func(*notify.Options, *sepa.Server)) *rig {
	r := &rig{T: t, log: notifytest.NewLog("store"), waker: notify.NewWaker()}
	r.gate.tokens = map[string]registry.Caller{"": {Name: registry.Anonymous, Role: registry.RoleAdmin}}
	o := notifytest.Options(r.log, r.waker, &r.gate)
	s := &sepa.Server{Status: func(registry.Kind) int { return http.StatusUnprocessableEntity }, Registrar: r, Gate: &r.gate,
		Logger: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&o, s)
	}
	r.live = notify.NewServer(o)
	s.Hub, s.Live = r.live, live.New(r.live)
	r.http = httptest.NewUnstartedServer(s)
	r.http.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		c.(*net.TCPConn).SetWriteBuffer(64 << 10)
		return ctx
	}
	r.http.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.live.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		r.http.Close()
	})
	return r
}

func (r *rig) record(id string, res *diff.Result) {
	r.tick++
	r.log.Record(id, res, time.Unix(1_790_000_000+int64(r.tick), 0))
	r.waker.Wake(id)
}

func table(ordered bool, values ...string) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{Ordered: ordered})
	_ = b.SetVars([]string{"s", "o"})
	for _, v := range values {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: v}, diff.Term{}); err != nil {
			panic(err)
		}
	}
	return finish(b)
}

func finish(b *diff.Builder) *diff.Result {
	r, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return r
}

func ask(v bool) *diff.Result {
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	_ = b.SetBoolean(v)
	return finish(b)
}

// A peer is a bare WebSocket client.
type peer struct {
	*testing.T
	conn *websocket.Conn
}

func (r *rig) dial(query string, header http.Header) *peer {
	r.Helper()
	d := websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return c, err
	}}
	conn, _, err := d.Dial("ws"+strings.TrimPrefix(r.http.URL, "http")+"/sepa/subscribe"+query, header)
	if err != nil {
		r.Fatalf("dial: %v", err)
	}
	r.Cleanup(func() { conn.Close() })
	return &peer{r.T, conn}
}

func (p *peer) send(text string) {
	p.Helper()
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		p.Fatal(err)
	}
}

func (p *peer) subscribe(text, alias string) {
	p.Helper()
	p.send(fmt.Sprintf(`{"subscribe":{"sparql":%q,"alias":%q,"headers":{"x":1}}}`, text, alias))
}

// read returns the next message, which fits the document.
func (p *peer) read() string {
	p.Helper()
	p.conn.SetReadDeadline(time.Now().Add(patience))
	_, b, err := p.conn.ReadMessage()
	if err != nil {
		p.Fatal(err)
	}
	d, err := document()
	if err == nil {
		err = d.At("/components/schemas/sepa.answer", b)
	}
	if err != nil {
		p.Error(err)
	}
	return string(b)
}

// spuid reads the first notification and returns its subscription.
func (p *peer) spuid() string {
	p.Helper()
	return p.spuidOf(p.read())
}

// spuidOf returns the subscription of a first notification.
func (p *peer) spuidOf(text string) string {
	p.Helper()
	var m struct {
		Notification struct {
			SPUID    string
			Sequence int
		}
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Notification.SPUID == "" || m.Notification.Sequence != 0 {
		p.Fatalf("not a first notification: %s", text)
	}
	return m.Notification.SPUID
}

func (p *peer) expect(format string, args ...any) {
	p.Helper()
	if got, want := p.read(), fmt.Sprintf(format, args...); got != want {
		p.Fatalf("got\n%s, want\n%s", got, want)
	}
}

// closed reads on to the close frame and returns its code.
func (p *peer) closed() int {
	p.Helper()
	for {
		p.conn.SetReadDeadline(time.Now().Add(patience))
		_, _, err := p.conn.ReadMessage()
		var c *websocket.CloseError
		if e, ok := err.(*websocket.CloseError); ok {
			c = e
		}
		if c != nil {
			return c.Code
		}
		if err != nil {
			p.Fatalf("no close frame: %v", err)
		}
	}
}

const lit = `{"s":{"type":"literal","value":%q}}`

func bindings(values ...string) string {
	var rows []string
	for _, v := range values {
		rows = append(rows, fmt.Sprintf(lit, v))
	}
	return `{"head":{"vars":["s","o"]},"results":{"bindings":[` + strings.Join(rows, ",") + `]}}`
}

// The exact messages of a late baseline, a change, duplicates and an end.
func TestFormat(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	p := r.dial("", nil)
	p.subscribe("q", "my alias <\u2028>")
	r.wait("no follower left", func() bool { return r.waker.Followers(id) > 0 })
	r.record(id, table(false, "a", "a"))
	text := p.read()
	_, rest, _ := strings.Cut(text, `"spuid":"`)
	spuid, _, _ := strings.Cut(rest, `"`)
	alias := `"my alias <\u2028>"`
	if want := fmt.Sprintf(`{"notification":{"spuid":%q,"alias":%s,"sequence":0,"addedResults":%s,"removedResults":%s}}`, spuid,
		alias, bindings("a", "a"), bindings()); text != want || !strings.HasPrefix(spuid, "sepa://subscription/") {
		t.Fatalf("got\n%s, want\n%s", text, want)
	}
	r.record(id, table(false, "a", "b"))
	p.expect(`{"notification":{"spuid":%q,"alias":%s,"sequence":1,"addedResults":%s,"removedResults":%s}}`, spuid, alias,
		bindings("b"), bindings("a"))
	p.send(fmt.Sprintf(`{"unsubscribe":{"spuid":%q}}`, spuid))
	p.expect(`{"unsubscribed":{"spuid":%q}}`, spuid)
	r.wait("the hold does not end", func() bool { return r.held.Load() == 0 })
	p.send(fmt.Sprintf(`{"unsubscribe":{"spuid":%q,"alias":"x"}}`, spuid))
	if m := p.read(); !strings.Contains(m, `"status_code":404`) || !strings.Contains(m, `"alias":"x"`) {
		t.Errorf("unsubscribe twice: %s", m)
	}
	p.send(`{"subscribe":{"sparql":"q"}}`)
	if m := p.read(); strings.Contains(m, "alias") || !strings.Contains(m, bindings("a", "b")) {
		t.Errorf("without an alias: %s", m)
	}
}

func TestForms(t *testing.T) {
	r := newRig(t, nil)
	yes := r.log.Add("ask", diff.Ask, false)
	r.record(yes, ask(true))
	p := r.dial("", nil)
	p.subscribe("ask", "a")
	if m := p.read(); !strings.Contains(m, `"addedResults":{"head":{},"boolean":true},"removedResults":{"head":{},`+
		`"results":{"bindings":[]}}`) {
		t.Errorf("ASK begins with %s", m)
	}
	r.record(yes, ask(false))
	if m := p.read(); !strings.Contains(m, `"sequence":1,"addedResults":{"head":{},"boolean":false},"removedResults":{"head":{}`+
		`,"boolean":true}`) {
		t.Errorf("ASK: %s", m)
	}

	ordered := r.log.Add("ordered", diff.Select, true)
	r.record(ordered, table(true, "a", "b", "c"))
	p.subscribe("ordered", "o")
	p.spuid()
	r.record(ordered, table(true, "c", "b", "a")) // no notification
	r.record(ordered, table(true, "e", "d", "b", "a"))
	if m := p.read(); !strings.Contains(m, `"sequence":1,"addedResults":`+bindings("e", "d")+`,"removedResults":`+bindings("c")) {
		t.Errorf("after a reorder: %s", m)
	}

	graph := r.log.Add("graph", diff.Construct, false)
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	for _, o := range []diff.Term{{Kind: diff.Literal, Value: "é\"\n", Lang: "fr"}, {Kind: diff.Literal, Value: "1",
		Datatype: "http://t"}, {Kind: diff.IRI, Value: "http://o"}} {
		if err := b.Triple(diff.Term{Kind: diff.Blank, Value: "x"}, diff.Term{Kind: diff.IRI, Value: "http://p"}, o); err != nil {
			t.Fatal(err)
		}
	}
	r.record(graph, finish(b))
	p.subscribe("graph", "g")
	m := p.read()
	for _, part := range []string{`"head":{"vars":["subject","predicate","object"]}`, `"subject":{"type":"bnode","value":"b`,
		`"predicate":{"type":"uri","value":"http://p"}`,
		`"object":{"type":"literal","value":"é\"\n","xml:lang":"fr"}`, `"object":{"type":"literal","value":"1","datatype":"http://t"}`,
		`"object":{"type":"uri","value":"http://o"}`} {
		if !strings.Contains(m, part) {
			t.Errorf("%s is missing in %s", part, m)
		}
	}
}

func TestErrors(t *testing.T) {
	r := newRig(t, func(_ *notify.Options, s *sepa.Server) { s.Limit = 2 })
	r.log.Add("q", diff.Select, false)
	r.gate.tokens["reader"] = registry.Caller{Name: "reader", Role: registry.RoleRead}
	p := r.dial("", nil)
	for _, c := range []struct {
		message string
		status  int
		alias   string
	}{
		{`no json`, 400, ""},
		{`{}`, 400, ""},
		{`{"subscribe":{"alias":"a"}}`, 400, "a"},
		{`{"subscribe":{"sparql":7,"alias":"a"}}`, 400, "a"},
		{`{"subscribe":{"sparql":"q","alias":"a"},"unsubscribe":{"spuid":"x"}}`, 400, "a"},
		{`{"subscribe":{"sparql":"bad","alias":"a"}}`, 422, "a"},
		{`{"subscribe":{"sparql":"q","alias":"a","authorization":"Bearer guess"}}`, 429, "a"},
		{`{"subscribe":{"sparql":"full","alias":"a"}}`, 429, "a"},
		{`{"subscribe":{"sparql":"broken","alias":"a"}}`, 503, "a"},
		{`{"subscribe":{"sparql":"q","alias":"a","authorization":"Bearer wrong"}}`, 401, "a"},
		{`{"subscribe":{"sparql":"q","alias":"a","authorization":"Basic x"}}`, 401, "a"},
		{`{"subscribe":{"sparql":"q","alias":"a","authorization":"Bearer reader"}}`, 403, "a"},
		{`{"subscribe":{"sparql":"q","alias":"` + strings.Repeat("x", 2000) + `"}}`, 400, ""},
		{`{"unsubscribe":{"spuid":"unknown"}}`, 404, ""},
	} {
		p.send(c.message)
		var m struct {
			Error      string
			StatusCode int `json:"status_code"`
			Alias      string
		}
		text := p.read()
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.StatusCode != c.status || m.Alias != c.alias ||
			strings.Contains(text, "disk") {
			t.Errorf("%.80s: %s, want status %d and alias %q", c.message, text, c.status, c.alias)
		}
	}
	p.send(`{"subscribe":{"sparql":"q","default-graph-uri":"http://g","named-graph-uri":["http://m","http://n"]}}`)
	p.subscribe("q", "two")
	p.subscribe("q", "three")
	if m := p.read(); !strings.Contains(m, `"status_code":429`) {
		t.Errorf("one too many: %s", m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if reg := r.regs[len(r.regs)-2]; fmt.Sprint(reg.DefaultGraphURI, reg.NamedGraphURI) != "[http://g] [http://m http://n]" {
		t.Errorf("graphs: %+v", reg)
	}
	resp, err := http.Get(r.http.URL + "?min_rows=x")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("a bad filter: %s", resp.Status)
	}
}

// A change that cannot be written as rows ends the subscription. Nothing follows.
func TestEnds(t *testing.T) {
	r := newRig(t, nil)
	for name, c := range map[string]struct {
		do     func(id string)
		status int
	}{
		"renumbered": {func(id string) { r.log.Renumber(id, "new") }, 410},
		"removed":    {func(id string) { r.log.Remove(id) }, 404},
	} {
		id := r.log.Add(name, diff.Select, false)
		r.record(id, table(false, "a"))
		p := r.dial("", nil)
		p.subscribe(name, name)
		spuid := p.spuid()
		c.do(id)
		r.waker.Wake(id)
		if m := p.read(); !strings.Contains(m, fmt.Sprintf(`"status_code":%d`, c.status)) ||
			!strings.Contains(m, fmt.Sprintf(`"alias":%q`, name)) {
			t.Errorf("%s: %s", name, m)
		}
		p.expect(`{"unsubscribed":{"spuid":%q}}`, spuid)
	}
}

// Subscriptions end when their token expires or is withdrawn.
func TestTokensEnd(t *testing.T) {
	r := newRig(t, func(o *notify.Options, _ *sepa.Server) { o.Timing.Ping = 20 * time.Millisecond })
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	for _, token := range []string{"short", "gone"} {
		var p *peer
		var spuid string
		for lives := time.Second; spuid == ""; lives *= 2 { // until one outlives its first notification
			who := registry.Caller{Name: token, Role: registry.RoleApp}
			if token == "short" {
				who.Expires = time.Now().Add(lives)
			}
			r.gate.mu.Lock()
			r.gate.tokens[token] = who
			r.gate.mu.Unlock()
			p = r.dial("", http.Header{"Authorization": {"Bearer " + token}})
			p.subscribe("q", token)
			first := p.read()
			if lives < time.Minute && strings.Contains(first, `"status_code":401`) {
				continue
			}
			spuid = p.spuidOf(first)
		}
		if token == "gone" {
			r.gate.mu.Lock()
			delete(r.gate.tokens, token)
			r.gate.mu.Unlock()
		}
		if m := p.read(); !strings.Contains(m, `"status_code":401`) || !strings.Contains(m, token) {
			t.Errorf("%s: %s", token, m)
		}
		p.expect(`{"unsubscribed":{"spuid":%q}}`, spuid)
	}
}

// Whether the token of a subscription is still good is no guess, whatever else comes from its address.
func TestTokensEndWhileOthersGuess(t *testing.T) {
	r := newRig(t, func(o *notify.Options, _ *sepa.Server) { o.Timing.Ping = 20 * time.Millisecond })
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	for status, change := range map[int]func(token string){
		http.StatusUnauthorized: func(token string) { delete(r.gate.tokens, token) },
		http.StatusForbidden:    func(token string) { r.gate.tokens[token] = registry.Caller{Name: token, Role: registry.RoleRead} },
	} {
		token := fmt.Sprint("token ", status)
		r.gate.set(func() {
			r.gate.guessing, r.gate.tokens[token] = false, registry.Caller{Name: token, Role: registry.RoleApp}
		})
		p := r.dial("", http.Header{"Authorization": {"Bearer " + token}})
		p.subscribe("q", "one")
		spuids := map[string]string{"one": p.spuidOf(p.read())}
		r.gate.set(func() { r.gate.guessing = true })
		p.subscribe("q", "two")
		spuids["two"] = p.spuidOf(p.read())
		p.send(`{"subscribe":{"sparql":"q","authorization":"Bearer another"}}`)
		if m := p.read(); !strings.Contains(m, `"status_code":429`) {
			t.Errorf("a token that nothing follows with: %s", m)
		}
		r.gate.set(func() { r.gate.broken = errors.New("disk") })
		time.Sleep(100 * time.Millisecond) // some checks
		r.record(id, table(false, fmt.Sprint("b", status)))
		for range spuids {
			if m := p.read(); !strings.HasPrefix(m, `{"notification"`) {
				t.Errorf("while the tokens cannot be read: %s", m)
			}
		}
		r.gate.set(func() { r.gate.broken = nil; change(token) })
		for range spuids {
			m := p.read()
			var end struct {
				Status int `json:"status_code"`
				Alias  string
			}
			if err := json.Unmarshal([]byte(m), &end); err != nil || end.Status != status {
				t.Errorf("%d: %s", status, m)
			}
			p.expect(`{"unsubscribed":{"spuid":%q}}`, spuids[end.Alias])
		}
	}
}

// A client that has shown no token may send a query, but does not make the server hold a large message.
func TestLargeMessagesNeedAToken(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	r.gate.set(func() { r.gate.tokens = map[string]registry.Caller{"good": {Name: "a", Role: registry.RoleApp}} })
	large := func(n int, more string) string {
		return `{"subscribe":{"sparql":"q","alias":"` + strings.Repeat("x", n) + `"` + more + `}}`
	}
	const authorization = `,"authorization":"Bearer good"`
	p := r.dial("", nil)
	p.send(large(60_000, ""))
	if m := p.read(); !strings.Contains(m, "the alias is too long") {
		t.Errorf("60 KB without a token: %s", m)
	}
	p.send(large(70_000, authorization))
	if code := p.closed(); code != websocket.CloseMessageTooBig {
		t.Errorf("70 KB without a token end with %d", code)
	}
	p = r.dial("", nil)
	p.send(large(10, authorization))
	p.spuid()
	for _, p := range []*peer{p, r.dial("", http.Header{"Authorization": {"Bearer good"}})} {
		p.send(large(1_000_000, ""))
		if m := p.read(); !strings.Contains(m, "the alias is too long") {
			t.Errorf("1 MB with a token: %s", m)
		}
	}
}

// A client that does not read is closed with 4001 and delays no other.
func TestSlowReader(t *testing.T) {
	r := newRig(t, func(o *notify.Options, _ *sepa.Server) {
		o.Timing.Write, o.Timing.Close = 2*time.Second, 5*time.Second
	})
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	slow, quick := r.dial("", nil), r.dial("", nil)
	slow.subscribe("q", "s")
	quick.subscribe("q", "q")
	quick.spuid()
	big := strings.Repeat("x", 200<<10)
	counted := func() bool {
		return slices.ContainsFunc(r.live.WayStats(), func(w notify.WayStats) bool { return w.Slow > 0 })
	}
	for n, end := 0, time.Now().Add(patience); !counted() && time.Now().Before(end); n++ {
		if n > 40 { // 8 MB fill the buffers
			time.Sleep(100 * time.Millisecond)
		}
		r.record(id, table(false, fmt.Sprint(n, big)))
		quick.read()
	}
	r.wait("the slow client is not counted", counted)
	if code := slow.closed(); code != live.CloseSlow {
		t.Errorf("closed with %d", code)
	}
}

// A connection without subscriptions is closed after a while. One with subscriptions
// may be idle.
func TestIdleConnections(t *testing.T) {
	r := newRig(t, func(o *notify.Options, _ *sepa.Server) { o.Timing.Idle = 1500 * time.Millisecond })
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	var busy *peer
	var spuid string
	for end := time.Now().Add(patience); spuid == ""; { // a slow machine may need more time to subscribe
		busy = r.dial("", nil)
		busy.subscribe("q", "a")
		_, first, err := busy.conn.ReadMessage()
		if err != nil && (!websocket.IsCloseError(err, live.CloseInitTimeout) || time.Now().After(end)) {
			t.Fatal(err)
		}
		if err == nil {
			spuid = busy.spuidOf(string(first))
		}
	}
	if code := r.dial("", nil).closed(); code != live.CloseInitTimeout {
		t.Errorf("one that says nothing: %d", code)
	}
	r.record(id, table(false, "b"))
	busy.read()
	busy.send(fmt.Sprintf(`{"unsubscribe":{"spuid":%q}}`, spuid))
	busy.expect(`{"unsubscribed":{"spuid":%q}}`, spuid)
	if code := busy.closed(); code != live.CloseInitTimeout {
		t.Errorf("one that has unsubscribed: %d", code)
	}
}

// Subscriptions are listed, stop while they are paused, and can be dropped without
// closing the connection.
func TestManaged(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	p := r.dial("", nil)
	p.subscribe("q", "mine")
	spuid := p.spuid()
	list := r.live.Subscriptions("", 10)
	if len(list) != 1 || list[0].Way != registry.SEPA || list[0].Name != "mine" || list[0].Query != id || list[0].State != registry.Active {
		t.Fatalf("listed: %+v", list)
	}
	if _, err := r.live.SetPaused(list[0].ID, true); err != nil {
		t.Fatal(err)
	}
	r.record(id, table(false, "b"))
	r.record(id, table(false, "b", "c"))
	time.Sleep(50 * time.Millisecond)
	if x, err := r.live.Subscription(list[0].ID); err != nil || x.State != registry.SubscriptionPaused || x.Cursor.Seq != 1 ||
		x.Deliveries != 1 {
		t.Errorf("paused: %+v %v", x, err)
	}
	if _, err := r.live.SetPaused(list[0].ID, false); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if m := p.read(); !strings.Contains(m, fmt.Sprintf(`"sequence":%d`, n+1)) {
			t.Errorf("after the pause: %s", m)
		}
	}
	if err := r.live.Drop(list[0].ID); err != nil {
		t.Fatal(err)
	}
	if m := p.read(); !strings.Contains(m, `"error":"dropped","status_code":410`) {
		t.Errorf("dropped: %s", m)
	}
	p.expect(`{"unsubscribed":{"spuid":%q}}`, spuid)
	if n := len(r.live.Subscriptions("", 10)); n != 0 {
		t.Errorf("%d are listed after the end", n)
	}
	p.subscribe("q", "again")
	p.spuid()
}

// The server says that it goes down, binary frames are refused, and pages of
// other origins do not get in.
func TestCloses(t *testing.T) {
	r := newRig(t, nil)
	binary := r.dial("", nil)
	if err := binary.conn.WriteMessage(websocket.BinaryMessage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if code := binary.closed(); code != websocket.CloseUnsupportedData {
		t.Errorf("binary: %d", code)
	}
	if code := r.dial("", http.Header{"Origin": {"https://evil.example"}}).closed(); code != live.CloseForbidden {
		t.Errorf("origin: %d", code)
	}
	id := r.log.Add("q", diff.Select, false)
	r.record(id, table(false, "a"))
	p := r.dial("", nil)
	p.subscribe("q", "a")
	p.spuid()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	down := make(chan error, 1)
	go func() { down <- r.live.Shutdown(ctx) }()
	if code := p.closed(); code != live.CloseDraining {
		t.Errorf("going down: %d", code)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if n := r.held.Load(); n != 0 || r.waker.Followers(id) != 0 {
		t.Errorf("%d holds and %d followers are left", n, r.waker.Followers(id))
	}
}

// A node that may lack what its cluster has committed begins no subscription with its own state.
func TestUnconfirmedNode(t *testing.T) {
	var cut atomic.Bool
	cut.Store(true)
	r := newRig(t, func(o *notify.Options, s *sepa.Server) {
		o.Confirm = func() error {
			if cut.Load() {
				return &registry.Problem{Kind: registry.KindUnavailable, Detail: "cut off: ask another node"}
			}
			return nil
		}
		s.Status = func(registry.Kind) int { return http.StatusServiceUnavailable }
	})
	r.record(r.log.Add("q", diff.Select, false), table(false, "a"))
	p := r.dial("", nil)
	p.subscribe("q", "x")
	if m := p.read(); !strings.Contains(m, `"status_code":503`) || !strings.Contains(m, "another node") || r.held.Load() != 0 {
		t.Errorf("cut off: %s", m)
	}
	cut.Store(false)
	p.subscribe("q", "x")
	if m := p.read(); !strings.Contains(m, bindings("a")) {
		t.Errorf("confirmed: %s", m)
	}
}
