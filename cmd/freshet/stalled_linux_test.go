package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// stalledEnv is the number of readers of TestStalledReaders, default 200.
const stalledEnv = "FRESHET_TEST_STALLED"

// A stalledWorld is a server with readers that do not read. A tick of its endpoint replaces the
// result: a change of 4 MB.
type stalledWorld struct {
	t     *testing.T
	srv   *clitest.Process
	turn  atomic.Int64
	id    string
	epoch string
	seq   int
}

const stalledText = "SELECT * { ?s <urn:p> ?o }"

func newStalledWorld(t *testing.T) *stalledWorld {
	w := &stalledWorld{t: t}
	endpoint := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/sparql-results+json")
		io.WriteString(rw, `{"head":{"vars":["s","o"]},"results":{"bindings":[`)
		value := strings.Repeat(string(rune('a'+w.turn.Load()%26)), 80)
		for i := range 20_000 {
			if i > 0 {
				io.WriteString(rw, ",")
			}
			o := value
			if i%2 == 0 {
				o = strings.Repeat("x", 80)
			}
			fmt.Fprintf(rw, `{"s":{"type":"uri","value":"http://example.org/resource/%d"},"o":{"type":"literal","value":"%s"}}`, i, o)
		}
		io.WriteString(rw, "]}}")
	}))
	t.Cleanup(endpoint.Close)
	dir := t.TempDir()
	conf := filepath.Join(dir, "freshet.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "listen: 127.0.0.1:0\ndata: %s\nendpoints:\n  - {name: e, url: %q, slot: "+
		"never, budget: 60s, policy: rr}\n", filepath.Join(dir, "data"), endpoint.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	w.srv = clitest.Start(t, binary(t), "serve", "--config", conf)
	var q struct{ ID string }
	w.post("/v1/queries", fmt.Sprintf(`{"endpoint":"e","query":%q}`, stalledText), &q)
	w.id = q.ID
	w.change()
	return w
}

func (w *stalledWorld) post(path, body string, out any) {
	w.t.Helper()
	resp, err := http.Post(w.srv.Url+path, "application/json", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && out != nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil || resp.StatusCode >= 300 {
		w.t.Fatalf("%s: %s %s %v", path, resp.Status, b, err)
	}
}

// change replaces half of the rows.
func (w *stalledWorld) change() {
	w.t.Helper()
	w.turn.Add(1)
	w.post("/v1/endpoints/e/tick", "", nil)
	resp, err := http.Get(w.srv.Url + "/v1/queries/" + w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var q struct {
		Epoch string
		Seq   int
	}
	if err := json.NewDecoder(resp.Body).Decode(&q); err != nil || q.Seq != w.seq+1 {
		w.t.Fatalf("at %+v after change %d: %v", q, w.seq, err)
	}
	w.epoch, w.seq = q.Epoch, q.Seq
}

// dial opens a connection with small buffers.
func (w *stalledWorld) dial(string, string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		e := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		if e != nil {
			return e
		}
		return err
	}}
	c, err := d.Dial("tcp", strings.TrimPrefix(w.srv.Url, "http://"))
	if err == nil {
		w.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// ask sends a request without reading the answer.
func (w *stalledWorld) ask(path, accept string) {
	w.t.Helper()
	c, err := w.dial("", "")
	if err == nil {
		_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %s\r\n\r\n", path, accept)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// socket opens a WebSocket, sends messages and reads the given number of answers.
func (w *stalledWorld) socket(path string, answers int, messages ...string) {
	w.t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"freshet.v1"}, NetDial: w.dial}
	c, _, err := d.Dial("ws"+strings.TrimPrefix(w.srv.Url, "http")+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range messages {
		if err := c.WriteMessage(websocket.TextMessage, []byte(m)); err != nil {
			w.t.Fatal(err)
		}
	}
	for range answers {
		if _, _, err := c.ReadMessage(); err != nil {
			w.t.Fatal(err)
		}
	}
}

var rssLine = regexp.MustCompile(`VmRSS:\s+(\d+)`)

// resident returns the resident memory of the server in MB.
func (w *stalledWorld) resident() int {
	w.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.srv.Cmd.Process.Pid))
	if err != nil {
		w.t.Fatal(err)
	}
	n, _ := strconv.Atoi(string(rssLine.FindSubmatch(b)[1]))
	return n >> 10
}

// TestStalledReaders checks, for every protocol, that readers who do not read large data cost
// little memory each.
func TestStalledReaders(t *testing.T) {
	readers := 200
	if s := os.Getenv(stalledEnv); s != "" {
		readers, _ = strconv.Atoi(s)
	}
	const sse, any = "text/event-stream", "*/*"
	ways := []struct {
		name  string
		first bool // the readers connect before the change
		open  func(w *stalledWorld)
	}{
		{"changes JSON", false, func(w *stalledWorld) {
			w.ask(fmt.Sprintf("/v1/queries/%s/changes?after=%s:%d", w.id, w.epoch, w.seq-1), any)
		}},
		{"all changes JSON", false, func(w *stalledWorld) { w.ask("/v1/changes", any) }},
		{"latest", false, func(w *stalledWorld) { w.ask("/v1/queries/"+w.id+"/changes/latest", any) }},
		{"changes SSE", true, func(w *stalledWorld) {
			w.ask(fmt.Sprintf("/v1/queries/%s/changes?after=%s:%d", w.id, w.epoch, w.seq), sse)
		}},
		{"snapshot SSE", false, func(w *stalledWorld) { w.ask("/v1/queries/"+w.id+"/changes", sse) }},
		{"all changes SSE", true, func(w *stalledWorld) { w.ask("/v1/changes", sse) }},
		{"delta WebSocket", true, func(w *stalledWorld) {
			w.socket("/v1/live", 2, `{"type":"init"}`, fmt.Sprintf(`{"type":"subscribe","id":"a","query":%q,"resume":{"epoch":%q,`+
				`"seq":%d}}`, w.id, w.epoch, w.seq))
		}},
		{"snapshot WebSocket", false, func(w *stalledWorld) {
			w.socket("/v1/live", 2, `{"type":"init"}`, fmt.Sprintf(`{"type":"subscribe","id":"a","query":%q}`, w.id))
		}},
		{"SEPA", false, func(w *stalledWorld) {
			w.socket("/sepa/subscribe", 0, fmt.Sprintf(`{"subscribe":{"sparql":%q,"alias":"a"}}`, stalledText))
		}},
		{"Atom", false, func(w *stalledWorld) { w.ask("/v1/queries/"+w.id+"/changes.atom", any) }},
		{"results.srj", false, func(w *stalledWorld) { w.ask("/v1/queries/"+w.id+"/results.srj", any) }},
		{"results.csv", false, func(w *stalledWorld) { w.ask("/v1/queries/"+w.id+"/results.csv", any) }},
		{"page", false, func(w *stalledWorld) { w.ask("/queries/"+w.id, any) }},
		{"live page", true, func(w *stalledWorld) { w.ask("/queries/"+w.id+"/events", sse) }},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel() // with a server of its own, and it waits most of the time
			w := newStalledWorld(t)
			open := func() {
				for range readers {
					way.open(w)
				}
			}
			if way.first {
				open()
				time.Sleep(time.Second)
			}
			before := w.resident()
			w.change()
			if !way.first {
				open()
			}
			peak := 0
			for range 30 {
				time.Sleep(100 * time.Millisecond)
				peak = max(peak, w.resident())
			}
			after := w.resident()
			t.Logf("%d readers that do not read: %d -> %d MB, at most %d", readers, before, after, peak)
			// Garbage takes 10 to 70 MB, the more the busier the machine is.
			if most := 120 + readers/25; after-before > most {
				t.Errorf("%d readers added %d MB, more than %d", readers, after-before, most)
			}
		})
	}
}
