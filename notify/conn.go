package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/registry"
)

// A Conn is a WebSocket connection with another protocol than freshet.v1. The same
// limits apply to what a client sends, to slow reading and to connections, and it
// closes with the same code when the server shuts down.
type Conn struct {
	srv  *Server
	conn *websocket.Conn
	wire *wire
	ctx  context.Context
	end  context.CancelCauseFunc

	writing sync.Mutex
	read    chan struct{} // closed when the reader ended
}

// Accept upgrades a request and serves the connection in the background. take
// receives every frame, in order and one at a time; until it returns, nothing more is
// read. serve runs concurrently until its context ends: when the client is gone, is
// too slow or breaks a rule, when take returns an error, or when the server shuts
// down. serve must then return the cause. An error made by Close ends the connection
// with that code; any other error closes it without a close frame. way is the
// protocol that the connection is counted under.
func (s *Server) Accept(w http.ResponseWriter, r *http.Request, way registry.Way, serve func(context.Context, *Conn) error, take func(context.Context, *Conn, []byte) error) {
	up := s.up
	up.Subprotocols = nil
	s.upgrade(w, r, &up, way, func(conn *websocket.Conn, wire *wire, at admission) func(func()) {
		c := &Conn{srv: s, conn: conn, wire: wire, read: make(chan struct{})}
		c.ctx, c.end = context.WithCancelCause(context.Background())
		var rejection error
		switch {
		case !s.originAllowed(r):
			rejection = Close(CloseForbidden, originRefused)
		case at.refused != "":
			rejection = Close(CloseTooMany, at.refused)
		}
		return func(gone func()) {
			defer gone()
			c.run(rejection, serve, take)
		}
	})
}

// errGone reports that the connection is broken, so no close frame can be sent.
var errGone = errors.New("connection is gone")

// Close is the error that ends a connection with a code and a reason.
func Close(code int, reason string) error { return &closing{code, reason} }

func (c *Conn) run(rejection error, serve func(context.Context, *Conn) error, take func(context.Context, *Conn, []byte) error) {
	if rejection != nil {
		take = func(context.Context, *Conn, []byte) error { return rejection }
	}
	go func() {
		defer close(c.read)
		c.end(c.receive(take))
		io.Copy(io.Discard, c.wire)
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.srv.drain:
			c.end(Close(CloseDraining, "server is going down"))
		case <-c.ctx.Done():
		}
	}()
	end := rejection
	if end == nil {
		end = serve(c.ctx, c)
	}
	c.end(end)
	<-watched
	closeGracefully(c.conn, c.read, end, c.srv.opts.Timing)
	c.srv.opts.Logger.Debug("connection closed", "reason", end)
}

// receive passes frames to take until reading or take fails.
func (c *Conn) receive(take func(context.Context, *Conn, []byte) error) error {
	lim := c.srv.opts.Limits
	watchReads(c.conn, c.wire, lim)
	limiter := rate.NewLimiter(rate.Limit(lim.Rate), lim.Burst)
	c.wire.limiter = limiter
	for {
		c.wire.alive()
		frame, err := readFrame(c.conn)
		if err != nil {
			return err
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		if !limiter.Allow() {
			return Close(CloseRate, "too many messages")
		}
		if err := take(c.ctx, c, frame); err != nil {
			return err
		}
	}
}

// Write sends one frame. It may be called concurrently. After an error the connection
// ends, and the context of serve with it.
func (c *Conn) Write(frame []byte) error { return c.WriteDocument(frame, nil, nil) }

// WriteDocument sends one frame with a large middle, unless doc is nil. The caller
// must not hold large values, because it may wait for the client.
func (c *Conn) WriteDocument(before []byte, doc *Document, after []byte) error {
	n := len(before) + len(after)
	if doc != nil {
		n += doc.Size()
	}
	frame := appendHeader(make([]byte, 0, len(before)+16), websocket.TextMessage, n)
	frame = append(frame, before...)
	if doc == nil {
		frame = append(frame, after...)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	err := c.wire.send(frame, doc, after)
	if err != nil {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	if c.wire.slow.Load() {
		err = Close(CloseSlow, "reader too slow")
	}
	if err != nil {
		c.end(err)
	}
	return err
}

// Ping sends a ping frame.
func (c *Conn) Ping() error {
	if c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.srv.opts.Timing.Write)) != nil {
		return errGone
	}
	return nil
}

// Lags returns the number of slow writes so far. If it grows, the client has fallen
// behind.
func (c *Conn) Lags() uint64 { return c.wire.lags.Load() }

// closeGracefully sends a close frame, if there is one, and gives the client time to
// read it before it closes the connection. Closing at once could reset the connection
// and discard what the client has not read yet.
func closeGracefully(conn *websocket.Conn, read <-chan struct{}, end error, t Timing) {
	var c *closing
	if errors.As(end, &c) {
		msg := websocket.FormatCloseMessage(c.code, c.reason)
		if conn.WriteControl(websocket.CloseMessage, msg, time.Now().Add(t.Write)) == nil {
			t := time.NewTimer(t.Close)
			defer t.Stop()
			select {
			case <-read:
			case <-t.C:
			}
		}
	}
	conn.Close()
	<-read
}

// watchReads limits the size of frames and the time without input. Call alive before
// each read.
func watchReads(conn *websocket.Conn, w *wire, lim Limits) {
	conn.SetReadLimit(lim.Message)
	conn.SetPongHandler(func(string) error {
		w.alive()
		return nil
	})
	answer := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		w.alive()
		return answer(data)
	})
}

// readFrame reads one text frame.
func readFrame(conn *websocket.Conn) ([]byte, error) {
	kind, body, err := conn.NextReader()
	if err != nil {
		return nil, readError(err)
	}
	if kind != websocket.TextMessage {
		return nil, &closing{websocket.CloseUnsupportedData, "text frames only"}
	}
	frame, err := io.ReadAll(body)
	if err != nil {
		return nil, readError(err)
	}
	if !utf8.Valid(frame) {
		return nil, &closing{websocket.CloseInvalidFramePayloadData, "not UTF-8"}
	}
	return frame, nil
}

// readError reports what the library has not reported to the client itself; it has
// reported messages that are too large and broken frames.
func readError(err error) error {
	if errors.Is(err, websocket.ErrReadLimit) {
		return &closing{websocket.CloseMessageTooBig, "message too large"}
	}
	if errors.Is(err, errFrames) {
		return &closing{CloseRate, "too many frames"}
	}
	return fmt.Errorf("%w: %w", errGone, err)
}
