package sepa

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/registry"
)

// A Registrar registers what clients subscribe to.
type Registrar interface {
	// FollowGraphs registers a query for a live subscription, as notify.Registrar.Follow
	// does, with a dataset that the client chooses.
	FollowGraphs(ctx context.Context, caller registry.Caller, reg registry.Registration) (registry.Query, func(), error)
}

// A Server is the handler of /sepa/subscribe.
type Server struct {
	Hub       *notify.Server // whose streams are used
	Live      *live.Server   // whose connections are used
	Registrar Registrar
	Gate      notify.Gate
	Logger    *slog.Logger
	Status    func(registry.Kind) int // the HTTP status of a problem
	Limit     int                     // subscriptions of one connection, default 100
}

// ServeHTTP upgrades a client's connection and serves it in the background.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	filter, rate, err := cursor.ParseParams(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := &client{s: s, header: notify.Bearer(r), from: registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"]),
		program: notify.Program(r), subs: map[string]*subscription{}, idleSince: time.Now(),
		options: notify.StreamOptions{Filter: filter, Rate: rate}}
	_, err = s.Gate.Authenticate(c.from, c.header)
	s.Live.Accept(w, r, registry.SEPA, "", func(conn *live.Conn) live.Protocol {
		if c.conn = conn; err != nil {
			conn.Bound(mostUnknown)
		}
		return c
	})
}

// mostUnknown bounds messages until a valid token has come, in bytes: strangers do not make the server hold more. The
// message that brings the token has a query, too.
const mostUnknown = 64 << 10

func (s *Server) limit() int { return cmp.Or(s.Limit, 100) }

func (s *Server) idle() time.Duration { return s.Hub.Options().Timing.Idle }

// A client is one connection. Each subscription has a goroutine, which holds a cursor
// and blocks while the client reads slowly.
type client struct {
	s       *Server
	conn    *live.Conn
	header  string // the token of the upgrade request
	from    string // where it came from
	program string // what it says that it is
	options notify.StreamOptions

	mu        sync.Mutex
	over      bool // no further subscription may start
	subs      map[string]*subscription
	idleSince time.Time // since when there are none
	active    sync.WaitGroup
}

// A subscription follows one query.
type subscription struct {
	c       *client
	spuid   string
	alias   string
	token   string
	caller  string // its name
	query   registry.Query
	cancel  context.CancelFunc
	release func()
	lags    uint64 // slow writes seen so far

	sending sync.Mutex
	next    uint64 // sequence of the next notification
}

// Beat implements live.Protocol.
func (c *client) Beat(now time.Time, check bool) (next time.Time, err error) {
	if check {
		c.inspect()
	}
	left := c.idleLeft()
	if left <= 0 {
		return next, live.Close(live.CloseInitTimeout, "nothing is subscribed to")
	}
	return now.Add(left), nil
}

// idleLeft returns how long the connection may stay without a subscription.
func (c *client) idleLeft() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subs) > 0 {
		return c.s.idle()
	}
	return time.Until(c.idleSince.Add(c.s.idle()))
}

// Wait implements live.Protocol. It ends the subscriptions.
func (c *client) Wait() {
	c.mu.Lock()
	c.over = true
	for _, s := range c.subs {
		s.cancel()
	}
	c.mu.Unlock()
	c.active.Wait()
}

// inspect ends subscriptions whose token is no longer valid, or no longer enough.
func (c *client) inspect() {
	c.mu.Lock()
	subs := make([]*subscription, 0, len(c.subs))
	for _, s := range c.subs {
		subs = append(subs, s)
	}
	c.mu.Unlock()
	for _, s := range subs {
		if _, err := c.caller(s.token); errors.Is(err, registry.ErrUnauthorized) || errors.As(err, new(*refusal)) {
			s.end(err) // other errors are the server's
		}
	}
}

// Take implements live.Protocol.
func (c *client) Take(frame []byte) error {
	if err := c.conn.Allow(); err != nil {
		return err
	}
	r, err := parse(frame)
	alias := ""
	if r.Subscribe != nil {
		alias = r.Subscribe.Alias
	}
	switch {
	case err != nil:
	case r.Subscribe != nil:
		err = c.subscribe(r.Subscribe)
	default:
		if alias, err = c.unsubscribe(r.Unsubscribe); alias == "" && len(r.Unsubscribe.Alias) <= maxAlias {
			alias = r.Unsubscribe.Alias
		}
	}
	if err == nil {
		return nil
	}
	why, known := c.s.asRefusal(err)
	if !known {
		c.s.Logger.Error("answer a SEPA client", "error", err)
	}
	return c.conn.Write(why.message(alias))
}

// caller returns the current caller of a token.
func (c *client) caller(token string) (registry.Caller, error) {
	from := c.from
	if c.knows(token) { // whether it is still valid is no guess
		from = ""
	}
	who, err := c.s.Gate.Authenticate(from, token)
	if err == nil && !who.MayRegister() {
		err = refuse(http.StatusForbidden, "forbidden", "subscribing registers the query, which needs the role app")
	}
	return who, err
}

// knows reports whether a subscription has a token.
func (c *client) knows(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs {
		if s.token == token {
			return true
		}
	}
	return false
}

// token returns the token of a message, or else that of the connection.
func (c *client) token(authorization string) (string, error) {
	if authorization == "" {
		return c.header, nil
	}
	scheme, token, ok := strings.Cut(strings.TrimSpace(authorization), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return "", refuse(http.StatusUnauthorized, "unauthorized", "authorization has the form \"Bearer …\"")
	}
	return strings.TrimSpace(token), nil
}

func (c *client) subscribe(r *subscribe) error {
	token, err := c.token(r.Authorization)
	if err != nil {
		return err
	}
	who, err := c.caller(token)
	if err != nil {
		return err
	}
	if !c.room() {
		return refuse(http.StatusTooManyRequests, "limit", "too many subscriptions on this connection")
	}
	soon, cancel := context.WithTimeout(c.conn.Context(), 10*time.Second)
	defer cancel()
	q, release, err := c.s.Registrar.FollowGraphs(soon, who, registry.Registration{
		Text: r.SPARQL, DefaultGraphURI: r.DefaultGraphs, NamedGraphURI: r.NamedGraphs})
	if err != nil {
		return err
	}
	if err := c.options.Filter.Fits(&q); err != nil {
		release()
		return refuse(http.StatusUnprocessableEntity, "bad_filter", err.Error())
	}
	if err := c.s.Live.Confirm(); err != nil {
		release()
		return err
	}
	sub := &subscription{c: c, spuid: "sepa://subscription/" + rand.Text(), alias: r.Alias, token: token, caller: who.Name, query: q,
		release: release, lags: c.conn.Lags()}
	c.conn.Unbound()
	if !c.start(sub, who.Expires) {
		release()
	}
	return nil
}

func (c *client) room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.subs) < c.s.limit()
}

// start runs a subscription, unless the connection is over.
func (c *client) start(sub *subscription, expires time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	if expires.IsZero() {
		expires = time.Now().AddDate(100, 0, 0)
	}
	ctx, cancel := context.WithDeadline(c.conn.Context(), expires)
	sub.cancel = cancel
	c.subs[sub.spuid] = sub
	c.active.Go(func() {
		defer cancel()
		sub.run(ctx)
	})
	return true
}

// remove removes sub and reports whether it was present.
func (c *client) remove(sub *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.subs[sub.spuid]
	delete(c.subs, sub.spuid)
	if there && len(c.subs) == 0 {
		c.idleSince = time.Now()
	}
	return there
}

func (c *client) has(sub *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subs[sub.spuid] == sub
}

// unsubscribe ends a subscription of this connection. A token in the message must be
// valid.
func (c *client) unsubscribe(r *unsubscribe) (alias string, err error) {
	token, err := c.token(r.Authorization)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	sub := c.subs[r.SPUID]
	c.mu.Unlock()
	if sub == nil {
		return "", refuse(http.StatusNotFound, "not_found", "no subscription of this connection has this spuid")
	}
	if r.Authorization != "" {
		if _, err := c.caller(token); err != nil {
			return sub.alias, err
		}
	}
	return sub.alias, sub.end(nil)
}

// end ends a subscription and reports the reason to the client, once.
func (s *subscription) end(why error) error {
	if !s.c.remove(s) {
		return nil
	}
	s.cancel()
	s.sending.Lock() // nothing of the subscription comes after its end
	defer s.sending.Unlock()
	if why != nil {
		r, known := s.c.s.asRefusal(why)
		if !known {
			s.c.s.Logger.Error("follow a query for a SEPA client", "query", s.query.ID, "error", why)
		}
		if err := s.c.conn.Write(r.message(s.alias)); err != nil {
			return err
		}
	}
	return s.c.conn.Write(unsubscribed(s.spuid))
}

// run follows the query until the subscription ends.
func (s *subscription) run(ctx context.Context) {
	defer s.release()
	defer s.c.remove(s)
	opts := s.c.options
	opts.Lagging = s.lagging
	opts.As = &registry.Subscription{Way: registry.SEPA, Caller: s.caller, Name: s.alias, Client: s.c.program, Remote: s.c.from}
	err := s.c.s.Hub.Follow(ctx, s.query.ID, &opts, s.event)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = registry.ErrUnauthorized
	}
	if err != nil && s.c.conn.Context().Err() == nil {
		s.end(err)
	}
}

func (s *subscription) lagging() bool {
	now := s.c.conn.Lags()
	late := now != s.lags
	s.lags = now
	return late
}

func (s *subscription) event(ev *notify.StreamEvent) error {
	switch ev.Kind {
	case notify.StreamGap:
		return &registry.GapError{Reason: ev.Reason}
	case notify.StreamSnapshot:
		if ev.Result == nil {
			return nil
		}
		if s.next > 0 { // the changes in between do not add up
			return &registry.GapError{Reason: registry.OtherEpoch}
		}
		return s.sendEvent(ev, snapshotBody)
	case notify.StreamChange:
		return s.sendEvent(ev, func(c *notify.StreamContent) []byte { return changeBody(c.Change.Delta) })
	}
	return nil
}

// sendEvent sends an event. It releases the content before it waits for the client.
func (s *subscription) sendEvent(ev *notify.StreamEvent, write func(*notify.StreamContent) []byte) error {
	doc, err := s.c.s.Hub.OpenEvent(s.query.ID, "sepa", ev, write)
	if err != nil || doc.Size() == 0 {
		return err
	}
	ev.Release()
	return s.notify(doc)
}

func snapshotBody(c *notify.StreamContent) []byte {
	form := c.Result.Form()
	if form == diff.Ask {
		return notificationBody(boolean(c.Result.Boolean()), emptyResults(form, nil))
	}
	vars, rows := c.Rows()
	return notificationBody(results(form, vars, rows), emptyResults(form, vars))
}

// notify sends the next notification, unless the subscription has been ended
// meanwhile.
func (s *subscription) notify(results *notify.Document) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if !s.c.has(s) {
		return context.Canceled
	}
	n := notification{SPUID: s.spuid, Alias: s.alias, Sequence: s.next}
	s.next++
	return s.c.conn.WriteDocument(n.head(), results, endOfNotification)
}
