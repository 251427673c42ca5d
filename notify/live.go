package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/registry"
)

// A liveConn is one WebSocket connection. One goroutine reads what the client sends and
// answers. Each subscription is a goroutine that ranges over its stream. They add what they
// have to write to the gathering, which writes.
type liveConn struct {
	srv  *Server
	conn *websocket.Conn
	wire *wire
	out  gathering
	gone func() // called at the end

	limiter *rate.Limiter
	ctx     context.Context // ends with the connection, its cause is why
	cancel  context.CancelCauseFunc
	over    sync.Once
	read    chan struct{}  // closed when nothing more is read
	running sync.WaitGroup // the subscriptions

	mu       sync.Mutex // guards what follows
	login    login
	subs     map[string]*subscription
	timer    *time.Timer // calls beat
	initDue  time.Time   // init is due
	nextBeat time.Time   // the next heartbeat
	changed  atomic.Bool // tokens have changed
}

// ServeHTTP upgrades a request and serves the connection in the background, so that
// nothing of the HTTP server stays behind for it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.upgrade(w, r, &s.up, registry.WebSocket, func(conn *websocket.Conn, wire *wire, at admission) func(func()) {
		c := &liveConn{srv: s, conn: conn, wire: wire, read: make(chan struct{}), subs: make(map[string]*subscription),
			login: login{from: registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"]), token: s.opts.Credential(r)}}
		c.ctx, c.cancel = context.WithCancelCause(context.Background())
		c.out = gathering{wire: wire, ctx: c.ctx, pool: &s.buffers, fail: c.end}
		rejection := s.rejection(r, conn, at)
		return func(gone func()) { c.serve(rejection, gone) }
	})
}

// rejection returns why a connection is closed as soon as it is open, nil if it may
// stay.
func (s *Server) rejection(r *http.Request, conn *websocket.Conn, at admission) error {
	switch {
	case !s.originAllowed(r):
		return &closing{CloseForbidden, originRefused}
	case conn.Subprotocol() != Subprotocol:
		return &closing{CloseSubprotocol, "offer the subprotocol " + Subprotocol}
	case at.refused != "":
		return &closing{CloseTooMany, at.refused}
	}
	return nil
}

func (c *liveConn) serve(rejection error, gone func()) {
	c.gone = gone
	watchReads(c.conn, c.wire, c.srv.opts.Limits)
	c.conn.SetCloseHandler(func(int, string) error { return nil }) // finish answers
	t, now := c.srv.opts.Timing, time.Now()
	c.mu.Lock()
	c.initDue, c.nextBeat = now.Add(t.Init), now.Add(t.Ping)
	c.timer = time.AfterFunc(min(t.Init, t.Ping), c.beat)
	c.mu.Unlock()
	c.srv.register(c, true)
	c.limiter = rate.NewLimiter(rate.Limit(c.srv.opts.Limits.Rate), c.srv.opts.Limits.Burst)
	c.wire.limiter = c.limiter
	if rejection != nil {
		c.close(rejection)
		return
	}
	c.await()
}

// await waits for input and hands over to another goroutine: this one's stack stays as small
// as stacks begin, and one that has grown is not kept.
func (c *liveConn) await() {
	c.wire.alive() // answering may have taken long
	err := c.wire.await()
	go c.receive(err)
}

// receive handles what the client has sent, and goes back to waiting for more.
func (c *liveConn) receive(err error) {
	if err != nil {
		err = readError(err)
	}
	for err == nil {
		if c.wire.pongs() {
			go c.await()
			return
		}
		err = c.message()
	}
	c.close(err)
}

// close ends the connection, and discards what the client still sends.
func (c *liveConn) close(err error) {
	c.end(err)
	io.Copy(io.Discard, c.wire)
	close(c.read)
}

// message handles one message. Its error ends the connection.
func (c *liveConn) message() error {
	c.wire.alive()
	frame, err := readFrame(c.conn)
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		return &closing{closed.Code, ""} // echo the client's code
	}
	if err != nil {
		return err
	}
	r, err := parseRequest(frame)
	if r.Type != "ack" && !c.limiter.AllowN(time.Now(), 1) {
		return &closing{CloseRate, "too many messages"}
	}
	c.out.enter()
	defer c.out.leave()
	return c.report(c.handle(r, err))
}

// report sends a refusal to the client as a message. It returns any other error,
// which ends the connection.
func (c *liveConn) report(err error) error {
	var r *refusal
	if err == nil || !errors.As(err, &r) {
		return err
	}
	fields := []field{{"id", r.id}, {"code", r.code}, {"message", r.message}}
	if r.retryAfter > 0 {
		fields = append(fields, field{"retry_after", registry.Duration(r.retryAfter)})
	}
	c.out.add(frame("error", fields...))
	return nil
}

// end ends the connection. It does not wait.
func (c *liveConn) end(err error) {
	c.over.Do(func() {
		c.cancel(err)
		go c.finish(err)
	})
}

// finish sends a close frame after what was collected, if there is one to send.
func (c *liveConn) finish(end error) {
	c.mu.Lock()
	c.timer.Stop()
	l := c.login
	c.mu.Unlock()
	if errors.As(end, new(*closing)) {
		c.running.Wait()
		c.out.flush()
	}
	closeGracefully(c.conn, c.read, end, c.srv.opts.Timing)
	c.running.Wait()
	c.srv.opts.Logger.Debug("live connection closed", "caller", l.caller.Name, "client", l.client, "reason", end)
	c.srv.register(c, false)
	c.gone()
}

// drain ends the connection because the server goes down.
func (c *liveConn) drain() { c.end(&closing{CloseDraining, "server is going down"}) }

// recheck makes beat check the token.
func (c *liveConn) recheck() {
	c.changed.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Reset(0)
}

// beat handles the deadlines that have passed, and sets the timer to the next one.
func (c *liveConn) beat() {
	if c.ctx.Err() != nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	ready, l := c.login.ready, c.login
	ping := !now.Before(c.nextBeat)
	if ping {
		c.nextBeat = now.Add(c.srv.opts.Timing.Ping)
	}
	c.mu.Unlock()
	var err error
	switch {
	case !ready && !now.Before(c.initDue):
		err = &closing{CloseInitTimeout, "no init in time"}
	case l.expired(now):
		err = &closing{CloseExpired, "token expired"}
	case ready && (c.changed.Swap(false) || ping): // the token may have been withdrawn
		err = l.check(c.srv)
	}
	if err != nil {
		c.end(err)
		return
	}
	if ping {
		c.out.enter()
		c.out.frame(websocket.PingMessage)
		c.out.leave()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ready {
		c.login.caller = l.caller
	}
	c.setTimer()
}

// who returns the login as of the last check.
func (c *liveConn) who() login {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login
}

// setTimer sets the timer to the earliest deadline. The caller holds mu.
func (c *liveConn) setTimer() {
	next := c.nextBeat
	if !c.login.ready && c.initDue.Before(next) {
		next = c.initDue
	}
	if e := c.login.expiry; !e.IsZero() && e.Before(next) {
		next = e
	}
	if c.login.ready && c.changed.Load() { // recheck came before this
		next = time.Time{}
	}
	if c.ctx.Err() == nil {
		c.timer.Reset(time.Until(next))
	}
}

// handle handles one message of the client, with the error of reading it.
func (c *liveConn) handle(r request, err error) error {
	var fatal *closing
	switch {
	case errors.As(err, &fatal):
		return err
	case r.Type == "init":
		return c.init(r, err)
	case !c.login.ready:
		return &closing{CloseUnauthorized, "the first message must be init"}
	}
	if err == nil {
		err = c.dispatch(r)
	}
	var refused *refusal
	if errors.As(err, &refused) && validID.MatchString(r.ID) {
		refused.id = r.ID
	}
	return err
}

func (c *liveConn) dispatch(r request) error {
	switch r.Type {
	case "subscribe":
		c.out.leave() // it waits for the beginning, which may have to write, and for other nodes of a cluster
		defer c.out.enter()
		return c.subscribe(r)
	case "unsubscribe":
		return c.unsubscribe(r.ID)
	case "ack":
		return c.ack(r)
	case "ping":
		c.out.add(frame("pong", field{"payload", rawOrNil(r.Payload)}))
		return nil
	}
	return badParams("unknown type %.64q", r.Type)
}

func (c *liveConn) init(r request, err error) error {
	l := c.who()
	if l.ready {
		return &closing{CloseTooMany, "init was sent already"}
	}
	if err != nil {
		return &closing{CloseMalformed, err.Error()}
	}
	if r.Token != "" {
		l.token = r.Token
	}
	if err := l.check(c.srv); err != nil {
		return err
	}
	l.client, l.ready, l.expiry = shortened(r.Client), true, l.caller.Expires
	c.mu.Lock()
	c.login = l
	c.setTimer()
	c.mu.Unlock()
	o := c.srv.opts
	c.out.add(frame("ready",
		field{"session", rand.Text()},
		field{"limits", map[string]int64{
			"message": o.Limits.Message, "subscriptions": int64(o.Limits.Subscriptions),
			"window": int64(o.Limits.Window), "change": max(0, o.Limits.Change),
		}},
		field{"ping", registry.Duration(o.Timing.Ping)}))
	return nil
}

// resolve finds or registers the query that a subscription follows. The returned
// function releases it.
func (s *Server) resolve(caller registry.Caller, t target) (registry.Query, func(), error) {
	reg := s.opts.Registrar
	if t.ref != "" {
		q, err := reg.Resolve(caller, t.ref)
		if errors.Is(err, registry.ErrNotFound) {
			return q, nil, &refusal{code: CodeUnknownQuery, message: "no query has this id or name"}
		}
		if r := ambiguous(err); r != nil {
			return q, nil, r
		}
		return q, func() {}, s.unavailable("resolve a query", err)
	}
	if !caller.MayRegister() {
		return registry.Query{}, nil, &refusal{code: CodeNotAllowed, message: "registering a query needs the role app"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timing.Write)
	defer cancel()
	q, release, err := reg.Follow(ctx, caller, t.Endpoint, t.SPARQL)
	switch {
	case errors.Is(err, ErrRefused):
		return q, nil, &refusal{code: CodeBadParams, message: err.Error()}
	case errors.Is(err, ErrLimit):
		return q, nil, &refusal{code: CodeLimit, message: err.Error()}
	case err != nil:
		return q, nil, s.unavailable("register a query", err)
	}
	return q, release, nil
}

// subscribe opens a subscription, and waits for its first message.
func (c *liveConn) subscribe(r request) error {
	if !validID.MatchString(r.ID) {
		return badParams("id must match [A-Za-z0-9._-]{1,64}")
	}
	c.mu.Lock()
	n, used := len(c.subs), c.subs[r.ID] != nil
	c.mu.Unlock()
	switch {
	case used:
		return &closing{CloseInUse, "subscription id in use: " + r.ID}
	case n >= c.srv.opts.Limits.Subscriptions:
		return &refusal{code: CodeLimit, message: "too many subscriptions on this connection"}
	case r.Profile != nil:
		return c.subscribeProfile(r)
	}
	o, err := r.streamOptions()
	if err != nil {
		return err
	}
	t, err := r.target()
	if err != nil {
		return err
	}
	q, release, err := c.srv.resolve(c.who().caller, t)
	if err != nil {
		return err
	}
	if err := o.Filter.Fits(&q); err != nil {
		release()
		return badParams("%v", err)
	}
	sub := &subscription{c: c, id: r.ID, follows: q.ID, endpoint: q.Endpoint, form: q.Form, ordered: q.Ordered, release: release}
	return sub.open(func() follower { return newQueryFollower(sub, o) }, "the query ended")
}

func (c *liveConn) unsubscribe(id string) error {
	c.mu.Lock()
	sub := c.subs[id]
	c.mu.Unlock()
	if sub == nil {
		return &refusal{code: CodeUnknownID, message: "no such subscription"}
	}
	sub.cancel(errUnsubscribed)
	c.out.leave() // it may have to write
	<-sub.gone
	c.out.enter()
	return nil
}

func (c *liveConn) ack(r request) error {
	c.mu.Lock()
	sub := c.subs[r.ID]
	c.mu.Unlock()
	if sub == nil {
		return &refusal{code: CodeUnknownID, message: "no such subscription"}
	}
	if r.Seq == nil {
		return badParams("ack needs seq")
	}
	sub.ack(*r.Seq)
	return nil
}
