package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http/httptrace"
	"sync"
	"time"
)

// resendWithin is the time within which a kept connection that the server had
// already closed fails. A later failure may mean that the endpoint, or one
// behind a proxy, has worked on the request and may still do so.
const resendWithin = time.Second

// errNotResent is the error of a request that is not sent again.
var errNotResent = io.ErrUnexpectedEOF

// errRests is the error of a redirect that is not followed, and of a challenge that is not
// answered, because the endpoint has meanwhile told another request to wait.
var errRests = errors.New("the endpoint wants us to wait, so neither a redirect is followed nor a challenge answered")

// errNotAllowed is the error of a request that Options.Allowed keeps from being sent.
var errNotAllowed = errors.New("this process may not ask the endpoint any more")

// A resendGuard ends requests that may not be sent: those that this process may not make any
// more, and those that net/http would send twice. It also waits for the gap before a redirect is
// followed or a challenge answered. net/http resends a request by itself if a
// reused connection ends without an answer. That is correct if the server closed the connection
// before the request arrived, but not after, and not before the gap between two requests has
// passed, nor while the endpoint wants no requests, as it may have answered to another one meanwhile.
type resendGuard struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *timer
	within  time.Duration
	gate    *requestLimiter
	allowed func() bool // nil: always
	rests   func() bool // the endpoint wants no requests now
	trace   httptrace.ClientTrace

	mu   sync.Mutex
	more bool      // a request of this execution has had a connection
	sent time.Time // when the unanswered request got its connection
	want time.Time // when the request last began to wait for a connection
}

// guardResend returns a guard for one execution. Call cancel at its end.
func (c *Client) guardResend(t *timer) *resendGuard {
	o := &resendGuard{timer: t, within: c.resendWithin, gate: c.gate, allowed: c.allowed, rests: c.health.rests}
	o.ctx, o.cancel = context.WithCancelCause(t.ctx)
	o.trace.GetConn, o.trace.GotConn, o.trace.GotFirstResponseByte = o.look, o.connected, o.noteAnswer
	o.ctx = httptrace.WithClientTrace(o.ctx, &o.trace)
	return o
}

func (o *resendGuard) look(string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.want = time.Now()
}

func (o *resendGuard) noteAnswer() { o.mark(time.Time{}) }

// begun records that a request has a connection, and returns whether it is not the first one.
func (o *resendGuard) begun() (more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	more, o.more = o.more, true
	return more
}

// mark returns how long the previous request was unanswered, and whether there
// was one.
func (o *resendGuard) mark(t time.Time) (silent time.Duration, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, end := o.sent, o.want
	if o.sent = t; before.IsZero() {
		return 0, false
	}
	if end.Before(before) {
		end = t
	}
	return end.Sub(before), true
}

// connected is called before anything is sent on a connection.
func (o *resendGuard) connected(info httptrace.GotConnInfo) {
	silent, again := o.mark(time.Now())
	if o.begun() {
		why := errRests
		if again {
			why = errNotResent
		}
		if again && silent > o.within {
			o.refuse(why, info)
			return
		}
		if err := o.timer.pause(o.ctx, o.gate.again); err != nil {
			o.refuse(err, info)
			return
		}
		if o.rests() {
			o.refuse(why, info)
			return
		}
		o.mark(time.Now())
	}
	// The process may have been stopped for long since the execution began.
	if o.allowed == nil || o.allowed() {
		return
	}
	if again {
		o.refuse(errNotResent, info)
	} else {
		o.refuse(errNotAllowed, info)
	}
}

// refuse ends a request before it is sent on a connection.
func (o *resendGuard) refuse(why error, info httptrace.GotConnInfo) {
	o.cancel(why)
	// HTTP/2 checks the context before it sends, HTTP/1 does not.
	if t, ok := info.Conn.(*tls.Conn); !ok || t.ConnectionState().NegotiatedProtocol != "h2" {
		info.Conn.Close()
	}
}

// failed returns why a request has no answer.
func (o *resendGuard) failed(err error) error {
	if cause := context.Cause(o.ctx); err != nil && (cause == errNotResent || cause == errNotAllowed || cause == errRests) {
		return cause
	}
	return err
}
