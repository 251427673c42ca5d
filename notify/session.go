package notify

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A session is one WebSocket connection. Its receiver handles what the client
// sends; everything else (changes, heartbeats, the end) is done by the server's
// worker pool, in turns. What a session holds per subscription is a cursor, never a
// queue.
type session struct {
	srv  *Server
	gone func() // called at the end

	ctx    context.Context // ends when the client has gone
	cancel context.CancelFunc
	reader cursor.Reader // hands the goroutine off before long work
	in     receiver
	mail   mailbox[*subscription]
	due    atomic.Uint32 // what there is to do, of the due constants
	queued atomic.Bool   // is in the worker pool's queue

	mu       sync.Mutex // guards what follows; its holder works for the session, and writes
	worker   bool       // the holder belongs to the worker pool
	over     bool
	login    login
	out      output
	subs     turnQueue
	alarm    alarm
	initDue  time.Time // init is due
	nextBeat time.Time // the next heartbeat
}

// Work that may be due for a session.
const (
	dueMail  uint32 = 1 << iota // in the mailbox
	dueQueue                    // in the queue of subscriptions
	dueTime                     // the timer fired
	dueToken                    // tokens have changed
	dueDrain                    // the server goes down
)

func newSession(srv *Server, conn *websocket.Conn, w *wire, from, token string) *session {
	s := &session{srv: srv, login: login{from: from, token: token}, reader: srv.reader}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.reader.Long = func(ctx context.Context) func() {
		s.handOff()
		return srv.longFold(ctx)
	}
	s.in = receiver{session: s, conn: conn, wire: w}
	s.out = output{wire: w, pool: &srv.buffers, wait: s}
	s.subs = turnQueue{srv: srv, byID: make(map[string]*subscription)}
	return s
}

// serve starts the session; a rejection ends the connection at once.
func (s *session) serve(rejection *closing, gone func()) {
	s.gone = gone
	s.in.open(s.srv.opts.Limits)
	t, now := s.srv.opts.Timing, time.Now()
	s.mu.Lock()
	s.initDue, s.nextBeat = now.Add(t.Init), now.Add(t.Ping)
	s.alarm.set(s.nextTime(), func() { s.schedule(dueTime) })
	s.mu.Unlock()
	s.srv.register(s, true)
	if rejection != nil {
		s.take(&inbound{err: rejection})
		s.close()
		return
	}
	s.in.wire.alive()
	go s.in.wait()
}

// close releases a connection that is over, once the client has closed it or its time
// to do so has passed.
func (s *session) close() {
	io.Copy(io.Discard, s.in.wire)
	s.in.conn.Close()
	s.srv.register(s, false)
	s.gone()
}

// disconnected ends what runs on behalf of the client.
func (s *session) disconnected() { s.cancel() }

// take handles one message of the client. It returns false when the session ends.
func (s *session) take(in *inbound) bool {
	s.mu.Lock()
	if !s.over {
		s.endTurn(s.handle(in))
	}
	over := s.over
	s.mu.Unlock()
	s.reschedule()
	return !over
}

// schedule marks something as due and queues the session. It does not wait.
func (s *session) schedule(due uint32) {
	s.due.Or(due)
	s.reschedule()
}

// drain makes the session end because the server goes down.
func (s *session) drain() { s.schedule(dueDrain) }

// recheck makes the session check its token.
func (s *session) recheck() { s.schedule(dueToken) }

// reschedule queues the session if something is due. Whatever held the session's lock
// calls it after unlocking.
func (s *session) reschedule() {
	if s.due.Load() != 0 && s.queued.CompareAndSwap(false, true) {
		s.srv.workers.push(s)
	}
}

// notify records that a subscription may have something to send, and queues the
// session.
func (s *session) notify(sub *subscription) {
	s.mail.wake(sub)
	s.schedule(dueMail)
}

// enqueue gives a subscription a turn.
func (s *session) enqueue(sub *subscription) {
	s.subs.enqueue(sub)
	s.due.Or(dueQueue)
}

// work is a worker's turn with the session.
func (s *session) work() (handedOff bool) {
	s.queued.Store(false)
	if !s.mu.TryLock() {
		return false // its holder reschedules
	}
	if s.over {
		s.due.Store(0)
		s.mu.Unlock()
		return false
	}
	s.worker = true
	s.endTurn(s.runDue(s.due.Swap(0)))
	handedOff, s.worker = !s.worker, false
	s.mu.Unlock()
	s.reschedule()
	return handedOff
}

// handOff is called before the session waits for its client. The worker pool then
// continues without this goroutine.
func (s *session) handOff() {
	if s.worker {
		s.worker = false
		s.srv.workers.handOff()
	}
}

// runDue handles what is due: the server's requests first, then a share of the
// deliveries.
func (s *session) runDue(due uint32) error {
	if due&dueDrain != 0 {
		return &closing{CloseDraining, "server is going down"}
	}
	if due&dueToken != 0 && s.login.ready {
		if err := s.login.check(s.srv); err != nil {
			return err
		}
	}
	if due&dueTime != 0 {
		if err := s.report(s.runTimer(time.Now())); err != nil {
			return err
		}
	}
	for _, sub := range s.mail.drain(s.subs.enqueue) {
		if err := sub.end("dropped"); err != nil {
			return err
		}
	}
	return s.deliver()
}

// deliver gives subscriptions their turns.
func (s *session) deliver() error {
	for n := 0; len(s.subs.queue) > 0 && n < cursor.PageSize; n++ {
		more, err := s.subs.next().turn()
		if err := s.report(err); err != nil {
			return err
		}
		if err := s.out.flushFull(); err != nil {
			return err
		}
		if more {
			break // what waits for the session has its turn between the parts of a result
		}
	}
	if len(s.subs.queue) > 0 {
		s.due.Or(dueQueue)
	}
	return nil
}

// endTurn writes the collected messages, or ends the connection after an error.
func (s *session) endTurn(err error) {
	err = s.report(err)
	if err == nil {
		err = s.out.flush()
	}
	if err != nil {
		s.finish(err)
		return
	}
	if len(s.subs.holds) > 0 || s.alarm.off() { // a delivery sets no timer
		s.alarm.earlier(s.nextTime())
	}
}

// report sends a refusal to the client as a message. It returns any other error,
// which ends the connection.
func (s *session) report(err error) error {
	var r *refusal
	if err == nil || !errors.As(err, &r) {
		return err
	}
	fields := []field{{"id", r.id}, {"code", r.code}, {"message", r.message}}
	if r.retryAfter > 0 {
		fields = append(fields, field{"retry_after", registry.Duration(r.retryAfter)})
	}
	return s.out.write(frame("error", fields...))
}

// finish ends the connection with a close frame, if there is one to send. The client
// then has time to read it: closing at once could reset the connection and discard
// what the client has not read yet.
func (s *session) finish(end error) {
	s.over = true
	s.cancel()
	s.alarm.stop()
	s.handOff()
	s.subs.close()
	var c *closing
	if errors.As(end, &c) && s.out.close(s.in.conn, c, s.srv.opts.Timing.Write) {
		s.in.wire.startClosing()
	} else {
		s.in.conn.Close()
	}
	s.out.drop()
	s.srv.opts.Logger.Debug("live connection closed", "caller", s.login.caller.Name, "client", s.login.client, "reason", end)
}

// nextTime is the earliest deadline of the session.
func (s *session) nextTime() time.Time {
	next := s.subs.earliest(s.nextBeat)
	if !s.login.ready && s.initDue.Before(next) {
		next = s.initDue
	}
	if e := s.login.expiry; !e.IsZero() && e.Before(next) {
		next = e
	}
	return next
}

// runTimer handles the deadlines that have passed.
func (s *session) runTimer(now time.Time) error {
	s.alarm.reset()
	switch {
	case !s.login.ready && !now.Before(s.initDue):
		return &closing{CloseInitTimeout, "no init in time"}
	case s.login.expired(now):
		return &closing{CloseExpired, "token expired"}
	}
	s.subs.endHolds(now)
	if now.Before(s.nextBeat) {
		return nil
	}
	s.nextBeat = now.Add(s.srv.opts.Timing.Ping)
	return s.heartbeat(now)
}

// heartbeat pings the client, checks its token, and reports quiet subscriptions.
func (s *session) heartbeat(now time.Time) error {
	s.out.addPing()
	if !s.login.ready {
		return nil
	}
	if err := s.login.check(s.srv); err != nil { // the token may have been withdrawn
		return err
	}
	quiet := now.Add(-s.srv.opts.Timing.Ping)
	for _, sub := range s.subs.byID {
		if sub.lastSent.After(quiet) {
			continue
		}
		if err := sub.heartbeat(); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP upgrades a request and hands the connection to a session, so that
// nothing of the HTTP server stays behind for it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.upgrade(w, r, &s.up, registry.WebSocket, func(conn *websocket.Conn, wire *wire, at admission) func(func()) {
		e := newSession(s, conn, wire, registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"]), s.opts.Credential(r))
		rejection := s.rejection(r, conn, at)
		return func(gone func()) { e.serve(rejection, gone) }
	})
}

// rejection returns why a connection is closed as soon as it is open, nil if it may
// stay.
func (s *Server) rejection(r *http.Request, conn *websocket.Conn, at admission) *closing {
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
