package live

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A liveConn is a connection that speaks freshet.v1. Each subscription is a goroutine that ranges
// over its stream.
type liveConn struct {
	*Conn
	running sync.WaitGroup // the subscriptions

	mu    sync.Mutex // guards what follows
	login login
	due   time.Time // when init is due, and then a subscription of a client without a token
	subs  map[string]*subscription
}

// Take implements Protocol.
func (c *liveConn) Take(frame []byte) error {
	r, err := parseRequest(frame)
	if r.Type != "ack" {
		if err := c.Allow(); err != nil {
			return err
		}
	}
	c.out.Enter()
	defer c.out.Leave()
	return c.report(c.handle(r, err))
}

// Beat implements Protocol.
func (c *liveConn) Beat(now time.Time, check bool) (next time.Time, err error) {
	c.mu.Lock()
	l, due := c.login, c.due
	c.mu.Unlock()
	switch {
	case !l.ready && !now.Before(due):
		return next, &closing{CloseInitTimeout, "no init in time"}
	case l.expired(now):
		return next, &closing{CloseExpired, "token expired"}
	case !l.ready:
		return due, nil
	case check:
		if err = l.check(c.srv); err == nil {
			err = c.inspect(l.caller)
		}
	}
	if err == nil && !l.caller.MayRead(nil) {
		return c.idle(now)
	}
	return l.expiry, err
}

// idle returns when the connection of a client without a token ends, if it follows nothing.
func (c *liveConn) idle(now time.Time) (end time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subs) > 0 {
		return end, nil
	}
	if !now.Before(c.due) {
		return end, &closing{CloseIdle, "nothing is followed"}
	}
	return c.due, nil
}

// inspect ends the subscriptions that the caller may not have any more.
func (c *liveConn) inspect(caller registry.Caller) error {
	c.mu.Lock()
	c.login.caller = caller
	var subs []*subscription
	if !caller.MayRead(nil) {
		subs = slices.Collect(maps.Values(c.subs))
	}
	c.mu.Unlock()
	for _, sub := range subs {
		err := noProfile()
		if sub.form != "" {
			_, err = c.srv.find(caller, sub.follows)
		}
		var ends *refusal
		switch {
		case errors.As(err, &ends):
			sub.cancel(ends)
		case err != nil:
			return err
		}
	}
	return nil
}

// Wait implements Protocol.
func (c *liveConn) Wait() { c.running.Wait() }

// report sends a refusal to the client as a message. It returns any other error,
// which ends the connection.
func (c *liveConn) report(err error) error {
	var r *refusal
	if err == nil || !errors.As(err, &r) {
		return err
	}
	fields := []field{member("id", r.id), member("code", r.code), member("message", r.message)}
	if r.retryAfter > 0 {
		fields = append(fields, member("retry_after", registry.Duration(r.retryAfter)))
	}
	c.out.add(frame("error", fields...))
	return nil
}

// who returns the login as of the last check.
func (c *liveConn) who() login {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login
}

// handle handles one message of the client, with the error of reading it.
func (c *liveConn) handle(r request, err error) error {
	switch {
	case errors.As(err, new(*closing)):
		return err
	case r.Type == "init":
		return c.init(r, err)
	case !c.who().ready:
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
		c.out.Leave() // it waits for the beginning, which may have to write, and for other nodes of a cluster
		defer c.out.Enter()
		return c.subscribe(r)
	case "unsubscribe":
		return c.unsubscribe(r.ID)
	case "ack":
		return c.ack(r)
	case "ping":
		var payload any
		if r.Payload != nil {
			payload = r.Payload
		}
		c.out.add(frame("pong", member("payload", payload)))
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
		l.token, l.sent = r.Token, true
	}
	if err := l.check(c.srv); err != nil {
		return err
	}
	l.client, l.ready, l.expiry = notify.Shortened(r.Client), true, l.caller.Expires
	o := c.srv.opts
	c.mu.Lock()
	c.login, c.due = l, time.Now().Add(o.Timing.Idle)
	c.mu.Unlock()
	most := min(mostStranger, o.Limits.Message)
	if l.caller.MayRead(nil) {
		most = o.Limits.Message
		c.Unbound()
	}
	c.Recheck() // the token may expire before the next heartbeat
	c.out.add(frame("ready",
		member("session", rand.Text()),
		member("limits", map[string]int64{
			"message": most, "subscriptions": int64(o.Limits.Subscriptions),
			"window": int64(o.Limits.Window), "change": max(0, o.Limits.Change),
		}),
		member("ping", registry.Duration(o.Timing.Ping))))
	return nil
}

// find finds a query by its id or name. A caller without the role read finds only public ones, and is not told whether there are
// others.
func (s *Server) find(caller registry.Caller, ref string) (registry.Query, error) {
	q, err := s.opts.Registrar.Resolve(caller, ref)
	missing := errors.Is(err, registry.ErrNotFound)
	switch {
	case !caller.MayRead(nil) && (missing || err == nil && !caller.MayRead(&q)):
		return q, &refusal{code: CodeNotAllowed, message: "no public query has this id or name: others need a token"}
	case missing:
		return q, &refusal{code: CodeUnknownQuery, message: "no query has this id or name"}
	}
	if r := ambiguous(err); r != nil {
		return q, r
	}
	return q, s.unavailable("resolve a query", err)
}

func noProfile() error {
	return &refusal{code: CodeNotAllowed, message: "following a profile needs a token with the role read"}
}

// resolve finds or registers the query that a subscription follows. The returned
// function releases it. A subscription of a caller without the role read counts as a connection of its address, as an event
// stream does.
func (c *liveConn) resolve(caller registry.Caller, t target) (registry.Query, func(), error) {
	s := c.srv
	if t.ref != "" {
		q, err := s.find(caller, t.ref)
		if err != nil || caller.MayRead(nil) {
			return q, func() {}, err
		}
		release, refused := c.place.Another()
		if refused != "" {
			err = tooMany(refused)
		}
		return q, release, err
	}
	if !caller.MayRegister() {
		return registry.Query{}, nil, &refusal{code: CodeNotAllowed, message: "registering a query needs the role app"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timing.Write)
	defer cancel()
	q, release, err := s.opts.Registrar.Follow(ctx, caller, t.Endpoint, t.SPARQL)
	switch {
	case errors.Is(err, notify.ErrRefused):
		return q, nil, &refusal{code: CodeBadParams, message: err.Error()}
	case errors.Is(err, notify.ErrLimit):
		return q, nil, tooMany(err.Error())
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
		return tooMany("too many subscriptions on this connection")
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
	q, release, err := c.resolve(c.who().caller, t)
	if err != nil {
		return err
	}
	if err := o.Filter.Fits(&q); err != nil {
		release()
		return badParams("%v", err)
	}
	sub := &subscription{c: c, id: r.ID, follows: q.ID, endpoint: q.Endpoint, form: q.Form, ordered: q.Ordered, release: release, options: o}
	sub.follow = sub.followQuery
	return sub.open(registry.Subscription{Query: q.ID}, "the query ended")
}

func (c *liveConn) named(id string) (*subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sub := c.subs[id]; sub != nil {
		return sub, nil
	}
	return nil, &refusal{code: CodeUnknownID, message: "no such subscription"}
}

func (c *liveConn) unsubscribe(id string) error {
	sub, err := c.named(id)
	if err != nil {
		return err
	}
	sub.cancel(errUnsubscribed)
	c.out.Leave() // it may have to write
	<-sub.gone
	c.out.Enter()
	return nil
}

func (c *liveConn) ack(r request) error {
	sub, err := c.named(r.ID)
	if err != nil {
		return err
	}
	if r.Seq == nil {
		return badParams("ack needs seq")
	}
	sub.ack(*r.Seq)
	return nil
}
