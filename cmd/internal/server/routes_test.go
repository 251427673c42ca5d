package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs"
)

// A silentClient sends a request whose body never arrives. It notes whether the server had set a
// deadline when it read the body or began to answer.
type silentClient struct {
	*httptest.ResponseRecorder
	once     sync.Once
	deadline bool // a read deadline is set
	late     bool // the server read or answered without one
}

func (c *silentClient) SetReadDeadline(t time.Time) error {
	c.deadline = c.deadline || !t.IsZero()
	return nil
}

func (c *silentClient) SetWriteDeadline(time.Time) error { return nil }

func (c *silentClient) acts() { c.once.Do(func() { c.late = !c.deadline }) }

func (c *silentClient) WriteHeader(status int) {
	c.acts()
	c.ResponseRecorder.WriteHeader(status)
}

func (c *silentClient) Write(b []byte) (int, error) {
	c.acts()
	return c.ResponseRecorder.Write(b)
}

func (c *silentClient) Read([]byte) (int, error) {
	c.acts()
	return 0, os.ErrDeadlineExceeded
}

// request sends a request, given as "METHOD /path", to a handler. A request under a foreign name has no body.
func (c *silentClient) request(h http.Handler, route, host string, header ...string) (status int) {
	c.ResponseRecorder = httptest.NewRecorder()
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequest(method, strings.NewReplacer("{id}", "x", "{name}", "x", "{slug}", "limit").Replace(path), c)
	r.Host, r.ContentLength = host, 100_000
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host != "localhost" {
		r.ContentLength = 0
	}
	defer func() {
		if recover() == http.ErrAbortHandler { // which closes the connection
			status = 0
		}
	}()
	h.ServeHTTP(c, r)
	return c.Code
}

// Every route of a node's handler bounds the time of a body before it reads or answers, accepts the
// server's own names alone, and sends the guard headers. That holds before the node is open, too.
func TestEveryRouteIsGuarded(t *testing.T) {
	_, nodes := newMembers(t, 1)
	handler := nodes[0].http.Handler
	var described struct{ Paths map[string]map[string]any } // which a test of web compares with its routes
	if err := yaml.Unmarshal(docs.OpenAPI, &described); err != nil {
		t.Fatal(err)
	}
	routes := []string{"GET /", "POST /signin", "PUT /nowhere", "BREW /healthz", "OPTIONS *"}
	for path, methods := range described.Paths {
		for method := range methods {
			if method != "parameters" {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	if len(routes) < 80 {
		t.Fatalf("only %d routes", len(routes))
	}
	member := nodes[0].member
	ofNode := []string{"Authorization", member.credentials(member.Session(), registry.Caller{Name: "n2", Role: registry.RoleAdmin}),
		appliedHeader, "0"}
	check := func(h http.Handler, route string, header ...string) {
		var c silentClient
		if c.request(h, route, "localhost", header...); c.late {
			t.Errorf("%s: answered %d without a deadline for the body", route, c.Code)
		}
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", nodeHeader} {
			if c.Header().Get(name) == "" {
				t.Errorf("%s: no header %s", route, name)
			}
		}
		if status := new(silentClient).request(h, route, "evil.example", header...); status != http.StatusMisdirectedRequest &&
			!strings.HasSuffix(route, " *") {
			t.Errorf("%s with a foreign Host: %d", route, status)
		}
	}
	for _, route := range routes {
		own, path, _ := strings.Cut(route, " ")
		for _, method := range []string{own, "PUT", "GET"} {
			check(handler, method+" "+path)
			check(handler, method+" "+path, ofNode...)
		}
	}
	opening := newOpening("n1", nodes[0].opening.waiting)
	for _, path := range []string{"/healthz", "/readyz"} {
		check(opening, "POST "+path)
	}
	if len(routes) < 50 {
		t.Errorf("the handler lists %d routes", len(routes))
	}
}
