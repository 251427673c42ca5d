package trial

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
)

// dial connects to a server's WebSocket and sends init.
func dial(t *testing.T, url, token string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"freshet.v1"}, HandshakeTimeout: time.Minute}
	c, _, err := d.Dial("ws"+strings.TrimPrefix(url, "http")+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.WriteJSON(map[string]string{"type": "init", "token": token}); err != nil {
		t.Fatal(err)
	}
	return c
}

// receive reads until a message of the type arrives.
func receive(t *testing.T, c *websocket.Conn, typ string) map[string]any {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		var m map[string]any
		if err := c.ReadJSON(&m); err != nil {
			t.Fatalf("waiting for %s: %v", typ, err)
		}
		if m["type"] == typ {
			return m
		}
	}
}

// closeCode reads until the connection is closed and returns the code.
func closeCode(t *testing.T, c *websocket.Conn) int {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		_, _, err := c.ReadMessage()
		if e, ok := err.(*websocket.CloseError); ok {
			return e.Code
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// SIGTERM stops a server in order: followers are asked to reconnect, the exit code is 0, and the
// next start continues from there.
func TestGracefulStop(t *testing.T) {
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	c := dial(t, s.srv.Url, "")
	receive(t, c, "ready")
	if err := c.WriteJSON(map[string]string{"type": "subscribe", "id": "a", "query": "rows"}); err != nil {
		t.Fatal(err)
	}
	before := receive(t, c, "snapshot")
	ended := make(chan error, 1)
	go func() { ended <- s.srv.Stop() }()
	if code := closeCode(t, c); code != 4004 {
		t.Errorf("close code %d, want 4004", code)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v\n%s", err, s.srv.Stderr)
	}
	s.srv = clitest.Serve(t, binary(t), s.addr, s.data, s.yaml)
	c = dial(t, s.srv.Url, "")
	if err := c.WriteJSON(map[string]any{"type": "subscribe", "id": "a", "query": "rows",
		"resume": map[string]any{"epoch": before["epoch"], "seq": before["seq"]}}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, c, "subscribed"); m["resumed"] != true || m["seq"] != before["seq"] || m["epoch"] != before["epoch"] {
		t.Errorf("after the restart: %v, want resumed at %v:%v", m, before["epoch"], before["seq"])
	}
}

// A follower learns at once, not with the next heartbeat, that its query ended because the
// endpoint was removed. On a busy machine a heartbeat may be due anyway, so the test tries
// several removals.
func TestRemovedEndpointEndsItsQueries(t *testing.T) {
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	for try := 1; heartbeatsUntilRemoved(t, s); try++ {
		if try == 3 {
			t.Fatalf("the end came after a heartbeat in each of %d tries", try)
		}
	}
}

// heartbeatsUntilRemoved removes an endpoint and reports whether a follower of its
// query got a heartbeat before the end.
func heartbeatsUntilRemoved(t *testing.T, s *testServer) bool {
	t.Helper()
	// An endpoint of the file would return; this one exists only by the API.
	s.must(t, "", "endpoint", "add", "other", s.Endpoint, "--set", "slot=never")
	s.must(t, "ASK {}", "query", "add", "--endpoint", "other", "--name", "lost", "-")
	s.must(t, "", "endpoint", "tick", "other")
	c := dial(t, s.srv.Url, "")
	beats := 0
	c.SetPingHandler(func(string) error { beats++; return nil })
	for _, name := range []string{"rows", "lost"} {
		if err := c.WriteJSON(map[string]string{"type": "subscribe", "id": name, "query": name}); err != nil {
			t.Fatal(err)
		}
		receive(t, c, "snapshot")
	}
	var lost struct{ ID string }
	s.fetch("/v1/queries/lost", &lost)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.srv.Url+"/v1/queries/"+lost.ID+"/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	for line := ""; !strings.HasPrefix(line, "data:"); { // the snapshot
		if line, err = events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	s.must(t, "", "endpoint", "rm", "other")
	if m := receive(t, c, "complete"); m["id"] != "lost" || m["reason"] != "released" {
		t.Errorf("the end is %v", m)
	}
	rest, err := io.ReadAll(events)
	if err != nil || !strings.Contains(string(rest), "event: complete") {
		t.Errorf("the event stream goes on with %q, %v", rest, err)
	}
	return beats > 0 || strings.Contains(string(rest), "\n:")
}

// SIGHUP applies new tokens and endpoints. With a bad file the old settings stay.
func TestReload(t *testing.T) {
	s := newTestServer(t, "tokens: [{name: one, role: admin, sha256: \""+registry.HashSecret("first-of-the-secrets")+"\"}]\n")
	file := s.srv.Cmd.Args[3]
	status := func(token string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, s.srv.Url+"/v1/endpoints/city", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := [2]int{status("first-of-the-secrets"), status("second-of-the-secrets")}; got != [2]int{200, 401} {
		t.Fatalf("before: %v", got)
	}
	reload := func(text, says string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.srv.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for range 1200 {
			if strings.Contains(s.srv.Stderr.String(), says) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("no %q after SIGHUP:\n%s", says, s.srv.Stderr)
	}
	reload(strings.NewReplacer("slot: never", "slot: sometimes", registry.HashSecret("first-of-the-secrets"),
		registry.HashSecret("second-of-the-secrets")).Replace(s.yaml), "old settings stay")
	if got := [2]int{status("first-of-the-secrets"), status("second-of-the-secrets")}; got != [2]int{200, 401} {
		t.Errorf("after a bad file: %v, want all of it to be without effect", got)
	}
	reload(strings.NewReplacer(registry.HashSecret("first-of-the-secrets"), registry.HashSecret("second-of-the-secrets"),
		"policy: rr", "policy: \"ttl:max=8:half\"").Replace(s.yaml), "is reloaded")
	if got := [2]int{status("first-of-the-secrets"), status("second-of-the-secrets")}; got != [2]int{401, 200} {
		t.Errorf("after a good file: %v, want 401 and 200", got)
	}
	s.Env["FRESHET_TOKEN"] = "second-of-the-secrets"
	var e struct{ Policy string }
	if err := json.Unmarshal([]byte(s.must(t, "", "endpoint", "show", "city", "--json")), &e); err != nil || e.Policy != "ttl:max=8:half" {
		t.Errorf("policy is %q after the reload (%v)", e.Policy, err)
	}
}

// A wrong token on the WebSocket gets 4401. Without a token, public queries can be followed.
func TestLiveToken(t *testing.T) {
	s := newTestServer(t, "tokens: [{name: eye, role: read, sha256: \""+registry.HashSecret("look-but-do-not-touch")+
		"\"}, {name: ops, role: admin, sha256: \""+registry.HashSecret("do-what-has-to-be-done")+"\"}]\n")
	if code := closeCode(t, dial(t, s.srv.Url, "guess")); code != 4401 {
		t.Errorf("a wrong token: close code %d, want 4401", code)
	}
	s.Env["FRESHET_TOKEN"] = "do-what-has-to-be-done"
	s.must(t, "SELECT ?s { ?s <http://x/o> ?n }", "query", "add", "--name", "shown", "--public", "-")
	s.must(t, "SELECT ?s { ?s <http://x/h> ?n }", "query", "add", "--name", "hidden", "-")
	c := dial(t, s.srv.Url, "")
	receive(t, c, "ready")
	for name, want := range map[string]string{"shown": "subscribed", "hidden": "error"} {
		if err := c.WriteJSON(map[string]string{"type": "subscribe", "id": name, "query": name}); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, c, want); m["id"] != name || want == "error" && m["code"] != "not_allowed" {
			t.Errorf("following %s without a token: %v", name, m)
		}
	}
	c = dial(t, s.srv.Url, "look-but-do-not-touch")
	receive(t, c, "ready")
	if err := c.WriteJSON(map[string]string{"type": "subscribe", "id": "a", "endpoint": "city", "sparql": "ASK {}"}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, c, "error"); m["code"] != "not_allowed" || m["id"] != "a" {
		t.Errorf("registering with a read token: %v", m)
	}
	c = dial(t, s.srv.Url, "do-what-has-to-be-done")
	for sparql, code := range map[string]string{"DROP ALL": "bad_params", "SELECT": "bad_params"} {
		if err := c.WriteJSON(map[string]string{"type": "subscribe", "id": "a", "endpoint": "city", "sparql": sparql}); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, c, "error"); m["code"] != code {
			t.Errorf("following %s: %v, want %s", sparql, m, code)
		}
	}
	if err := c.WriteJSON(map[string]string{"type": "subscribe", "id": "a", "endpoint": "city",
		"sparql": "SELECT ?s { ?s <http://x/n> ?n }"}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, c, "subscribed"); m["seq"] != 0.0 {
		t.Errorf("following a new query: %v, want seq 0", m)
	}
	s.must(t, "", "endpoint", "tick", "city")
	if m := receive(t, c, "delta"); m["baseline"] != true || m["prev"] != 0.0 || m["seq"] != 1.0 || m["jaccard"] != nil {
		t.Errorf("the first result: %v, want a baseline", m)
	}
}

// With port 0 the system chooses the port, and links contain the chosen one.
func TestPortZero(t *testing.T) {
	srv := clitest.Serve(t, binary(t), "127.0.0.1:0", t.TempDir(), "")
	if strings.HasSuffix(srv.Url, ":0") {
		t.Error(srv.Url)
	}
	clitest.Eventually(t, srv.Url+" is ready", func() bool {
		resp, err := http.Get(srv.Url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// Commands that serve print their address on standard output, in JSON if requested.
func TestSaysWhere(t *testing.T) {
	clitest.NeedEngine(t)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.nt"), filepath.Join(dir, "two.ttl")
	for path, text := range map[string]string{one: "<http://x/a> <http://x/p> \"1\" .\n", two: "@prefix x: <http://x/> . x:b x:p 2, 3 ."} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"serve", "--data", t.TempDir()}, {"sparql", "--load", one, two}} { // as a shell expands --load *
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		p := clitest.StartTo(t, out, binary(t), append(args, "--listen", "127.0.0.1:0", "--json")...)
		var said struct {
			URL     string
			Triples int
		}
		clitest.Eventually(t, "a line on standard output", func() bool {
			b, err := os.ReadFile(out.Name())
			return err == nil && json.Unmarshal(b, &said) == nil
		})
		if args[0] == "sparql" && said.Triples != 3 {
			t.Errorf("%d triples of two files, want 3", said.Triples)
		}
		if said.URL != p.Url {
			t.Errorf("%s says %q in JSON and %q to people", args[0], said.URL, p.Url)
		}
	}
}

// The embedded endpoint stops on request with exit code 0.
func TestSparqlStops(t *testing.T) {
	clitest.NeedEngine(t)
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := clitest.Start(t, binary(t), "sparql", "--listen", "127.0.0.1:0")
		if err := p.Cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Ended:
			if p.Err != nil {
				t.Errorf("%s: %v\n%s", sig, p.Err, p.Stderr)
			}
		case <-time.After(time.Minute):
			t.Fatalf("freshet sparql does not end on %s", sig)
		}
	}
}

// A limit of 0 means no limit, also for bodies and changes.
func TestNoLimits(t *testing.T) {
	p := clitest.Serve(t, binary(t), "127.0.0.1:0", t.TempDir(),
		"limits: {queries: 0, body: 0, connections: 0, change: 0}\nendpoints: [{name: city, url: \"http://"+clitest.FreeAddr(t)+
			"/sparql\", slot: never}]\n")
	text := `{"endpoint":"city","query":"ASK {}\n#` + strings.Repeat("x", 2<<20) + `"}`
	resp, err := http.Post(p.Url+"/v1/queries/validate", "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 2 MiB: %s", resp.Status)
	}
	limits := receive(t, dial(t, p.Url, ""), "ready")["limits"].(map[string]any)
	if limits["change"] != 0.0 {
		t.Errorf("ready tells the limits %v", limits)
	}
}
