package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

const jsClient = "../../../web/client"

// A testServer is a server with an endpoint whose data a test changes step by step.
type testServer struct {
	town
	t    *testing.T
	srv  *clitest.Process
	addr string
	data string
	yaml string
}

func newTestServer(t *testing.T, more string) *testServer {
	t.Helper()
	clitest.NeedEngine(t)
	base := filepath.Join(t.TempDir(), "base.nt")
	if err := os.WriteFile(base, []byte("<http://x/0> <http://x/n> \"0\"@en .\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &testServer{t: t, addr: clitest.FreeAddr(t), data: t.TempDir()}
	ep := clitest.Start(t, binary(t), "sparql", "--listen", "127.0.0.1:0", "--load", base)
	s.yaml = "endpoints: [{name: city, url: \"" + ep.Url + "\", slot: never, policy: rr, budget: 2m}]\n" + more
	s.srv = clitest.Serve(t, binary(t), s.addr, s.data, s.yaml)
	s.town = town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": s.srv.Url}, Endpoint: ep.Url}}
	return s
}

// crash kills the server like a power failure and restarts it.
func (s *testServer) crash() {
	s.t.Helper()
	s.srv.Kill()
	http.DefaultClient.CloseIdleConnections() // those to the old process, of commands run in this one
	s.srv = clitest.Serve(s.t, binary(s.t), s.addr, s.data, s.yaml)
}

// step performs change n: it adds one row, whose text is hard to preserve.
func (s *testServer) step(n int) {
	s.t.Helper()
	s.Update(s.t, fmt.Sprintf(`INSERT DATA { <http://x/%d> <http://x/n> "%d \"é𝄞\\\u2028\n\""@en }`, n, n))
	if out := s.must(s.t, "", "endpoint", "tick", "city"); !strings.Contains(out, "changed") {
		s.t.Fatalf("tick prints %q", out)
	}
}

// results returns the server's current document.
func (s *testServer) results(query string) string {
	s.t.Helper()
	_, document := s.get("GET", "/v1/queries/"+query+"/results")
	return document
}

// websocketFlag makes Node 20 and 21 provide the WebSocket that later versions have.
func websocketFlag(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("node", "-p", "process.versions.node.split('.')[0]").Output()
	if err != nil {
		t.Fatal(err)
	}
	if major, _ := strconv.Atoi(strings.TrimSpace(string(out))); major < 22 {
		return []string{"--experimental-websocket"}
	}
	return nil
}

// Third-party clients follow a query over a crash of the server and have the same bytes as the
// server: npm ws, Node's own WebSocket, npm eventsource, and the client's README example.
func TestForeignClients(t *testing.T) {
	clitest.NeedNode(t, jsClient)
	t.Parallel()
	foreign(t, "", "ws", "native", "sse", "readme")
}

// If results and changes are too large to send, snapshots replace deltas and links replace rows.
func TestForeignLarge(t *testing.T) {
	clitest.NeedNode(t, jsClient)
	t.Parallel()
	foreign(t, "limits: {change: 100B}\n", "ws", "readme")
}

// foreignCommand returns the command of a client that follows a query until a seq.
func foreignCommand(t *testing.T, args ...string) *exec.Cmd {
	if way := args[2]; strings.HasPrefix(way, "py-") {
		return inPython(append([]string{"follow.py"}, args...)...)
	}
	cmd := exec.Command("node", append(append(websocketFlag(t), "driver/follow.js"), args...)...)
	cmd.Dir = jsClient
	return cmd
}

// foreign follows queries with clients over two crashes of the server.
func foreign(t *testing.T, more string, transports ...string) {
	const last = 12 // the final seq
	s := newTestServer(t, more)
	queries := map[string]string{
		"select":    "SELECT ?s ?n { ?s <http://x/n> ?n }",
		"ordered":   "SELECT ?s ?n { ?s <http://x/n> ?n } ORDER BY DESC(?n)",
		"construct": "CONSTRUCT { ?s <http://x/m> [ <http://x/k> ?n ] } WHERE { ?s <http://x/n> ?n }",
	}
	for name, text := range queries {
		s.must(t, text, "query", "add", "--name", name, "-")
	}
	s.must(t, "", "endpoint", "tick", "city")
	type followed struct {
		name, query string
		cmd         *exec.Cmd
		out         *bufio.Scanner
		seqs        []int
		document    string
	}
	var all []*followed
	for _, transport := range transports {
		for name := range queries {
			f := &followed{name: transport + "/" + name, query: name, cmd: foreignCommand(t, s.srv.Url, name, transport, strconv.Itoa(last))}
			f.cmd.Stderr = os.Stderr
			pipe, err := f.cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := f.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.cmd.Process.Kill() }) // it may have ended already
			f.out = bufio.NewScanner(pipe)
			f.out.Buffer(nil, 16<<20)
			all = append(all, f)
		}
	}
	ended := make(chan *followed, len(all))
	for _, f := range all {
		ready := make(chan struct{})
		go func() {
			defer func() { ended <- f }()
			for f.out.Scan() {
				var m struct {
					Seq      *int
					Document string
				}
				if json.Unmarshal(f.out.Bytes(), &m) == nil && m.Seq != nil && m.Document != "" {
					f.document = m.Document
					if len(f.seqs) == 0 {
						close(ready)
					}
					f.seqs = append(f.seqs, *m.Seq)
				}
			}
		}()
		select {
		case <-ready:
		case <-time.After(time.Minute):
			t.Fatalf("%s got nothing", f.name)
		}
	}
	for n := 1; n < last; n++ {
		s.step(n)
		if n == 4 || n == 8 {
			s.crash()
		}
	}
	for range all {
		select {
		case f := <-ended:
			if err := f.cmd.Wait(); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			for i, seq := range f.seqs {
				if i > 0 && seq < f.seqs[i-1] {
					t.Errorf("%s went back: %v", f.name, f.seqs)
				}
			}
			if end := f.seqs[len(f.seqs)-1]; end != last {
				t.Errorf("%s ended at seq %d, want %d", f.name, end, last)
			}
			if want := s.results(f.query); f.document != want {
				t.Errorf("%s holds\n%s\nthe server holds\n%s", f.name, f.document, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("a client did not reach the end")
		}
	}
}

// curl negotiates representations and follows changes.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	url := s.srv.Url + "/v1/queries/rows"
	get := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(curl, append([]string{"-sS", "--max-time", "20"}, args...)...).Output()
		if err != nil {
			t.Fatalf("curl %v: %v", args, err)
		}
		return string(out)
	}
	for accept, want := range map[string]string{
		"application/sparql-results+json": `{"head":{"vars":["s","n"]},"results":{"bindings":[{"s":{"type":"uri",` +
			`"value":"http://x/0"},"n":{"type":"literal","value":"0","xml:lang":"en"}}]}}`,
		"text/csv":                  "s,n\r\nhttp://x/0,0\r\n",
		"text/tab-separated-values": "?s\t?n\n<http://x/0>\t\"0\"@en\n",
		"text/csv;q=0.1, text/tab-separated-values": "?s\t?n\n<http://x/0>\t\"0\"@en\n",
	} {
		if got := get("-H", "Accept: "+accept, url+"/results"); got != want {
			t.Errorf("Accept %s: %q, want %q", accept, got, want)
		}
	}
	if got := get("-o", "/dev/null", "-w", "%{http_code}", "-H", "Accept: image/png", url+"/results"); got != "406" {
		t.Errorf("Accept image/png: %s, want 406", got)
	}
	etag := get("-o", "/dev/null", "-w", "%header{etag}", url+"/results.srj")
	if got := get("-o", "/dev/null", "-w", "%{http_code}", "-H", "If-None-Match: "+etag, url+"/results.srj"); got != "304" {
		t.Errorf("If-None-Match %s: %s, want 304", etag, got)
	}

	cmd := exec.Command(curl, "-sSN", "--max-time", "60", "-H", "Accept: text/event-stream", url+"/changes")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	lines := bufio.NewScanner(pipe)
	id := waitLine(t, lines, "id: ")
	if !strings.HasSuffix(id, ":1") {
		t.Errorf("first event has id %s, want seq 1", id)
	}
	s.step(1)
	id = waitLine(t, lines, "id: ")
	if !strings.HasSuffix(id, ":2") {
		t.Errorf("second event has id %s, want seq 2", id)
	}
	if data := waitLine(t, lines, "data: "); !strings.Contains(data, `"prev":1`) || !strings.Contains(data, "http://x/1") {
		t.Errorf("second event: %s", data)
	}
}

func waitLine(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return rest
		}
	}
	t.Fatalf("the stream ended before a line with %q: %v", prefix, lines.Err())
	return ""
}

const browserPage = `<!doctype html><meta charset="utf-8"><title>follow</title>
<script type="module">
const server = new URLSearchParams(location.search).get('server')
const tell = line => fetch('/tell', { method: 'POST', body: JSON.stringify(line) })
try {
  const { Freshet } = await import(server + '/freshet.js')
  const freshet = new Freshet(server, { minBackoff: 5, maxBackoff: 100 })
  const sub = freshet.follow('rows', m => tell({ type: m.type, seq: sub?.position?.seq, document: sub?.result?.document() }))
} catch (e) { tell({ type: 'failed', document: String(e) }) }
</script>`

// The reference client, which the server also serves, follows a query in a real browser from
// another origin over a crash of the server.
func TestBrowserClient(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		clitest.SkipPart(t, "chromium", "apt-get install chromium")
	}
	type line struct {
		Type, Document string
		Seq            int
	}
	received := make(chan line, 100)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			io.WriteString(w, browserPage)
		case "/tell":
			var l line
			if err := json.NewDecoder(r.Body).Decode(&l); err == nil {
				received <- l
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	s := newTestServer(t, "origins: [\""+site.URL+"\"]\n")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	// The browser's helper processes write there for a moment after it was killed, so it must not
	// be the directory of the test, which is removed at once.
	profile, err := os.MkdirTemp("", "freshet-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for tries := 0; os.RemoveAll(profile) != nil && tries < 100; tries++ {
			time.Sleep(50 * time.Millisecond)
		}
	})
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+profile, "--remote-debugging-port=0", site.URL+"/?server="+s.srv.Url)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	until := func(seq int) line {
		t.Helper()
		for {
			select {
			case l := <-received:
				if l.Type == "failed" {
					t.Fatal(l.Document)
				}
				if l.Seq == seq && l.Document != "" {
					return l
				}
			case <-time.After(time.Minute):
				t.Fatalf("the browser did not reach seq %d", seq)
			}
		}
	}
	until(1)
	s.step(1)
	until(2)
	s.crash()
	s.step(2)
	if got, want := until(3).Document, s.results("rows"); got != want {
		t.Errorf("the browser holds\n%s\nthe server holds\n%s", got, want)
	}
}

// A store of n3 that applies the quads of a graph query is what the server has at each position,
// and Comunica answers queries from it, over two crashes of the server.
func TestQuads(t *testing.T) {
	t.Parallel()
	quads(t, "", "items", "saved", "stream")
}

// If results and changes are too large to send, it applies the differences between snapshots.
func TestQuadsLarge(t *testing.T) {
	t.Parallel()
	quads(t, "limits: {change: 100B}\n", "items", "stream")
}

func quads(t *testing.T, more string, ways ...string) {
	needModules(t, "n3", "@comunica/query-sparql-rdfjs-lite")
	const last = 10 // the final seq
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := newTestServer(t, more)
	s.must(t, "CONSTRUCT { ?s <http://x/m> [ <http://x/k> ?n ] } WHERE { ?s <http://x/n> ?n }", "query", "add", "--name", "graph", "-")
	s.must(t, "", "endpoint", "tick", "city")
	type follower struct {
		way string
		cmd *exec.Cmd
		out *bufio.Scanner
	}
	var all []follower
	for _, way := range ways {
		cmd := exec.CommandContext(ctx, "node", append(websocketFlag(t), "driver/rdfjs.js", s.srv.Url, "graph", way, strconv.Itoa(last))...)
		cmd.Dir, cmd.Stderr = jsClient, os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f := follower{way, cmd, bufio.NewScanner(pipe)}
		if way != "stream" {
			waitLine(t, f.out, `{"seq":1,`)
		}
		all = append(all, f)
	}
	for n := 1; n < last; n++ {
		if n%3 == 0 { // a row that was added before
			s.Update(t, fmt.Sprintf("DELETE WHERE { <http://x/%d> ?p ?o }", n-1))
		}
		s.step(n)
		if n == 3 || n == 6 {
			s.crash()
		}
	}
	for _, f := range all {
		waitLine(t, f.out, fmt.Sprintf(`{"seq":%d,"rows":7}`, last))
		if err := f.cmd.Wait(); err != nil {
			t.Errorf("%s: %v", f.way, err)
		}
	}
}
