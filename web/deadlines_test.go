package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// longest is how long a test waits for an event that should happen at once.
const longest = time.Minute

// requests returns a request of each route, and one for each way in which a request is
// refused before it reaches a route, as the first line and further fields.
func requests(s *server) []string {
	var all []string
	for _, rt := range s.table() {
		path := strings.NewReplacer("{id}", "x", "{name}", "city", "{slug}", "limit").Replace(rt.path)
		all = append(all, rt.method+" "+path, "PUT "+path)
		if rt.method == "GET" {
			all = append(all, "HEAD "+path)
		}
	}
	return append(all, "GET /", "POST /signin", "PUT /", "GET /nowhere", "POST /nowhere", "POST /v1/nowhere", "GET //x",
		"POST /v1/../x", "OPTIONS /v1/queries", "OPTIONS *", "PUT *", "BREW /healthz",
		"POST /v1/queries\r\nHost: evil.example.org", "GET /healthz\r\nHost: evil.example.org",
		"POST /v1/queries\r\nOrigin: https://evil.example.org",
		"OPTIONS /v1/queries\r\nOrigin: https://app.example.org\r\nAccess-Control-Request-Method: POST",
		"POST /v1/queries\r\nX-Forwarded-For: 203.0.113.9",
		"POST /v1/queries\r\nAuthorization: Bearer wrong", "POST /v1/queries?a=%zz", "POST /v1/queries\r\nExpect: 100-continue")
}

// The server closes a connection whose announced body does not arrive, for every
// request, whether or not a handler reads the body.
func TestEveryBodyHasTime(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"open": func(*Config) {},
		"tokens": func(c *Config) {
			c.Gate = gateOf(t, registry.Token{Name: "ops", Role: registry.RoleAdmin, SHA256: registry.HashSecret("a secret of the test")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) {
				c.Limits.BodyTime, c.Origins, c.Pages = 200*time.Millisecond, []string{"https://app.example.org"}, countedPages{new(atomic.Int64)}
				edit(c)
			})
			srv := httptest.NewUnstartedServer(nil)
			srv.Config = Serving(w.h)
			srv.Start()
			defer srv.Close()
			var wait sync.WaitGroup
			defer wait.Wait()
			for _, line := range requests(&server{Config: w.config}) {
				for _, body := range []string{"Content-Length: 100000\r\n\r\n", "Content-Length: 100000\r\n\r\n{",
					"Transfer-Encoding: chunked\r\n\r\n5\r\n{"} {
					wait.Go(func() { ends(t, srv.Listener.Addr().String(), line, body) })
				}
			}
		})
	}
}

// ends fails the test if the server does not close a connection whose body never
// arrives in full. The beginning of the body arrives byte by byte.
func ends(t *testing.T, addr, line, body string) {
	first, fields, _ := strings.Cut(line, "\r\n")
	if !strings.Contains(fields, "Host:") {
		fields += "\r\nHost: localhost"
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(longest))
	if _, err := io.WriteString(conn, first+" HTTP/1.1\r\n"+strings.TrimPrefix(fields, "\r\n")+
		"\r\nContent-Type: application/json\r\n"+body); err != nil {
		t.Error(err)
		return
	}
	over := make(chan struct{})
	trickled := make(chan struct{})
	go func() {
		defer close(trickled)
		for strings.HasSuffix(body, "{") {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
			}
			piece := " "
			if strings.Contains(body, "chunked") {
				piece = "\r\n1\r\n "
			}
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
		}
	}()
	_, err = io.Copy(io.Discard, conn)
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		t.Errorf("%q with %q stays open", line, body)
	}
	close(over)
	<-trickled
}

// Over HTTP/2, the server ends the stream of a body that does not arrive.
func TestEveryBodyHasTimeOverHTTP2(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.BodyTime = 200 * time.Millisecond })
	srv := httptest.NewUnstartedServer(nil)
	srv.Config, srv.EnableHTTP2 = Serving(w.h), true
	srv.StartTLS()
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, rt := range (&server{Config: w.config}).table() {
		path := strings.NewReplacer("{id}", "x", "{name}", "city", "{slug}", "limit").Replace(rt.path)
		wait.Go(func() {
			body, never := io.Pipe()
			defer never.Close()
			req, err := http.NewRequestWithContext(ctx, rt.method, srv.URL+path, body)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				t.Errorf("%s %s: %v", rt.method, path, err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.ProtoMajor != 2 {
				t.Errorf("%s %s over %s: %v", rt.method, path, resp.Proto, err)
			}
		})
	}
}

// The deadline of a body that has arrived does not end the call: streams and slots
// continue after it, and the connection accepts further requests.
func TestBodyTimeEndsWithTheBody(t *testing.T) {
	const bodyTime = 200 * time.Millisecond
	outlive := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * bodyTime):
			return nil
		}
	}
	w := newWorld(t, func(c *Config) {
		c.Limits.BodyTime = bodyTime
		c.Followers = streams{query: func(w http.ResponseWriter, r *http.Request, _ registry.Query) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			if err := outlive(r.Context()); err != nil {
				t.Errorf("the stream ended: %v", err)
			}
			_, _ = io.WriteString(w, "data: lived\n\n")
		}}
		c.Live = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1)) // the client sends after the time for a body
			_, _ = io.WriteString(conn, map[bool]string{true: "lived"}[err == nil])
		})
	})
	w.m.tick = func(ctx context.Context) (scheduler.Slot, error) {
		return scheduler.Slot{Endpoint: "city", Number: 1, Error: "lived"}, outlive(ctx)
	}
	id := w.register(selectText)
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, call := range []string{"GET /v1/queries/" + id + "/changes", "POST /v1/endpoints/city/tick", "GET /v1/live"} {
		for _, body := range []string{"Content-Length: 2\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "\r\n"} {
			wait.Go(func() {
				conn, err := net.Dial("tcp", srv.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(longest))
				if _, err := io.WriteString(conn, call+" HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nConnection: close\r\n"+
					body); err != nil {
					t.Error(err)
				}
				if call == "GET /v1/live" {
					time.Sleep(2 * bodyTime)
					_, _ = io.WriteString(conn, "x")
				}
				if got, err := io.ReadAll(conn); err != nil || !strings.Contains(string(got), "lived") {
					t.Errorf("%s with %q: %v %s", call, body, err, got)
				}
			})
		}
	}
}
