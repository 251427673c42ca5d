package endpoint

import (
	"context"
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
	"github.com/freshet/freshet/registry/clock"
)

// dropsSecond answers every request except the second, whose kept connection it
// closes silently.
func dropsSecond(t *testing.T) (addr string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		send(200, typeJSON, rows(1))(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

// A request whose kept connection ends is sent again if and only if the server
// cannot have worked on it: one execution is one request.
func TestOnce(t *testing.T) {
	short, lengthy := sel("SELECT * {?s ?p ?x}"), sel("SELECT * {?s ?p ?x} #"+strings.Repeat("x", longestGET))
	for _, tc := range []struct {
		name    string
		q       *registry.Query
		quickly time.Duration
		gap     time.Duration
		asked   int32
		outcome registry.Outcome
	}{
		{"a GET at once", short, time.Hour, 0, 3, registry.Changed},
		{"a POST at once", lengthy, time.Hour, 0, 3, registry.Changed},
		{"a GET after a while", short, -1, 0, 2, registry.Failed},
		{"a POST after a while", lengthy, -1, 0, 2, registry.Failed},
		{"with a gap", short, time.Hour, 150 * time.Millisecond, 3, registry.Changed},
		{"with a gap that is longer than the timeout", short, time.Hour, 2100 * time.Millisecond, 3, registry.Changed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr, asked := dropsSecond(t)
			c := client(t, addr, func(e *registry.Endpoint, _ *Options) {
				e.MinGap = registry.Duration(tc.gap)
				if tc.gap > time.Second {
					e.Timeout = registry.Duration(2 * time.Second) // enough for the first request on a busy machine
				}
			})
			c.resendWithin = tc.quickly
			want(t, execute(t, c, tc.q), registry.Changed)
			began := time.Now()
			a := execute(t, c, tc.q)
			if tc.outcome == registry.Failed {
				want(t, a, tc.outcome, "closed the connection without an answer")
			} else {
				want(t, a, tc.outcome)
			}
			if waited := time.Since(began) - a.Elapsed; tc.outcome == registry.Changed && waited < tc.gap*3/2 {
				t.Errorf("waited for %v beside the %v that it took; two gaps are %v", waited, a.Elapsed, 2*tc.gap)
			}
			if n := asked.Load(); n != tc.asked {
				t.Errorf("%d requests, want %d", n, tc.asked)
			}
		})
	}
}

// The time to establish another connection does not count as silence of the
// kept one.
func TestOnceOverASlowNetwork(t *testing.T) {
	addr, asked := dropsSecond(t)
	c := client(t, addr, nil)
	tr := c.http.Transport.(*http.Transport)
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		if err := Sleep(ctx, c.resendWithin+200*time.Millisecond); err != nil {
			return nil, err
		}
		return dial(ctx, network, to)
	}
	q := sel("SELECT * {?s ?p ?x}")
	want(t, execute(t, c, q), registry.Changed)
	want(t, execute(t, c, q), registry.Changed)
	if n := asked.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// A request is not sent again once the endpoint has answered to another one that it wants no requests.
func TestNotOnceMoreWhileTheEndpointRests(t *testing.T) {
	var asked atomic.Int32
	var c *Client
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 2 {
			c.health.mu.Lock()
			c.health.throttled(verdict{wait: time.Minute}) // what another request was answered
			c.health.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		send(200, typeJSON, rows(1))(w, r)
	})
	c = client(t, addr, nil)
	c.resendWithin = time.Hour
	q := sel("SELECT * {?s ?p ?x}")
	want(t, execute(t, c, q), registry.Changed)
	want(t, execute(t, c, q), registry.Failed, "closed the connection without an answer")
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A process that may no longer ask sends nothing, however far the execution has come: the
// question comes after the gap and after the connection is made.
func TestAllowed(t *testing.T) {
	const gap = 50 * time.Millisecond
	var (
		mu       sync.Mutex
		allowed  = true
		requests []time.Time
		asked    []time.Time // Allowed
	)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, time.Now())
		mu.Unlock()
		send(200, typeJSON, rows(1))(w, r)
	})
	c := client(t, addr, func(e *registry.Endpoint, o *Options) {
		e.MinGap = registry.Duration(gap)
		o.Allowed = func() bool {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Now())
			return allowed
		}
	})
	tr := c.http.Transport.(*http.Transport)
	dial, dialled := tr.DialContext, time.Time{}
	tr.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := dial(ctx, network, to)
		dialled = time.Now()
		return conn, err
	}
	q := sel("SELECT * {?s ?p ?x}")
	want(t, execute(t, c, q), registry.Changed)
	if len(asked) != 1 || asked[0].Before(dialled) {
		t.Fatalf("asked at %v, the connection is from %v", asked, dialled)
	}
	want(t, execute(t, c, q), registry.Changed)
	if len(asked) != 2 || asked[1].Sub(requests[0]) < gap {
		t.Fatalf("asked at %v, the first request came at %v and the gap is %v", asked, requests[0], gap)
	}
	allowed = false
	for range 2 { // on the kept connection, and on another one
		want(t, execute(t, c, q), registry.Cut, "may not ask")
	}
	if h := c.Health(); len(requests) != 2 || len(asked) != 4 || h.Failures > 0 {
		t.Errorf("%d requests, %d questions, want 2 and 4; %+v", len(requests), len(asked), h)
	}
	allowed = true
	want(t, execute(t, c, q), registry.Changed)
}

// What follows a redirect or a challenge is a request of its own: it waits for the gap, and is not
// sent while the endpoint rests.
func TestFollowingRequestsArePolite(t *testing.T) {
	const gap = 60 * time.Millisecond
	for name, first := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/new?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		},
		"a challenge": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c *Client
			var ended time.Time
			requests, rests := 0, false
			addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests%2 == 0 {
					c.gate.last.mu.Lock()
					if c.gate.last.ended.Before(ended) {
						t.Error("another execution would not have waited for the gap after the first answer")
					}
					c.gate.last.mu.Unlock()
					if d := time.Since(ended); d < gap {
						t.Errorf("the second request came %s after the answer to the first, want at least %s", d, gap)
					}
					send(200, typeJSON, rows(1))(w, r)
					return
				}
				if rests { // as the answer to another request says
					c.health.mu.Lock()
					c.health.throttled(verdict{wait: time.Hour})
					c.health.mu.Unlock()
				}
				ended = time.Now()
				first(w, r)
			})
			c = client(t, addr, func(e *registry.Endpoint, o *Options) {
				e.MinGap = registry.Duration(gap)
				e.Auth.Digest = &registry.Password{Username: "u", Password: "p"}
			})
			began, waits := time.Now(), &clock.Waits{}
			a := c.Execute(waits.In(t.Context()), sel("S"), Memory{}, time.Minute)
			want(t, a, registry.Changed)
			if told := waits.Total(); told < gap {
				t.Errorf("the caller knows of waits of %s, the gap is %s", told, gap)
			}
			if waited := time.Since(began) - a.Elapsed; waited < gap {
				t.Errorf("waited for %s beside the %s that it took, the gap is %s", waited, a.Elapsed, gap)
			}
			if requests != 2 {
				t.Fatalf("%d requests, want 2", requests)
			}
			c.auth = client(t, addr, func(e *registry.Endpoint, o *Options) {
				e.Auth.Digest = &registry.Password{Username: "u", Password: "p"}
			}).auth
			rests = true
			want(t, execute(t, c, sel("S")), registry.Cut, "wants us to wait")
			if requests != 3 {
				t.Errorf("%d requests, want 3: the endpoint was asked while it rested", requests)
			}
		})
	}
}
