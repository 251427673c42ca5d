package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A script is a server that sends given messages: one list of messages for
// each subscribe that it gets, with ID for the subscription's id. A message of
// the form "close 4001" closes the connection.
type script struct {
	t      *testing.T
	http   *httptest.Server
	mu     sync.Mutex
	acts   [][]string
	subs   []subscribe // what clients asked for
	tokens []string
	acks   int
	conns  []*websocket.Conn
}

type subscribe struct {
	Type, ID, Token string
	Query           json.RawMessage
	Resume          *struct {
		Epoch string
		Seq   uint64
	}
}

func serve(t *testing.T, acts ...[]string) *script {
	s := &script{t: t, acts: acts}
	up := websocket.Upgrader{Subprotocols: []string{"freshet.v1"}}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		for {
			var m subscribe
			if conn.ReadJSON(&m) != nil {
				return
			}
			for _, text := range s.act(m) {
				if code := 0; strings.HasPrefix(text, "close ") {
					fmt.Sscanf(text, "close %d", &code)
					conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""))
					continue
				}
				s.write(conn, strings.ReplaceAll(text, "ID", m.ID))
			}
		}
	}))
	t.Cleanup(s.http.Close)
	return s
}

// write writes a message, with pauses if it is large.
func (s *script) write(conn *websocket.Conn, text string) {
	w, err := conn.NextWriter(websocket.TextMessage)
	if err != nil {
		return
	}
	for len(text) > pieceOf {
		io.WriteString(w, text[:pieceOf])
		time.Sleep(20 * time.Millisecond)
		text = text[pieceOf:]
	}
	io.WriteString(w, text)
	w.Close()
}

const pieceOf = 8 << 10 // larger than the buffer of a connection, so that it is sent at once

// drop ends all connections.
func (s *script) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

func (s *script) act(m subscribe) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Type {
	case "init":
		s.tokens = append(s.tokens, m.Token)
		return []string{`{"type":"ready","ping":"25s"}`}
	case "ack":
		s.acks++
	case "subscribe":
		s.subs = append(s.subs, m)
		if len(s.acts) == 0 {
			s.t.Errorf("one subscribe too many: %+v", m)
			return []string{"close 4400"}
		}
		act := s.acts[0]
		s.acts = s.acts[1:]
		return act
	}
	return nil
}

func doc(values ...string) string {
	var rows []string
	for _, v := range values {
		rows = append(rows, `{"s":{"type":"literal","value":"`+v+`"}}`)
	}
	return `{"head":{"vars":["s"]},"results":{"bindings":[` + strings.Join(rows, ",") + `]}}`
}

func delta(epoch string, prev, seq int, added, removed string) string {
	return fmt.Sprintf(`{"type":"delta","id":"ID","form":"SELECT","epoch":%q,"prev":%d,"seq":%d,"added":%s,"removed":%s}`, epoch,
		prev, seq, added, removed)
}

func snapshot(epoch string, seq int, values ...string) string {
	return fmt.Sprintf(`{"type":"snapshot","id":"ID","form":"SELECT","epoch":%q,"seq":%d,"results":%s}`, epoch, seq, doc(values...))
}

const fresh = `{"type":"subscribed","id":"ID","query":"q_1","form":"SELECT","epoch":"e","seq":3,"resumed":false}`
const resumed = `{"type":"subscribed","id":"ID","query":"q_1","form":"SELECT","epoch":"e","seq":3,"resumed":true}`

// follow collects what happens until the client gives up or holds this document.
func (s *script) follow(o client.Options, until string) (seen []string, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o.Server, o.MinBackoff, o.MaxBackoff = s.http.URL, time.Millisecond, 5*time.Millisecond
	if o.SPARQL == "" {
		o.Query = "q"
	}
	enough := errors.New("enough")
	err = client.Follow(ctx, o, func(e client.Event) error {
		seen = append(seen, fmt.Sprintf("%s %s", e.Kind, e.State.Position()))
		if e.Result != nil && string(e.Result.Document()) == until {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return seen, err
}

func (s *script) asked(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, m := range s.subs {
		if m.Resume == nil {
			got = append(got, "new")
		} else {
			got = append(got, fmt.Sprintf("%s:%d", m.Resume.Epoch, m.Resume.Seq))
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		s.t.Errorf("subscribed %v, want %v", got, want)
	}
}

func TestRules(t *testing.T) {
	none := doc()
	for _, c := range []struct {
		name  string
		acts  [][]string
		asked []string
	}{
		{"applied", [][]string{{fresh, snapshot("e", 3, "a"), delta("e", 3, 4, doc("z"), doc("a"))}}, []string{"new"}},
		{"folded", [][]string{{fresh, snapshot("e", 3, "a"), delta("e", 3, 9, doc("z"), doc("a"))}}, []string{"new"}},
		{"old ones dropped", [][]string{{fresh, snapshot("e", 3, "a"), delta("e", 2, 3, doc("a"), none),
			delta("e", 3, 4, doc("z"), doc("a"))}}, []string{"new"}},
		{"a hole", [][]string{{fresh, snapshot("e", 3, "a"), delta("e", 4, 5, doc("z"), doc("a"))},
			{resumed, delta("e", 3, 5, doc("z"), doc("a"))}}, []string{"new", "e:3"}},
		{"an overlap", [][]string{{fresh, snapshot("e", 3, "a"), delta("e", 2, 5, doc("z"), doc("a"))},
			{resumed, delta("e", 3, 5, doc("z"), doc("a"))}}, []string{"new", "e:3"}},
		{"another epoch", [][]string{{fresh, snapshot("e", 3, "a"), delta("f", 3, 4, doc("z"), doc("a"))},
			{fresh, snapshot("f", 4, "z")}}, []string{"new", "e:3"}},
		{"does not fit", [][]string{{fresh, snapshot("e", 3, "a"), delta("e", 3, 4, doc("z"), doc("b"))},
			{fresh, snapshot("e", 4, "z")}}, []string{"new", "new"}},
		{"alive moves on", [][]string{{fresh, snapshot("e", 3, "a"), `{"type":"alive","id":"ID","epoch":"e","seq":6}`,
			delta("e", 6, 7, doc("z"), doc("a"))}}, []string{"new"}},
		{"parts", [][]string{{fresh, strings.Replace(snapshot("e", 3, "a"), `"seq"`, `"part":1,"seq"`, 1),
			strings.Replace(snapshot("e", 3, "b"), `"seq"`, `"part":2,"last":true,"seq"`, 1), delta("e", 3, 4, doc("z"), doc("a", "b"))}},
			[]string{"new"}},
		{"strangers ignored", [][]string{{fresh, `{"type":"news","id":"ID"}`, strings.Replace(snapshot("e", 8, "x"), "ID", "other", 1),
			snapshot("e", 4, "z")}}, []string{"new"}},
		{"cut in the middle of parts", [][]string{{fresh, strings.Replace(snapshot("e", 3, "a"), `"seq"`, `"part":1,"seq"`, 1),
			"close 4001"}, {fresh, snapshot("e", 3, "z")}}, []string{"new", "new"}},
		{"replaced in the middle of parts", [][]string{{fresh, strings.Replace(snapshot("e", 3, "a"), `"seq"`, `"part":1,"seq"`, 1),
			strings.Replace(snapshot("e", 4, "z"), `"seq"`, `"part":1,"seq"`, 1), strings.Replace(snapshot("e", 4, "b"), `"seq"`,
				`"part":2,"last":true,"seq"`, 1), delta("e", 4, 5, none, doc("b"))}}, []string{"new"}},
		{"4001", [][]string{{fresh, snapshot("e", 3, "a"), "close 4001"}, {resumed, delta("e", 3, 4, doc("z"), doc("a"))}},
			[]string{"new", "e:3"}},
		{"4004", [][]string{{fresh, snapshot("e", 3, "a"), "close 4004"}, {resumed, delta("e", 3, 4, doc("z"), doc("a"))}},
			[]string{"new", "e:3"}},
		{"4005", [][]string{{fresh, snapshot("e", 3, "a"), "close 4005"}, {resumed, delta("e", 3, 4, doc("z"), doc("a"))}},
			[]string{"new", "e:3"}},
		{"4006", [][]string{{fresh, snapshot("e", 3, "a"), "close 4006"}, {resumed, delta("e", 3, 4, doc("z"), doc("a"))}},
			[]string{"new", "e:3"}},
		{"unavailable for now", [][]string{{`{"type":"error","id":"ID","code":"unavailable","message":"m"}`},
			{fresh, snapshot("e", 3, "z")}}, []string{"new", "new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.acts...)
			if seen, err := s.follow(client.Options{}, doc("z")); err != nil {
				t.Errorf("%v after %v", err, seen)
			}
			s.asked(c.asked...)
		})
	}
}

// Each subscription begins as live, also if the query was stale before.
func TestLiveAfterReconnect(t *testing.T) {
	stale := `{"type":"status","id":"ID","state":"stale"}`
	s := serve(t, []string{fresh, snapshot("e", 3, "a"), stale, "close 4001"}, []string{resumed, stale, "close 4001"},
		[]string{resumed, delta("e", 3, 4, doc("z"), doc("a"))})
	var told []string
	enough := errors.New("enough")
	o := client.Options{Server: s.http.URL, Query: "q", MinBackoff: time.Millisecond}
	err := client.Follow(t.Context(), o, func(e client.Event) error {
		if e.Kind == client.Delta {
			return enough
		}
		if e.Kind == client.Status {
			var m struct{ State string }
			if json.Unmarshal(e.Raw, &m) != nil || m.State != e.Health {
				t.Errorf("%s: %s", e.Health, e.Raw)
			}
			told = append(told, e.Health)
		}
		return nil
	})
	if !errors.Is(err, enough) || !slices.Equal(told, []string{"stale", "live", "stale", "live"}) {
		t.Errorf("%v, told %v", err, told)
	}
}

// A message that takes long to come is no silence.
func TestLongTransferIsNoSilence(t *testing.T) {
	defer client.SetSilence(time.Second)()
	values := make([]string, 100*pieceOf/100)
	for i := range values {
		values[i] = fmt.Sprintf("%08d%s", i, strings.Repeat("x", 60))
	}
	s := serve(t, []string{fresh, snapshot("e", 3, values...)})
	if seen, err := s.follow(client.Options{}, doc(values...)); err != nil {
		t.Errorf("%v after %v", err, seen)
	}
	s.asked("new")
}

func TestFinal(t *testing.T) {
	for _, code := range []int{4400, 4401, 4403, 4406, 4409, 4429} {
		s := serve(t, []string{fresh, fmt.Sprint("close ", code)})
		_, err := s.follow(client.Options{}, "")
		if closed := new(websocket.CloseError); !errors.As(err, &closed) || closed.Code != code {
			t.Errorf("close %d: %v", code, err)
		}
	}
	s := serve(t, []string{`{"type":"error","id":"ID","code":"unknown_query","message":"m"}`})
	_, err := s.follow(client.Options{}, "")
	if refused := new(client.RefusedError); !errors.As(err, &refused) || refused.Code != "unknown_query" {
		t.Errorf("refused: %v", err)
	}
	s = serve(t, []string{fresh, `{"type":"complete","id":"ID","reason":"released"}`})
	if _, err = s.follow(client.Options{}, ""); !errors.Is(err, client.ErrCompleted) {
		t.Errorf("complete: %v", err)
	}
	for _, o := range []client.Options{{Server: "ftp://x", Query: "q"}, {Server: "http://x"}, {Server: "http://x", Query: "q",
		SPARQL: "ASK {}"},
		{Server: "http://x", Query: "q", From: &client.State{Seq: 3, Form: diff.Select, Document: []byte("junk")}}} {
		if err := client.Follow(t.Context(), o, nil); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// What one process kept, another goes on from.
func TestState(t *testing.T) {
	s := serve(t, []string{fresh, snapshot("e", 3, "a")}, []string{resumed, delta("e", 3, 4, doc("z"), doc("a"))})
	var kept []byte
	stop := errors.New("stop")
	err := client.Follow(t.Context(), client.Options{Server: s.http.URL, Query: "q", Token: "secret", Ack: true}, func(e client.Event) error {
		if e.Kind != client.Snapshot {
			return nil
		}
		kept, _ = json.Marshal(e.State)
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	var from client.State
	if err := json.Unmarshal(kept, &from); err != nil {
		t.Fatal(err)
	}
	if _, err := s.follow(client.Options{From: &from, SPARQL: "SELECT", Endpoint: "city"}, doc("z")); err != nil {
		t.Error(err)
	}
	s.asked("new", "e:3")
	if q := string(s.subs[1].Query); q != `{"endpoint":"city","sparql":"SELECT"}` || s.tokens[0] != "secret" {
		t.Errorf("asked for %s with %q", q, s.tokens)
	}
}

// A server that redirects is not followed, and the trouble names the address.
func TestRedirect(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("https://freshet.example.org/v1/live", http.StatusMovedPermanently))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var met error
	o := client.Options{Server: s.URL, Query: "q", Trouble: func(err error) { met = err; cancel() }}
	if err := client.Follow(ctx, o, nil); !errors.Is(err, context.Canceled) || !strings.HasSuffix(fmt.Sprint(met),
		"301 Moved Permanently https://freshet.example.org/v1/live") {
		t.Errorf("the trouble is %v, %v", met, err)
	}
}

// The pause grows while no connection succeeds, also after one that worked. A slow machine only
// makes the pauses longer.
func TestPauseGrows(t *testing.T) {
	s := serve(t, []string{fresh, snapshot("e", 3, "a")})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const attempts = 10
	var failed []time.Time
	o := client.Options{Server: s.http.URL, Query: "q", MinBackoff: time.Millisecond, MaxBackoff: time.Hour, Trouble: func(error) {
		if failed = append(failed, time.Now()); len(failed) == attempts {
			cancel()
		}
	}}
	err := client.Follow(ctx, o, func(e client.Event) error {
		if e.Kind == client.Snapshot { // the server is gone from now on
			s.http.Listener.Close()
			s.drop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// From the second failure, the pauses are at least 1/2, 1, 2, ..., 128 ms.
	if took, want := failed[attempts-1].Sub(failed[1]), 200*time.Millisecond; took < want {
		t.Errorf("%d attempts within %v, want at least %v", attempts-1, took, want)
	}
}
