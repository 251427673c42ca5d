package endpoint

import (
	"context"
	"crypto/tls"
	"io"
	"net/http/httptrace"
	"sync"
	"time"
)

// resendWithin is how soon a kept connection that turns out closed does so. Where it
// takes longer, the endpoint, or one behind a proxy, may have worked on the
// request, and may do so still.
const resendWithin = time.Second

// errNotResent is the end of a request that is not sent again.
var errNotResent = io.ErrUnexpectedEOF

// resendGuard keeps net/http from making two executions of one: it sends a request again
// by itself when a kept connection ends without an answer. That is as it should be
// when the server had closed the connection meanwhile, but not after the request
// was there for a while, and not before the gap between two requests has passed.
type resendGuard struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	within time.Duration
	gap    time.Duration

	mu   sync.Mutex
	sent time.Time // when the request that has no answer yet got its connection
	want time.Time // when it last began to look for one, which may take long
}

// guardResend is for one execution; cancel is to be called at its end.
func (c *Client) guardResend(parent context.Context) *resendGuard {
	o := &resendGuard{within: c.resendWithin, gap: c.gate.gap}
	o.ctx, o.cancel = context.WithCancelCause(parent)
	o.ctx = httptrace.WithClientTrace(o.ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { o.look(time.Now()) },
		GotConn:              o.connected,
		GotFirstResponseByte: func() { o.mark(time.Time{}) },
	})
	return o
}

func (o *resendGuard) look(t time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.want = t
}

// mark returns for how long the request before was without an answer, and
// whether there was one.
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
	if !again {
		return
	}
	if silent <= o.within && sleep(o.ctx, o.gap) == nil {
		o.mark(time.Now())
		return
	}
	o.cancel(errNotResent)
	// HTTP/2 looks at the context before it sends, HTTP/1 does not.
	if t, ok := info.Conn.(*tls.Conn); !ok || t.ConnectionState().NegotiatedProtocol != "h2" {
		info.Conn.Close()
	}
}

// failed is why a request has no answer.
func (o *resendGuard) failed(err error) error {
	if err != nil && context.Cause(o.ctx) == errNotResent {
		return errNotResent
	}
	return err
}
