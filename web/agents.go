package web

// This file serves the Model Context Protocol: package mcp answers, by calls of the routes of this package.

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/mcp"
)

// mostAgentCalls is how many messages of one caller are answered at a time, those that listen included.
const mostAgentCalls = 100

// agents counts the messages that are being answered, by caller.
type agents struct {
	mu    sync.Mutex
	calls map[string]int
}

func (a *agents) enter(caller string) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	if a.calls[caller] == mostAgentCalls {
		detail := "this caller waits for many answers already, or listens that often"
		return nil, &problem{Problem: newProblem("busy", detail), retryAfter: 5}
	}
	a.calls[caller]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.calls[caller]--; a.calls[caller] == 0 {
			delete(a.calls, caller)
		}
	}, nil
}

// answer answers a message of the Model Context Protocol.
func (c agentAPI) answer() error {
	if _, err := c.mediaType(typeJSON); err != nil {
		return err
	}
	leave, err := c.agents.enter(c.name())
	if err != nil {
		return err
	}
	defer leave()
	s := mcp.Server{Version: c.Version, API: agentCalls(c)}
	a := s.Answer(c.r)
	switch {
	case a.Listen != nil && c.Followers == nil:
		return notFound("nothing can be followed here")
	case a.Listen != nil:
		u := registry.Updates{First: a.Listen.First, Last: a.Listen.Last}
		for _, t := range a.Listen.Topics {
			u.Topics = append(u.Topics, registry.UpdatesTopic{Query: t.Query, After: t.After, Message: t.Updated})
		}
		return c.follow("", func() { c.Followers.Updates(c.w, c.r, c.name(), u) })
	case a.Body == nil:
		c.w.WriteHeader(a.Status)
		return nil
	}
	return c.bytes(a.Status, typeJSON, a.Body)
}

// agentCalls is a http.RoundTripper of the routes, for the caller of a message.
type agentCalls struct{ *call }

// RoundTrip implements http.RoundTripper. The body of the response must be closed; that ends the call.
func (c agentCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	r.RemoteAddr, r.Host = c.r.RemoteAddr, c.r.Host
	for _, name := range []string{"Authorization", "X-Forwarded-For"} {
		if values := c.r.Header[name]; len(values) > 0 {
			r.Header[name] = values
		}
	}
	out, in := io.Pipe()
	p := &piped{header: http.Header{}, in: in, started: make(chan struct{})}
	b := &pipedBody{out: out, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		c.serveInner(p, r)
	}()
	<-p.started
	return &http.Response{StatusCode: p.status, Header: p.header, Body: b, Request: r}, nil
}

func (c agentCalls) serveInner(p *piped, r *http.Request) {
	start, rec := c.Now(), &recorder{ResponseWriter: p}
	defer func() {
		abort := c.rescue(rec, r, recover())
		if rec.failure != nil {
			c.record(rec, r, c.Now().Sub(start))
		}
		p.WriteHeader(http.StatusOK)
		if abort {
			p.in.CloseWithError(errors.New("the answer ended early"))
			return
		}
		p.in.Close()
	}()
	c.inner.ServeHTTP(rec, r)
}

// piped is a http.ResponseWriter whose response is read while it is written.
type piped struct {
	header  http.Header
	status  int
	in      *io.PipeWriter
	started chan struct{} // closed once status and header are final
}

// Header implements http.ResponseWriter.
func (p *piped) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *piped) WriteHeader(status int) {
	if p.status == 0 {
		p.status, p.header = status, p.header.Clone()
		close(p.started)
	}
}

// Write implements http.ResponseWriter.
func (p *piped) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.in.Write(b)
}

// A pipedBody is read while it is written.
type pipedBody struct {
	out  *io.PipeReader
	done chan struct{}
}

// Read implements io.Reader.
func (b *pipedBody) Read(p []byte) (int, error) { return b.out.Read(p) }

// Close ends the call and waits for it.
func (b *pipedBody) Close() error {
	err := b.out.Close()
	<-b.done
	return err
}
