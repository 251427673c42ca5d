package local

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

func listen(t *testing.T, e *Engine, o HandlerOptions) *Server {
	t.Helper()
	return serve(t, Handler(e, o))
}

func serve(t *testing.T, h http.Handler) *Server {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type call struct {
	method, url, contentType, body string
	header                         map[string]string
}

func (c call) do(t *testing.T) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(c.method, c.url, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.contentType != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	for name, value := range c.header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

const formType = "application/x-www-form-urlencoded"

func param(pairs ...string) string {
	v := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		v.Add(pairs[n], pairs[n+1])
	}
	return v.Encode()
}

func TestProtocol(t *testing.T) {
	e := loaded(t, people)
	h := Handler(e, HandlerOptions{AllowUpdate: true}).(*handler)
	h.mostBody = 1000
	s := serve(t, h)
	const names = "SELECT ?o { ?s <http://x/name> ?o }"
	const graph = "construct WHERE { ?s <http://x/name> ?o } # SELECT"
	get := s.URL + "?" + param("query", names)
	accept := func(a string) map[string]string { return map[string]string{"Accept": a} }
	for name, c := range map[string]struct {
		call
		status     int
		media, has string
	}{
		"get":  {call{"GET", get, "", "", nil}, 200, "application/sparql-results+json", `"Böb"`},
		"form": {call{"POST", s.URL, formType, param("query", names), nil}, 200, "application/sparql-results+json", `"Böb"`},
		"form charset": {call{"POST", s.URL, formType + "; charset=UTF-8", param("query", names), nil}, 200,
			"application/sparql-results+json", `"Böb"`},
		"direct": {call{"POST", s.URL, "application/sparql-query", names, nil}, 200, "application/sparql-results+json", `"Böb"`},
		"head":   {call{"HEAD", get, "", "", nil}, 200, "application/sparql-results+json", ""},
		"xml": {call{"GET", get, "", "", accept("application/sparql-results+xml")}, 200,
			"application/sparql-results+xml", "<sparql"},
		"csv": {call{"GET", get, "", "", accept("text/csv")}, 200, "text/csv; charset=utf-8", "o\r\nBöb"},
		"tsv": {call{"GET", get, "", "", accept("text/tab-separated-values")}, 200,
			"text/tab-separated-values; charset=utf-8", "?o\n"},
		"quality": {call{"GET", get, "", "", accept("text/csv;q=0.1, application/sparql-results+xml;q=0.5, */*;q=0")}, 200,
			"application/sparql-results+xml", ""},
		"any but json": {call{"GET", get, "", "", accept("*/*, application/sparql-results+json;q=0")}, 200,
			"application/sparql-results+xml", ""},
		"knakk": {call{"GET", get, "", "", accept("application/json")}, 200, "application/sparql-results+json", ""},
		"graph": {call{"GET", s.URL + "?" + param("query", graph), "", "", nil}, 200, "application/n-triples", "\"Böb\"@de .\n"},
		"turtle": {call{"GET", s.URL + "?" + param("query", graph), "", "",
			accept("text/turtle, application/rdf+xml;q=0.9")}, 200, "text/turtle; charset=utf-8", "Böb"},
		"rdf/xml": {call{"GET", s.URL + "?" + param("query", graph), "", "", accept("application/rdf+xml")}, 200,
			"application/rdf+xml", "rdf:RDF"},
		"rows as graph": {call{"GET", get, "", "", accept("text/turtle")}, 406, "text/plain; charset=utf-8",
			"application/sparql-results+json"},
		"graph as rows": {call{"GET", s.URL + "?" + param("query", graph), "", "", accept("text/csv")}, 406,
			"text/plain; charset=utf-8", "text/turtle"},
		"syntax": {call{"GET", s.URL + "?" + param("query", "SELECT bad"), "", "", nil}, 400, "text/plain; charset=utf-8",
			"error at 1:11"},
		"cannot run": {call{"GET", s.URL + "?" + param("query", "SELECT * { SERVICE <http://127.0.0.1:1> {} }"), "", "", nil},
			500, "text/plain; charset=utf-8", "not supported"},
		"no query":    {call{"GET", s.URL, "", "", nil}, 400, "text/plain; charset=utf-8", "no query"},
		"two queries": {call{"GET", get + "&" + param("query", names), "", "", nil}, 400, "text/plain; charset=utf-8", "exactly one"},
		"both": {call{"POST", s.URL, formType, param("query", names, "update", "CLEAR ALL"), nil}, 400,
			"text/plain; charset=utf-8", "exactly one"},
		"update by get": {call{"GET", s.URL + "?" + param("update", "CLEAR ALL"), "", "", nil}, 400, "text/plain; charset=utf-8", "POST"},
		"update as query": {call{"GET", s.URL + "?" + param("query", "CLEAR ALL"), "", "", nil}, 400, "text/plain; charset=utf-8",
			"error at"},
		"bad escape": {call{"GET", s.URL + "?query=%zz", "", "", nil}, 400, "text/plain; charset=utf-8", "malformed"},
		"not utf-8":  {call{"GET", s.URL + "?query=ASK%20{?s%20?p%20'%ff'}", "", "", nil}, 400, "text/plain; charset=utf-8", "UTF-8"},
		"bad graph": {call{"GET", get + "&" + param("default-graph-uri", "rel"), "", "", nil}, 400,
			"text/plain; charset=utf-8", "absolute"},
		"other graph": {call{"GET", get + "&" + param("default-graph-uri", "http://x/none"), "", "", nil}, 200,
			"application/sparql-results+json", `"bindings":[]`},
		"other in body": {call{"POST", s.URL + "?" + param("default-graph-uri", "http://x/none"), "application/sparql-query",
			names, nil}, 200, "application/sparql-results+json", `"bindings":[]`},
		"method":  {call{"PUT", s.URL, "", "", nil}, 405, "text/plain; charset=utf-8", "PUT"},
		"type":    {call{"POST", s.URL, "text/plain", names, nil}, 415, "text/plain; charset=utf-8", "application/sparql-query"},
		"no type": {call{"POST", s.URL, "", names, nil}, 415, "text/plain; charset=utf-8", "Content-Type"},
		"charset": {call{"POST", s.URL, formType + "; charset=latin1", "", nil}, 415, "text/plain; charset=utf-8", "latin1"},
		"too big": {call{"POST", s.URL, "application/sparql-query", names + strings.Repeat(" ", 1000), nil}, 413,
			"text/plain; charset=utf-8", "1000"},
		"update syntax": {call{"POST", s.URL, "application/sparql-update", "INSERT bad", nil}, 400, "text/plain; charset=utf-8",
			"error at"},
		"using": {call{"POST", s.URL + "?" + param("using-graph-uri", "http://x/g"), "application/sparql-update",
			"CLEAR ALL", nil}, 400, "text/plain; charset=utf-8", "USING"},
		"proxied update": {call{"POST", s.URL, "application/sparql-update", "CLEAR ALL",
			map[string]string{"X-Forwarded-For": "9.9.9.9"}}, 403, "text/plain; charset=utf-8", "proxy"},
		"rebound update": {call{"POST", s.URL, formType, param("update", "CLEAR ALL"), map[string]string{"Host": "evil.example"}},
			421, "text/plain; charset=utf-8", "localhost"},
		"update by an address": {call{"POST", s.URL, formType, param("update", "CLEAR ALL"), map[string]string{"Host": "192.0.2.7"}},
			403, "text/plain; charset=utf-8", "loopback"},
		"foreign update": {call{"POST", s.URL, formType, param("update", "CLEAR ALL"),
			map[string]string{"Origin": "http://evil.example"}}, 403, "text/plain; charset=utf-8", "another site"},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := c.call.do(t)
			if response.StatusCode != c.status || response.Header.Get("Content-Type") != c.media || !strings.Contains(body, c.has) {
				t.Errorf("got %d %s %q\nwant %d %s containing %q", response.StatusCode, response.Header.Get("Content-Type"), body, c.status,
					c.media, c.has)
			}
			if c.status == 405 && response.Header.Get("Allow") != "GET, HEAD, POST" {
				t.Errorf("Allow is %q", response.Header.Get("Allow"))
			}
		})
	}
	if n, err := e.Size(context.Background()); n != 4 || err != nil {
		t.Errorf("size %d, %v: a refused update was run", n, err)
	}
}

func TestUpdateByHTTP(t *testing.T) {
	e := loaded(t, people)
	s := listen(t, e, HandlerOptions{AllowUpdate: true})
	for _, c := range []call{
		{"POST", s.URL, formType, param("update", "INSERT DATA { <http://x/a> <http://x/p> 1 }"), nil},
		{"POST", s.URL, "application/sparql-update", "INSERT DATA { <http://x/a> <http://x/p> 2 }", nil},
	} {
		if response, body := c.do(t); response.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %d %s", c.contentType, response.StatusCode, body)
		}
	}
	if n, _ := e.Size(context.Background()); n != 6 {
		t.Errorf("size %d, want 6", n)
	}
	closed := listen(t, e, HandlerOptions{})
	response, _ := call{"POST", closed.URL, "application/sparql-update", "CLEAR ALL", nil}.do(t)
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("update where none are allowed: %d", response.StatusCode)
	}
	// A remote peer is refused whatever its headers say.
	r := httptest.NewRequest("POST", "http://127.0.0.1/sparql", strings.NewReader("CLEAR ALL"))
	r.Header.Set("Content-Type", "application/sparql-update")
	r.RemoteAddr = "192.0.2.7:4000"
	w := httptest.NewRecorder()
	Handler(e, HandlerOptions{AllowUpdate: true}).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("update from elsewhere: %d", w.Code)
	}
	if n, _ := e.Size(context.Background()); n != 6 {
		t.Errorf("size %d after refused updates, want 6", n)
	}
}

// A page that rebinds its own name to this machine cannot read anything.
func TestRebinding(t *testing.T) {
	e := loaded(t, people)
	s := listen(t, e, HandlerOptions{AllowUpdate: true})
	ask := s.URL + "?" + param("query", "ASK {}")
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST.:80": 200, "127.0.0.1:1": 200, "[::1]:99": 200, "192.0.2.7:3030": 200,
		"evil.example": 421, "evil.example:80": 421, "localhost.evil.example": 421, "127.0.0.1:80.evil.example": 421, "127.0.0.1.nip.io": 421} {
		for _, c := range []call{{"GET", ask, "", "", nil}, {"POST", s.URL, "application/sparql-query", "ASK {}", nil}} {
			c.header = map[string]string{"Host": host}
			if response, body := c.do(t); response.StatusCode != want {
				t.Errorf("%s as %s: %d %s", c.method, host, response.StatusCode, body)
			}
		}
	}
	// A server on a network address may be addressed by any name.
	r := httptest.NewRequest("GET", "http://sparql.example.org/sparql?"+param("query", "ASK {}"), nil)
	r.RemoteAddr = "192.0.2.7:4000"
	w := httptest.NewRecorder()
	if Handler(e, HandlerOptions{}).ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("from elsewhere: %d %s", w.Code, w.Body)
	}
}

func TestValidators(t *testing.T) {
	e := loaded(t, people)
	s := listen(t, e, HandlerOptions{AllowUpdate: true})
	get := func(query, accept, tag string) *http.Response {
		t.Helper()
		response, _ := call{"GET", s.URL + "?" + param("query", query), "", "", map[string]string{"Accept": accept, "If-None-Match": tag}}.do(t)
		return response
	}
	const all = "SELECT * { ?s ?p ?o }"
	tag := get(all, "text/csv", "").Header.Get("ETag")
	if len(tag) < 10 || tag[0] != '"' {
		t.Fatalf("ETag %q", tag)
	}
	if again := get(all, "text/csv", `"other", W/`+tag); again.StatusCode != http.StatusNotModified || again.Header.Get("ETag") != tag {
		t.Errorf("same question: %d %q", again.StatusCode, again.Header.Get("ETag"))
	}
	for name, other := range map[string]*http.Response{
		"other query": get(all+" LIMIT 9", "text/csv", tag), "other format": get(all, "*/*", tag),
	} {
		if other.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", name, other.StatusCode)
		}
	}
	if err := e.Update(context.Background(), "INSERT DATA { <http://x/a> <http://x/p> 1 }"); err != nil {
		t.Fatal(err)
	}
	if after := get(all, "text/csv", tag); after.StatusCode != http.StatusOK || after.Header.Get("ETag") == tag {
		t.Errorf("after an update: %d %q", after.StatusCode, after.Header.Get("ETag"))
	}
	for _, query := range []string{
		"SELECT (NOW() AS ?n) {}", "CONSTRUCT { [] <http://x/of> ?o } WHERE { ?s ?p ?o }",
		"CONSTRUCT { _:b <http://x/of> ?o } WHERE { ?s ?p ?o }",
	} {
		if tag := get(query, "*/*", "").Header.Get("ETag"); tag != "" {
			t.Errorf("%s has the ETag %s", query, tag)
		}
	}
}

func TestOverload(t *testing.T) {
	e := loaded(t, numbers(100))
	h := Handler(e, HandlerOptions{}).(*handler)
	h.places = make(chan struct{}, 1)
	s := serve(t, h)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"?"+param("query", runaway), nil)
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
			t.Error("the runaway query was answered")
		}
	})
	for len(e.exclusive) != 0 {
		time.Sleep(time.Millisecond)
	}
	response, _ := call{"GET", s.URL + "?" + param("query", "ASK {}"), "", "", nil}.do(t)
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("in a full queue: %d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
	}
	cancel() // the client goes away, and its query with it
	running.Wait()
	for {
		response, body := call{"GET", s.URL + "?" + param("query", "SELECT (COUNT(*) AS ?n) {?s ?p ?o}"), "", "",
			map[string]string{"Accept": "text/csv"}}.do(t)
		if response.StatusCode == http.StatusOK {
			if body != "n\r\n100\r\n" {
				t.Errorf("after the cut: %q", body)
			}
			return
		}
	}
}

// Concurrent readers and writers, with a query cut now and then: no reader sees
// half an update, and every accepted update is there at the end.
func TestConcurrentClients(t *testing.T) {
	e := loaded(t, numbers(50))
	s := listen(t, e, HandlerOptions{AllowUpdate: true})
	const writers, updates = 3, 6
	var clients sync.WaitGroup
	for w := range writers {
		clients.Go(func() {
			for u := range updates {
				id := string(rune('a'+w)) + string(rune('a'+u))
				body := "INSERT DATA { <http://x/" + id + "> <http://x/left> '" + id + "' ; <http://x/right> '" + id + "' }"
				if response, text := (call{"POST", s.URL, "application/sparql-update", body, nil}).do(t); response.StatusCode != http.StatusNoContent {
					t.Errorf("update: %d %s", response.StatusCode, text)
				}
			}
		})
		clients.Go(func() {
			for range updates {
				const half = "ASK { { ?x <http://x/left> ?l FILTER NOT EXISTS { ?x <http://x/right> ?l } } UNION { ?x <http://x/right> " +
					"?r FILTER NOT EXISTS { ?x <http://x/left> ?r } } }"
				if _, body := (call{"GET", s.URL + "?" + param("query", half), "", "", map[string]string{"Accept": "text/csv"}}).do(
					t); body != "false" {
					t.Errorf("half an update was seen: %q", body)
				}
			}
		})
	}
	clients.Go(func() {
		for range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"?"+param("query", runaway), nil)
			if response, err := http.DefaultClient.Do(r); err == nil {
				response.Body.Close()
			}
			cancel()
		}
	})
	clients.Wait()
	if n, err := e.Size(context.Background()); n != 50+2*writers*updates || err != nil {
		t.Errorf("size %d, %v, want %d", n, err, 50+2*writers*updates)
	}
}
