package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

func TestHosts(t *testing.T) {
	w := newWorld(t)
	for host, ok := range map[string]bool{
		"localhost": true, "LOCALHOST:99": true, "127.0.0.1:8080": true, "127.9.9.9": true, "[::1]:8080": true,
		"[::ffff:127.0.0.1]": true, "localhost.": true,
		"freshet.example.org": true, "Freshet.Example.Org:1": true, "10.1.2.3:8080": true,
		"evil.example.org": false, "localhost.evil.org": false, "127.0.0.1.nip.io": false, "10.1.2.4": false, "2130706433": false,
		"0x7f.1": false, "[fe80::1]": false,
		"a b": false, "127.0.0.1@evil.org": false, "": false,
		"127.0.0.1:8080.evil.example": false, "localhost:80.evil.example": false, "[::1]:80.evil.example": false,
		"freshet.example.org:evil.example": false, "127.0.0.1:": true,
	} {
		a := w.get("/healthz", "Host: "+host)
		if ok {
			a.status(200)
		} else {
			a.problem(421, "misdirected")
		}
	}
	w.get("/nowhere", "Host: evil.example.org").problem(421, "misdirected")
	w.do("POST", "/v1/endpoints/city/tick", "", "Host: evil.example.org").problem(421, "misdirected")
}

// A server on all addresses accepts the address of the connection as its host.
func TestHostIsLocalAddress(t *testing.T) {
	h := newHosts(Site{Listen: ":8080"})
	for local, want := range map[string]bool{"192.0.2.7:8080": true, "192.0.2.8:8080": false} {
		addr, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = "192.0.2.7"
		r = r.WithContext(contextWithLocal(r, addr))
		if h.admit(r) != want {
			t.Errorf("over %s: %v", local, !want)
		}
	}
}

// A server without tokens refuses forwarded requests on every route, unless it is
// insecure.
func TestForwardedWithoutTokens(t *testing.T) {
	fields := []string{"Forwarded: for=203.0.113.9", "Via: 1.1 front", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: a",
		"X-Forwarded-Proto: https", "X-Real-IP: 203.0.113.9",
		"CF-Connecting-IP: 203.0.113.9", "True-Client-IP: 203.0.113.9", "X-Forwarded-For: "}
	var pages atomic.Int64
	w := newWorld(t, func(c *Config) { c.Pages = countedPages{&pages} })
	for _, f := range fields {
		for _, rt := range (&server{Config: w.config}).table() {
			path := strings.NewReplacer("{id}", "x", "{name}", "city", "{slug}", "limit").Replace(rt.path)
			a := w.do(rt.method, path, "", f).problem(403, "forwarded")
			if !strings.Contains(a.string("detail"), "token add") || !strings.Contains(a.string("detail"), "--insecure") {
				t.Fatalf("no remedy in %s", a.body)
			}
		}
		w.get("/", f).problem(403, "forwarded")
	}
	if pages.Load() != 0 {
		t.Errorf("%d pages were shown", pages.Load())
	}
	w.get("/v1/queries", "X-Forward: 1").status(200)
	insists := newWorld(t, func(c *Config) { c.Insecure = true })
	insists.get("/v1/queries", fields...).status(200)
	closed := newWorld(t, func(c *Config) {
		c.Gate = gateOf(t, registry.Token{Name: "ops", Role: registry.RoleAdmin, SHA256: registry.HashSecret("a secret of the test")})
	})
	closed.get("/v1/queries", fields...).problem(401, "unauthorized")
	closed.get("/v1/queries", append(fields, "Authorization: Bearer a secret of the test")...).status(200)
}

type countedPages struct{ n *atomic.Int64 }

func (p countedPages) ServeHTTP(http.ResponseWriter, *http.Request) { p.n.Add(1) }
func (countedPages) Token(*http.Request) string                     { return "" }

// gateOf returns a gate with these tokens.
func gateOf(t *testing.T, tokens ...registry.Token) *TokenGate {
	t.Helper()
	g, err := NewTokenGate(tokens, newMemory(morning), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestCrossOrigin(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins = []string{"https://app.example.org"} })
	for headers, want := range map[string]int{
		"":                                 200,
		"Sec-Fetch-Site: same-origin":      200,
		"Sec-Fetch-Site: cross-site":       403,
		"Sec-Fetch-Site: same-site":        403,
		"Origin: http://127.0.0.1:8080":    200,
		"Origin: https://evil.example.org": 403,
		"Origin: null":                     403,
		"Origin: https://app.example.org\nSec-Fetch-Site: cross-site": 200,
	} {
		var h []string
		if headers != "" {
			h = strings.Split(headers, "\n")
		}
		a := w.do("POST", "/v1/endpoints/city/tick", "", h...).status(want)
		if want == 403 {
			a.problem(403, "cross-origin")
		}
	}
	if n := len(w.m.slots["city"]); n != 4 {
		t.Errorf("%d slots ran", n)
	}
	// A link of an e-mail has its own proof, so it may be used wherever the page with its button is shown.
	w.do("POST", "/notify-me/p_1?key=x", "", "Origin: null").status(404)
	// With no-referrer, browsers send this origin from pages of the server itself, and over plain HTTP nothing else.
	if p := w.get("/v1").Header.Get("Referrer-Policy"); p != "same-origin" {
		t.Errorf("the policy of referrers is %q", p)
	}
	for origin, want := range map[string]string{"https://app.example.org": "https://app.example.org", "https://evil.example.org": ""} {
		if got := w.get("/v1/queries", "Origin: "+origin).Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s is allowed to read as %q", origin, got)
		}
	}
	pre := w.do("OPTIONS", "/v1/queries", "", "Origin: https://app.example.org", "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization,content-type")
	if pre.StatusCode != 204 || pre.Header.Get("Access-Control-Allow-Origin") == "" ||
		!strings.Contains(pre.Header.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("preflight %d %v", pre.StatusCode, pre.Header)
	}
	// The Memento protocol works from another page, too.
	pre = w.do("OPTIONS", "/v1/queries", "", "Origin: https://app.example.org", "Access-Control-Request-Method: GET",
		"Access-Control-Request-Headers: accept-datetime")
	exposed := w.get("/v1/queries", "Origin: https://app.example.org").Header.Get("Access-Control-Expose-Headers")
	if !strings.Contains(pre.Header.Get("Access-Control-Allow-Headers"), "accept-datetime") || !strings.Contains(exposed,
		"Memento-Datetime") || !strings.Contains(exposed, "Content-Location") {
		t.Errorf("preflight %v, exposed %q", pre.Header, exposed)
	}
	if none := newWorld(t).get("/v1/queries", "Origin: https://app.example.org"); none.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("without origins everybody may read")
	}
}

func TestMethods(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	for _, c := range [][3]string{{"PUT", "/v1/queries", "GET, HEAD, POST, OPTIONS"}, {"GET", "/v1/queries/validate",
		"POST, OPTIONS"}, {"POST", "/v1/queries/" + id, "GET, HEAD, PATCH, DELETE, OPTIONS"},
		{"DELETE", "/v1/queries/" + id + "/results.srj", "GET, HEAD, OPTIONS"}, {"BREW", "/healthz", "GET, HEAD, OPTIONS"},
		{"GET", "/v1/endpoints/city/tick", "POST, OPTIONS"}} {
		if a := w.do(c[0], c[1], "").problem(405, "method-not-allowed"); a.Header.Get("Allow") != c[2] {
			t.Errorf("%s %s: Allow %q", c[0], c[1], a.Header.Get("Allow"))
		}
	}
	if a := w.do("OPTIONS", "/v1/queries", "").status(204); a.Header.Get("Allow") != "GET, HEAD, POST, OPTIONS" {
		t.Errorf("%v", a.Header)
	}
}

// A path outside the table is answered with 404, never with a redirect.
func TestUnknownPaths(t *testing.T) {
	w := newWorld(t)
	for _, p := range []string{"/nowhere", "/v1/queries/", "/v1//queries", "/v1/../v1/queries", "//evil.example.org/",
		"/v1/queries/a/b/c", "/v1/profiles/a/b", "/v1/webhooks/a/b",
		"/v1/hub/x", "/v1/queries/x/results.exe", "/%2e%2e/etc/passwd", "/problems/", "/problems/none", "/v1/endpoints/city/hints/x",
		"/v1/queries/%00/nothing"} {
		a := w.do("GET", p, "").problem(404, "not-found")
		if a.Header.Get("Location") != "" {
			t.Errorf("%s is redirected to %s", p, a.Header.Get("Location"))
		}
	}
	if len(problemKinds) != len(registry.Kinds()) {
		t.Errorf("%d kinds of problems are answered, %d are known", len(problemKinds), len(registry.Kinds()))
	}
	for _, slug := range registry.Kinds() {
		k := problemKinds[slug]
		a := w.get("/problems/" + string(slug)).status(200)
		if !strings.Contains(string(a.body), k.about) || k.remedy == "" || !strings.Contains(string(a.body), k.remedy) ||
			!strings.Contains(string(a.body), slug.Title()) || k.status < 400 {
			t.Errorf("%s: %s", slug, a.body)
		}
	}
}

// No header of an answer repeats what the client sent.
func TestNothingEchoed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins = []string{"https://app.example.org"} })
	id := w.register(selectText)
	const mark = "Zx9marker"
	for _, target := range []string{"/" + mark, "/v1/queries/" + mark, "/v1/queries/" + mark + "%0d%0aX-Evil:%201",
		"/v1/queries?cursor=" + mark, "/v1/queries?q=" + mark,
		"/v1/queries/" + id + "/changes?after=" + mark + "%0d%0a:1", "/problems/" + mark, "/v1/queries/" + id + "/results?x=" + mark,
		"/" + mark + "/.."} {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", mark} {
			a := w.do(method, target, mark, "X-A: "+mark, "Origin: https://"+mark, "Accept: "+mark+"/x", "Content-Type: "+mark,
				"Authorization: Bearer "+mark,
				"If-None-Match: \""+mark+"\"", "Access-Control-Request-Headers: "+mark, "Access-Control-Request-Method: "+mark, "Last-Event-ID: "+mark)
			if s := fmt.Sprint(a.Header); strings.Contains(s, mark) || a.Header.Get("X-Evil") != "" {
				t.Errorf("%s %s: %s", method, target, s)
			}
		}
	}
	if log := w.log.String(); strings.Contains(log, "\r") {
		t.Error("a line break reached the log")
	}
}

func TestPanics(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.ChangeJSON = func(registry.Change) ([]byte, error) { panic("secret words") }
		c.Followers = streams{query: func(w http.ResponseWriter, _ *http.Request, _ registry.Query) {
			io.WriteString(w, "data: half")
			panic("in the middle")
		}}
	})
	id := w.register(selectText)
	w.grow(id, 1)
	a := w.get("/v1/queries/"+id+"/changes").problem(500, "internal")
	if strings.Contains(string(a.body), "secret") || !strings.Contains(w.log.String(), "secret words") ||
		!strings.Contains(w.log.String(), "security_test.go") {
		t.Errorf("%s\n%s", a.body, w.log)
	}
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	req, _ := http.NewRequest("GET", srv.URL+"/v1/queries/"+id+"/changes", nil)
	req.Header.Set("Accept", "text/event-stream")
	if resp, err := srv.Client().Do(req); err == nil {
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a stream that broke off ends like a whole one")
		}
		resp.Body.Close()
	}
	if resp, err := srv.Client().Get(srv.URL + "/healthz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("the server is gone: %v", err)
	} else {
		resp.Body.Close()
	}
}

// Request splitting, smuggling and malformed requests over a real connection are
// answered with 4xx or a closed connection, and the server keeps serving.
func TestRawRequests(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	for _, raw := range []string{
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
		"GET /\r\nX: y HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://evil.example.org/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\nContent-Type: application/json\r\n\r\n{}",
		"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Type: " +
			"application/json\r\n\r\nzz\r\n",
		"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: " +
			"application/json\r\n\r\nffffffffffffffff\r\n",
		"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n\x00\x01\x02",
		"* * *\r\n\r\n",
		"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, raw)
		conn.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && (resp.StatusCode < 400 && !strings.HasPrefix(raw, "GET / HTTP/1.1\r\nHost: localhost") || resp.StatusCode >= 500) {
			t.Errorf("%.40q: %s", raw, resp.Status)
		}
		conn.Close()
	}
	if resp, err := srv.Client().Get(srv.URL + "/healthz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("the server is gone: %v", err)
	} else {
		resp.Body.Close()
	}
}

// The index links the calls without parameters.
func TestIndex(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1", "/v1/"} {
		links := w.get(path).status(200).json()["links"].(map[string]any)
		for _, name := range []string{"queries", "changes", "endpoints", "profiles", "subscriptions", "webhooks", "tokens", "live",
			"hub", "feeds", "openapi.yaml"} {
			if links[name] != "http://freshet.example.org:8080/v1/"+name {
				t.Errorf("%s: %s is at %v", path, name, links[name])
			}
		}
		if len(links) > 22 {
			t.Errorf("%v", links)
		}
		w.do("POST", path, "").problem(405, "method-not-allowed")
	}
	w.get("/v1//").problem(404, "not-found")
}

func TestServerCalls(t *testing.T) {
	w := newWorld(t)
	w.get("/readyz").status(200)
	w.get("/v1/live").status(400)
	for _, p := range []string{"/v1/openapi.yaml", "/v1/asyncapi.yaml"} {
		if a := w.get(p).status(200); !strings.Contains(string(a.body), "Freshet") {
			t.Errorf("%s: %.100s", p, a.body)
		}
	}
	w = newWorld(t, func(c *Config) { c.Health = condition{notReady: errors.New("stopping")} })
	if a := w.get("/readyz").problem(503, "not-ready"); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if log := w.log.String(); log != "" {
		t.Errorf("a look at the health of a server that is not ready is logged:\n%s", log)
	}
	w.get("/healthz").status(200)
	w = newWorld(t, func(c *Config) { c.Live, c.Metrics = nil, nil })
	r := httptest.NewRecorder()
	w.h.ServeHTTP(r, httptest.NewRequest("GET", "http://localhost/metrics", nil))
	if r.Code != 404 {
		t.Errorf("metrics that are not there: %d", r.Code)
	}
}

func TestNewRefuses(t *testing.T) {
	good := newWorld(t).config
	for name, edit := range map[string]func(*Config){
		"relative url":  func(c *Config) { c.PublicURL = "freshet" },
		"url of a file": func(c *Config) { c.PublicURL = "file:///x" },
		"query in url":  func(c *Config) { c.PublicURL = "http://a/?b" },
		"bad origin":    func(c *Config) { c.Origins = []string{"app.example.org/path"} },
	} {
		c := good
		edit(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The log has one line per request with its outcome, and the client of a proxy on this machine.
func TestRequestLog(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Insecure = true })
	id := w.register(selectText)
	r := httptest.NewRequest("GET", "http://127.0.0.1:8080/v1/queries/"+id+"/results", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "203.0.113.1, 198.51.100.7")
	w.h.ServeHTTP(httptest.NewRecorder(), r)
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), w.log)
	}
	for _, want := range []string{`"route":"/v1/queries/{id}/results"`, `"status":404`, `"caller":"anonymous"`, `"query":"` + id,
		`"problem":"no-result"`, `"took":`, `"remote":"198.51.100.7"`} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("no %s in %s", want, lines[1])
		}
	}
}

// The deadline of a body does not apply to the call: a call that takes longer is not
// ended, and one whose body never arrives is.
func TestBodyTime(t *testing.T) {
	const bodyTime = 200 * time.Millisecond
	w := newWorld(t, func(c *Config) { c.Limits.BodyTime = bodyTime })
	w.m.tick = func(ctx context.Context) (scheduler.Slot, error) {
		select {
		case <-ctx.Done():
			return scheduler.Slot{}, ctx.Err()
		case <-time.After(2 * bodyTime):
			return scheduler.Slot{Endpoint: "city", Number: 1}, nil
		}
	}
	w.m.trial = func(*registry.Query) (scheduler.Answer, error) {
		time.Sleep(2 * bodyTime)
		return scheduler.Answer{Outcome: registry.Changed, Result: truthValue(t, true)}, nil
	}
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	for range 2 { // the second on the same connection
		for _, path := range []string{"/v1/endpoints/city/tick", "/v1/queries/validate?run=1"} {
			resp, err := srv.Client().Post(srv.URL+path, "application/json", strings.NewReader(`{"query":"ASK {}"}`))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
		}
	}
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(conn, "POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 408 || !strings.Contains(string(b), "body-too-slow") {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}

// A failing gate is answered with 500.
func TestGateFails(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Gate.store = brokenStore{} })
	w.get("/v1/queries").problem(500, "internal")
	w.get("/healthz").status(200)
}

type brokenStore struct{ TokenStore }

func (brokenStore) Tokens() ([]registry.Token, error) { return nil, errors.New("the disk is gone") }

func contextWithLocal(r *http.Request, addr net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, addr)
}

// timed is a response that records its deadlines.
type timed struct {
	*httptest.ResponseRecorder
	reads, writes []time.Time
}

func (d *timed) SetWriteDeadline(t time.Time) error {
	d.writes = append(d.writes, t)
	return nil
}

func (d *timed) SetReadDeadline(t time.Time) error {
	d.reads = append(d.reads, t)
	return nil
}

// A client whose body is too slow gets a problem that says so.
func TestBodyTimeIsNotRenewed(t *testing.T) {
	w := newWorld(t)
	d := &timed{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest("POST", "/v1/queries", iotest.ErrReader(os.ErrDeadlineExceeded))
	r.Host, r.ContentLength = "localhost", 100
	r.Header.Set("Content-Type", "application/json")
	w.h.ServeHTTP(d, r)
	if d.Code != 408 || len(d.reads) != 1 {
		t.Errorf("status %d, deadlines for reading: %v", d.Code, d.reads)
	}
}

// A client that does not read its answer is disconnected, for every kind of answer.
func TestAnswersHaveTime(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.m.publish(id, table(t, [2]diff.Term{iri("a"), lit("x")}))
	at := "/v1/queries/" + id
	for _, path := range []string{"/v1/queries", "/v1/changes", at, at + "/changes", at + "/results", at + "/results.csv",
		at + "/changes.atom", at + "/changes/latest", "/v1/endpoints/city/shadows"} {
		d := &timed{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "localhost"
		w.h.ServeHTTP(d, r)
		if d.Code != 200 || len(d.writes) == 0 || d.writes[len(d.writes)-1].IsZero() {
			t.Errorf("%s: status %d, deadlines for writing: %v", path, d.Code, d.writes)
		}
	}
}
