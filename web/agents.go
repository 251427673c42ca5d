package web

// This file serves the Model Context Protocol: package mcp answers, by calls of the routes of this package.

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/mcp"
)

const (
	mostAgentCalls   = 100 // messages of one caller at a time, those that listen and those that wait included
	mostAgentAnswers = 4   // messages of one caller that are answered at a time
)

// agents counts what callers do, so that none of them has too much of the memory.
type agents struct {
	mu    sync.Mutex
	users map[string]*agentUse
}

// An agentUse is what one caller does now.
type agentUse struct {
	calls, topics int
	answers       chan struct{} // has an element for each message that is being answered
}

func (a *agents) beginCall(caller string) (u *agentUse, leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users == nil {
		a.users = map[string]*agentUse{}
	}
	u = a.users[caller]
	if u == nil {
		u = &agentUse{answers: make(chan struct{}, mostAgentAnswers)}
		a.users[caller] = u
	}
	if u.calls == mostAgentCalls {
		detail := "this caller waits for many answers already, or listens that often"
		return nil, nil, later("busy", 5*time.Second, detail)
	}
	u.calls++
	return u, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if u.calls--; u.calls == 0 {
			delete(a.users, caller)
		}
	}, nil
}

// listen takes places for resources to listen to.
func (a *agents) listen(u *agentUse, topics int) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u.topics+topics > mcp.MostTopics {
		detail := fmt.Sprintf("this caller listens to %d resources already, and may to %d", u.topics, mcp.MostTopics)
		return nil, later("busy", 5*time.Second, detail)
	}
	u.topics += topics
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		u.topics -= topics
	}, nil
}

// answer answers a message of the Model Context Protocol. The message waits unread while the caller has others answered.
func (c agentAPI) answer() error {
	if _, err := c.mediaType(typeJSON); err != nil {
		return err
	}
	use, leave, err := c.agents.beginCall(c.name())
	if err != nil {
		return err
	}
	defer leave()
	select {
	case use.answers <- struct{}{}:
	case <-c.r.Context().Done():
		return c.r.Context().Err()
	}
	answered := sync.OnceFunc(func() { <-use.answers })
	defer answered()
	a := mcp.Reply(c.Version, agentCalls(c), c.r)
	switch {
	case a.Listen != nil:
		answered()
		return c.listen(use, a.Listen)
	case a.Body == nil:
		c.w.WriteHeader(a.Status)
		return nil
	}
	return c.bytes(a.Status, typeJSON, a.Body)
}

func (c agentAPI) listen(use *agentUse, u *registry.Updates) error {
	leave, err := c.agents.listen(use, len(u.Topics))
	if err != nil {
		return err
	}
	defer leave()
	return c.follow("", func() { c.Followers.Updates(c.w, c.r, c.name(), *u) })
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
