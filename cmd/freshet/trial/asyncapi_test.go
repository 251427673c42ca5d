package trial

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/web/docs"
	"github.com/freshet/freshet/web/docs/docstest"
)

// A contractChecker checks every message against the AsyncAPI document and counts messages by kind.
type contractChecker struct {
	t    *testing.T
	doc  *docstest.Document
	mu   sync.Mutex
	seen map[string]int
}

func newContractChecker(t *testing.T) *contractChecker {
	t.Helper()
	doc, err := docstest.Open(docs.AsyncAPI)
	if err != nil {
		t.Fatal(err)
	}
	return &contractChecker{t: t, doc: doc, seen: map[string]int{}}
}

// count checks and counts one message. It checks one message at a time.
func (c *contractChecker) count(kind string, check func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := check(); err != nil {
		c.t.Errorf("%s: %v", kind, err)
	}
	c.seen[kind]++
}

// until waits until each kind was seen at least once.
func (c *contractChecker) until(kinds ...string) {
	c.t.Helper()
	if missing := c.missing(time.Minute, kinds...); len(missing) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.t.Fatalf("never seen: %v; seen: %v", missing, c.seen)
	}
}

// missing waits up to the given time for each kind and returns those that were not seen.
func (c *contractChecker) missing(wait time.Duration, kinds ...string) (missing []string) {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		c.mu.Lock()
		missing = slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return c.seen[k] > 0 })
		c.mu.Unlock()
		if len(missing) == 0 || time.Now().After(end) {
			return missing
		}
	}
}

// frames reads a WebSocket until it ends.
func (c *contractChecker) frames(conn *websocket.Conn) {
	for {
		_, b, err := conn.ReadMessage()
		if err != nil {
			return
		}
		var m map[string]any
		_ = json.Unmarshal(b, &m) // Message reports errors
		kind, _ := m["type"].(string)
		c.count(kind, func() error { return c.doc.Message(b) })
		if kind == "status" && m["next_due"] != nil {
			c.count("status with next_due", func() error { return nil })
		}
	}
}

// send checks and sends a message of the client.
func (c *contractChecker) send(conn *websocket.Conn, message string) {
	c.t.Helper()
	c.count("sent", func() error { return c.doc.Message([]byte(message)) })
	if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
}

// events follows an event stream until the test ends.
func (c *contractChecker) events(url string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		c.t.Fatalf("%s: %s", url, resp.Status)
	}
	go func() {
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 16<<20)
		kind := ""
		for lines.Scan() {
			if k, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kind = k
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				c.count("sse."+kind, func() error { return c.doc.Event(kind, []byte(data)) })
			}
		}
	}()
}

// The real server sends every kind of message in the document, and each has the documented
// form.
func TestLongMessagesMatchAsyncAPI(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, "")
	for name, text := range map[string]string{
		"rows": "SELECT ?s ?n { ?s <http://x/n> ?n }", "top": "SELECT ?s { ?s <http://x/n> ?n } ORDER BY DESC(?s) LIMIT 3",
		"any": "ASK { <http://x/1> ?p ?o }", "graph": "CONSTRUCT { ?s <http://x/m> [ <http://x/k> ?n ] } WHERE { ?s <http://x/n> ?n }",
	} {
		s.must(t, text, "query", "add", "--name", name, "-")
	}
	s.must(t, "", "endpoint", "tick", "city")
	c := newContractChecker(t)
	conn := dial(t, s.srv.Url, "")
	go c.frames(conn)
	for _, m := range []string{
		`{"type":"subscribe","id":"a","query":"rows"}`, `{"type":"subscribe","id":"b","query":"top"}`,
		`{"type":"subscribe","id":"c","query":"any"}`,
		`{"type":"subscribe","id":"d","query":"graph"}`, `{"type":"subscribe","id":"e","query":"rows","rate":"5s"}`,
		`{"type":"subscribe","id":"f","query":"rows","mode":"snapshot","filter":{"min_rows":1}}`,
		`{"type":"subscribe","id":"g","query":"rows","resume":{"epoch":"other","seq":9}}`,
		`{"type":"subscribe","id":"h","query":{"endpoint":"city","sparql":"SELECT ?n { ?s <http://x/n> ?n }"}}`,
		`{"type":"subscribe","id":"i","query":"nothing"}`, `{"type":"ping","payload":{"n":1}}`, `{"type":"unsubscribe","id":"f"}`,
	} {
		c.send(conn, m)
	}
	c.until("ready", "subscribed", "snapshot", "error", "pong", "complete")
	changes := s.srv.Url + "/v1/queries/rows/changes"
	for _, query := range []string{"", "?rate=5s", "?after=other:1"} {
		c.events(changes + query)
	}
	c.events(s.srv.Url + "/v1/queries/graph/changes")
	c.events(s.srv.Url + "/v1/changes")
	c.events(s.srv.Url + "/v1/changes?rate=5s&min_rows=1")
	c.until("sse.snapshot", "sse.gap")
	s.step(1)
	c.until("delta", "sse.change")
	// A change that is undone within the rate leaves only a new position. A busy machine may need
	// several tries; earlier changes are over after two rates.
	for n := 2; len(c.missing(11*time.Second, "alive", "sse.alive")) > 0 && n < 12; n++ {
		s.step(n)
		time.Sleep(time.Second)
		s.Update(t, `INSERT DATA { <http://x/z> <http://x/n> "z" }`)
		s.must(t, "", "endpoint", "tick", "city")
		s.Update(t, `DELETE DATA { <http://x/z> <http://x/n> "z" }`)
		s.must(t, "", "endpoint", "tick", "city")
	}
	c.until("alive", "sse.alive")
	s.must(t, "", "endpoint", "set", "city", "url=http://"+clitest.FreeAddr(t)+"/sparql", "slot=@every 24h")
	s.must(t, "", "endpoint", "tick", "city")
	c.until("status", "status with next_due")
	s.must(t, "", "query", "rm", "rows")
	c.until("sse.complete")
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("messages seen: %v", c.seen)
}
