package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A Conn is a WebSocket connection. One goroutine reads what the client sends. Any goroutine adds
// messages, and the last one to do so writes them together.
type Conn struct {
	srv      *Server
	ws       *websocket.Conn
	wire     *wire
	out      gathering
	protocol Protocol
	limiter  *rate.Limiter
	place    *notify.Place

	ctx    context.Context // ends with the connection, its cause is why
	cancel context.CancelCauseFunc
	read   chan struct{} // closed when nothing more is read

	mu       sync.Mutex // guards what follows
	timer    *time.Timer
	nextPing time.Time
	recheck  bool // tokens have changed
}

// A Protocol is what is spoken over a connection. An error made by Close ends the connection with
// that code, and any other error without a close frame.
type Protocol interface {
	// Take handles a message of the client. Nothing more is read until it returns.
	Take(frame []byte) error
	// Beat handles what is due now. It also checks the tokens, if check is set. It returns when
	// something is due next, zero for nothing.
	Beat(now time.Time, check bool) (next time.Time, err error)
	// Wait waits until nothing more is sent, after the end of the context.
	Wait()
}

// errGone reports that the connection is broken, so no close frame can be sent.
var errGone = errors.New("connection is gone")

// Close is the error that ends a connection with a code and a reason.
func Close(code int, reason string) error { return &closing{code, reason} }

// Accept upgrades a request and serves the connection in the background, so that nothing of the
// HTTP server stays behind for it. A client has to offer the subprotocol, unless it is "". speak
// copies what it needs of the request. way is the protocol that the connection is counted under.
func (s *Server) Accept(w http.ResponseWriter, r *http.Request, way registry.Way, subprotocol string, speak func(*Conn) Protocol) {
	place, ok := s.hub.Connect(w, r, way)
	if !ok {
		return
	}
	up := s.up
	if subprotocol != "" {
		up.Subprotocols = []string{subprotocol}
	}
	h := &hijacker{ResponseWriter: w, timing: &s.opts.Timing, onSlow: place.Slow}
	ws, err := up.Upgrade(h, r, nil)
	if err != nil {
		place.Leave()
		return // the upgrader has answered
	}
	c := &Conn{srv: s, ws: ws, wire: h.wire, read: make(chan struct{}), place: place,
		limiter: rate.NewLimiter(rate.Limit(s.opts.Limits.Rate), s.opts.Limits.Burst)}
	c.Unbound()
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	context.AfterFunc(c.ctx, c.finish)
	c.out = gathering{wire: c.wire, ctx: c.ctx, pool: &s.buffers, fail: c.cancel}
	c.protocol = speak(c)
	go c.serve(s.rejection(r, ws.Subprotocol() == subprotocol, subprotocol, place.Refused))
}

// rejection returns why a connection is closed as soon as it is open, nil if it may stay.
func (s *Server) rejection(r *http.Request, offered bool, subprotocol, refused string) error {
	switch {
	case !s.originAllowed(r):
		return Close(CloseForbidden, originRefused)
	case !offered:
		return Close(CloseSubprotocol, "offer the subprotocol "+subprotocol)
	case refused != "":
		return Close(CloseFull, refused)
	}
	return nil
}

// originRefused names the setting, because browser developers meet this error first.
const originRefused = `origin not allowed: add it to the server's setting "origins", or serve the page from the server's own`

// originAllowed reports whether a request's origin may connect: the server's own, one
// of notify.Options.Origins, or none, as of programs that are not browsers.
func (s *Server) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return slices.Contains(s.opts.Origins, origin) // "null", if it is listed
	}
	own, _ := url.Parse(s.opts.PublicURL)
	return strings.EqualFold(u.Host, r.Host) ||
		own != nil && strings.EqualFold(u.Host, own.Host) && strings.EqualFold(u.Scheme, own.Scheme) ||
		slices.ContainsFunc(s.opts.Origins, func(o string) bool { return strings.EqualFold(strings.TrimSuffix(o, "/"), origin) })
}

func (c *Conn) serve(rejection error) {
	c.watchReads()
	c.mu.Lock()
	c.nextPing = time.Now().Add(c.srv.opts.Timing.Ping)
	c.timer = time.AfterFunc(0, c.beat)
	c.mu.Unlock()
	c.place.Join(c)
	err := rejection
	for err == nil {
		c.wire.alive()
		if err = c.wire.await(); err == nil {
			err = c.receive()
		} else {
			err = readError(err)
		}
	}
	c.cancel(err)
	io.Copy(io.Discard, c.wire) // what the client still sends
	close(c.read)
}

// receive handles one message. Its error ends the connection.
func (c *Conn) receive() error {
	frame, err := readFrame(c.ws)
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err != nil {
		return err
	}
	return c.protocol.Take(frame)
}

// Context returns the context of the connection. Its cause is why it has ended.
func (c *Conn) Context() context.Context { return c.ctx }

// Allow counts a message of the client. It returns an error if there are too many.
func (c *Conn) Allow() error {
	if c.limiter.Allow() {
		return nil
	}
	return Close(CloseRate, "too many messages")
}

// Write sends one frame. After an error the connection ends.
func (c *Conn) Write(frame []byte) error {
	c.out.Enter()
	c.out.add(frame)
	c.out.Leave()
	return context.Cause(c.ctx)
}

// WriteDocument sends one frame with a large middle. The caller must not hold large values, because
// it may wait for the client.
func (c *Conn) WriteDocument(before []byte, doc *notify.Document, after []byte) error {
	if err := c.out.document(before, doc, after, nil); err != nil {
		c.cancel(err)
	}
	return context.Cause(c.ctx)
}

// Lags returns the number of slow writes so far. If it grows, the client has fallen behind.
func (c *Conn) Lags() uint64 { return c.wire.lags.Load() }

// beat handles what is due, and sets the timer.
func (c *Conn) beat() {
	now := time.Now()
	c.mu.Lock()
	ping := !now.Before(c.nextPing)
	if ping {
		c.nextPing = now.Add(c.srv.opts.Timing.Ping)
	}
	check := c.recheck || ping // a token may have been withdrawn
	c.recheck = false
	c.mu.Unlock()
	next, err := c.protocol.Beat(now, check)
	if err != nil {
		c.cancel(err)
		return
	}
	if ping && c.ctx.Err() == nil {
		c.out.Enter()
		c.out.frame(websocket.PingMessage)
		c.out.Leave()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		return
	case c.recheck: // since the check
		next = now
	case next.IsZero() || c.nextPing.Before(next):
		next = c.nextPing
	}
	c.timer.Reset(time.Until(next))
}

// Recheck implements notify.Connection. It makes Beat be called soon, with a check of the tokens.
func (c *Conn) Recheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recheck = true
	c.timer.Reset(0)
}

// Drain implements notify.Connection.
func (c *Conn) Drain() { c.cancel(Close(CloseDraining, "server is going down")) }

// Cut implements notify.Connection.
func (c *Conn) Cut() { c.wire.Close() }

// finish sends a close frame after what was gathered, if there is one to send, and gives the client time to
// read it before it closes the connection. Closing at once could reset the connection and discard what the
// client has not read yet.
func (c *Conn) finish() {
	end, t := context.Cause(c.ctx), c.srv.opts.Timing
	c.mu.Lock()
	c.timer.Stop()
	c.mu.Unlock()
	if why, ok := errors.AsType[*closing](end); ok {
		c.protocol.Wait()
		c.out.flush()
		msg := websocket.FormatCloseMessage(why.code, why.reason)
		if c.ws.WriteControl(websocket.CloseMessage, msg, time.Now().Add(t.Write)) == nil {
			select {
			case <-c.read:
			case <-time.After(t.Close):
			}
		}
	}
	c.ws.Close()
	<-c.read
	c.protocol.Wait()
	c.srv.opts.Logger.Debug("connection closed", "reason", end)
	c.place.Leave()
}

// Bound limits the size of a message, at most to Limits.Message. It is called before the connection is served, or while
// Take runs.
func (c *Conn) Bound(most int64) {
	most = min(most, c.srv.opts.Limits.Message)
	c.ws.SetReadLimit(most)
	c.wire.most = 2 * most
}

// Unbound allows messages of up to Limits.Message.
func (c *Conn) Unbound() { c.Bound(c.srv.opts.Limits.Message) }

// watchReads extends the time without input. A close frame of the
// client is answered by finish.
func (c *Conn) watchReads() {
	c.ws.SetCloseHandler(func(int, string) error { return nil })
	c.ws.SetPongHandler(func(string) error { return c.control() })
	answer := c.ws.PingHandler()
	c.ws.SetPingHandler(func(data string) error {
		if err := c.control(); err != nil {
			return err
		}
		return answer(data)
	})
}

// control counts a control frame of the client as a message.
func (c *Conn) control() error {
	c.wire.alive()
	return c.Allow()
}

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
	var closed *websocket.CloseError
	switch {
	case errors.As(err, new(*closing)):
		return err
	case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		return &closing{closed.Code, ""} // echo the client's code
	case errors.Is(err, websocket.ErrReadLimit):
		return &closing{websocket.CloseMessageTooBig, "message too large"}
	case errors.Is(err, errFrames):
		return &closing{CloseRate, "too many frames"}
	}
	return fmt.Errorf("%w: %w", errGone, err)
}
