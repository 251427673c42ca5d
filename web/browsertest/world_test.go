package browsertest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const root = "../.." // the root of the repository

var workplace string // a temporary directory for the tests

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "freshet-browsertest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	workplace = dir
	code := m.Run()
	stopChromium()
	for _, p := range running {
		if said := p.end(); code != 0 {
			fmt.Fprintf(os.Stderr, "freshet %s said:\n%s\n", p.cmd.Args[1], said)
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// program builds freshet once, or takes it from the directory that "make test" built it in.
var program = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("FRESHET_TEST_PROGRAMS"); dir != "" {
		return filepath.Join(dir, "freshet", "freshet"), nil
	}
	path := filepath.Join(workplace, "freshet")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/freshet")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// part skips a test that needs a missing part, or fails it if FRESHET_REQUIRE
// names the part.
func part(t testing.TB, name, how string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), name) {
		t.Fatalf("the part %s is required and missing: %s", name, how)
	}
	t.Skipf("SKIP-PART %s: %s", name, how)
}

// A process is a running instance of the program.
type process struct {
	cmd   *exec.Cmd
	url   string // the URL that it reports
	lines []string
	ready chan string // gets the URL
	ended chan struct{}
}

var serves = regexp.MustCompile(`(?:serving|triples) at (http\S+)`)

// running lists the processes that are killed when the tests end.
var running []*process

// start runs a command that serves and waits until it reports its URL.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	p := launch(t, args...)
	if err := p.await(); err != nil {
		t.Fatal(err)
	}
	return p
}

// launch runs a command that serves.
func launch(t testing.TB, args ...string) *process {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(bin, args...), ready: make(chan string, 1), ended: make(chan struct{})}
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.watch(pipe, p.ready)
	running = append(running, p)
	return p
}

// await waits until the command reports its URL.
func (p *process) await() error {
	select {
	case p.url = <-p.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("freshet %v ended:\n%s", p.cmd.Args[1:], strings.Join(p.lines, "\n"))
	case <-time.After(patience):
		return fmt.Errorf("freshet %v did not come up", p.cmd.Args[1:])
	}
}

func (p *process) watch(out io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.lines = append(p.lines, lines.Text())
		if m := serves.FindStringSubmatch(lines.Text()); m != nil && len(ready) == 0 {
			ready <- m[1]
		}
	}
	_ = p.cmd.Wait() // it reports the kill
	close(p.ended)
}

// end kills the process and returns its last output.
func (p *process) end() string {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
	return strings.Join(p.lines[max(0, len(p.lines)-30):], "\n")
}

// A world is a server with tokens and everything that its pages can show: an
// endpoint that tests can update, one that fails, one that is paused, and queries
// with hostile names and data.
type world struct {
	t        testing.TB
	url      string
	endpoint string
	queries  map[string]string // ids by keyword
}

// Tokens by role. The server has their hashes.
var tokens = map[string]string{"admin": "token-of-an-admin", "app": "token-of-an-application", "read": "token-of-a-reader"}

const config = `
contact: mailto:ops@city.example
websub: {allow_callback_networks: ["127.0.0.0/8"]}
tokens:
  - {name: ops, role: admin, sha256: %s}
  - {name: parking, role: app, sha256: %s}
  - {name: wallboard, role: read, sha256: %s}
feeds:
  - {name: log, kind: rdf-patch, url: "http://127.0.0.1:9/a/long/address/of/a/log/of/patches?token=secret-parameter"}
  - {name: store, kind: deltas}
endpoints:
  - {name: city, url: %q, slot: "@every 2s", budget: 1s, policy: "ttl:max=2:reset", headers: {X-Key: secret-header}}
  - {name: still, url: %q, slot: never, budget: 5s, feed: store, auth: {basic: {username: u, password: secret-password}}}
  - {name: broken, url: "http://127.0.0.1:9/sparql", slot: "@every 2s", budget: 1s}
  - {name: transit, url: %q, slot: "@every 1h", feed: log}
`

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// shared returns the world of all tests that leave it unchanged.
func shared(t testing.TB) *world {
	t.Helper()
	theWorld.Do(func() { common = newWorld(t) })
	if common == nil {
		t.Fatal("there is no world to look at")
	}
	w := *common
	w.t = t
	return &w
}

var (
	theWorld sync.Once
	common   *world
)

func newWorld(t testing.TB) *world {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "endpoint/local/node_modules/oxigraph/node_bg.wasm")); err != nil {
		part(t, "engine", `run "make deps"`)
	}
	dir := filepath.Join(workplace, itoa(len(running)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	base, file := filepath.Join(dir, "base.nt"), filepath.Join(dir, "freshet.yaml")
	write(t, base, data())
	w := &world{t: t, queries: map[string]string{}}
	w.endpoint = start(t, "sparql", "--listen", "127.0.0.1:0", "--load", base).url
	write(t, file, fmt.Sprintf(config, sum(tokens["admin"]), sum(tokens["app"]), sum(tokens["read"]), w.endpoint, w.endpoint, w.endpoint))
	w.url = start(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")).url
	for _, q := range queries {
		w.queries[q.word] = w.register(q)
	}
	w.call("POST", "/v1/endpoints/transit/pause", nil, nil)
	w.call("POST", "/v1/profiles", map[string]any{"name": "Departure board", "items": []any{
		map[string]any{"query": w.queries["free"], "when": map[string]any{"every": "20s", "slack": "8s"}},
		map[string]any{"query": w.queries["open"], "when": map[string]any{"every": "20s", "slack": "5s"}}}}, nil)
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/bad":
			http.Error(w, "<b>no</b>", http.StatusServiceUnavailable)
		case r.URL.Path == "/picky" && bytes.Contains(b, []byte("query.changed")):
			http.Error(w, "<b>no such field</b>", http.StatusUnprocessableEntity)
		}
	}))
	for _, name := range []string{"alerts", "archive"} {
		w.call("POST", "/v1/webhooks", map[string]any{"url": hooks.URL + map[string]string{"alerts": "/bad"}[name], "name": name,
			"query": w.queries["free"]}, nil)
	}
	for name, when := range map[string]string{"any-change": "changed", "<b>some</b>": "rows > 0"} {
		w.call("POST", "/v1/rules", map[string]any{"name": strings.NewReplacer("<b>", "", "</b>", "").Replace(name),
			"query": w.queries["hostile"], "when": when, "summary": name + " of ?rows rows", "labels": map[string]string{"note": name},
			"to": []any{map[string]any{"webhook": hooks.URL + "/bad"}}}, nil)
	}
	for _, q := range queries {
		if q.endpoint == "city" {
			w.until(q.word, 1)
		}
	}
	w.pickyHook(hooks.URL)
	// A webhook receives the changes from now on.
	w.free(8)
	w.until("free", 2)
	w.untilLetters(1)
	eventually(t, "broken is known to fail, so that no page learns of it while it is looked at", func() bool {
		var e struct {
			State struct{ Health struct{ State string } }
		}
		w.call("POST", "/v1/queries/"+w.queries["lost"]+"/refresh", nil, nil)
		w.call("POST", "/v1/endpoints/broken/tick", nil, nil)
		w.call("GET", "/v1/endpoints/broken", nil, &e)
		return e.State.Health.State == "failing"
	})
	w.call("POST", "/v1/tokens", map[string]any{"name": "guest", "role": "read"}, nil)
	return w
}

// seq returns the version of a query's result.
func (w *world) seq(word string) uint64 {
	w.t.Helper()
	var now struct{ Seq uint64 }
	w.call("GET", "/v1/queries/"+w.queries[word], nil, &now)
	return now.Seq
}

// until waits for a version of a query's result.
func (w *world) until(word string, seq uint64) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("version %d of %s", seq, word), func() bool { return w.seq(word) >= seq })
}

// pickyHook registers a webhook that refuses every change, and waits until it has the result.
func (w *world) pickyHook(server string) {
	w.t.Helper()
	var hook struct{ ID string }
	w.call("POST", "/v1/webhooks", map[string]any{"url": server + "/picky?key=secret-parameter", "name": "picky",
		"query": w.queries["free"]}, &hook)
	eventually(w.t, "the first result is delivered", func() bool {
		var s struct {
			LastDelivery string `json:"last_delivery"`
		}
		w.call("GET", "/v1/subscriptions/"+hook.ID, nil, &s)
		return s.LastDelivery != ""
	})
}

// untilLetters waits for a number of dead letters.
func (w *world) untilLetters(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d dead letters", n), func() bool {
		var all struct {
			Subscriptions []struct {
				Letters []any `json:"dead_letters"`
			}
		}
		w.call("GET", "/v1/dead-letters", nil, &all)
		found := 0
		for _, s := range all.Subscriptions {
			found += len(s.Letters)
		}
		return found == n
	})
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var sessions sync.Map // server and role → cookie

// session returns the cookie of a role, from one sign-in for all tests.
func session(t testing.TB, base, role string) *http.Cookie {
	t.Helper()
	if c, ok := sessions.Load(base + role); ok {
		return c.(*http.Cookie)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.PostForm(base+"/signin", url.Values{"token": {tokens[role]}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(resp.Cookies()) != 1 {
		t.Fatalf("signing in as %s: %s", role, resp.Status)
	}
	sessions.Store(base+role, resp.Cookies()[0])
	return resp.Cookies()[0]
}

// call sends a request to the API as admin; out may be nil.
func (w *world) call(method, path string, in, out any) {
	w.t.Helper()
	if err := w.try(method, path, in, out); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) try(method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequest(method, w.url+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+tokens["admin"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		return errors.Join(err, fmt.Errorf("%s %s: %s %s", method, path, resp.Status, b))
	}
	if out != nil {
		return json.Unmarshal(b, out)
	}
	return nil
}

func escape(s string) string { return url.QueryEscape(s) }

// free sets the number of free spaces of a garage.
func (w *world) free(n int) {
	w.t.Helper()
	w.update("PREFIX c: <https://data.city.example/> DELETE WHERE { <https://data.city.example/garage/0> c:free ?n } ; INSERT " +
		"DATA { <https://data.city.example/garage/0> c:free " + itoa(n) + " }")
}

// update changes the data of the endpoint.
func (w *world) update(sparql string) {
	w.t.Helper()
	resp, err := http.PostForm(w.endpoint, url.Values{"update": {sparql}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		w.t.Fatalf("update: %s %s", resp.Status, b)
	}
}

// eventually waits until ok returns true; what describes the condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
