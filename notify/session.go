package notify

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/registry"
)

// A session is one WebSocket connection. Two goroutines serve it: one reads
// frames, the other owns all state and does all writing. What a session holds
// per subscription is a cursor, never a queue.
type session struct {
	srv    *Server
	conn   *websocket.Conn
	wire   *wire
	header string // the token of the upgrade request

	inbox chan inbound  // from the reader
	done  chan struct{} // closed when nothing is read from inbox any more
	read  chan struct{} // closed when the reader ended

	follower *Follower
	ready    bool
	token    string
	caller   registry.Caller
	subs     map[string]*subscription
	byQuery  map[string][]*subscription
	queue    []*subscription            // those that have something to look at, in turn
	holds    map[*subscription]struct{} // those that their rate holds back
	expiry   <-chan time.Time
}

// An inbound is what the reader has to say: a request, perhaps with what is
// wrong with it, or why there are no more.
type inbound struct {
	request
	err error
}

// errGone says that the connection is broken: there is nobody to tell.
var errGone = errors.New("connection is gone")

func newSession(s *Server, conn *websocket.Conn, w *wire, token string) *session {
	return &session{
		srv: s, conn: conn, wire: w, header: token,
		inbox: make(chan inbound, 4), done: make(chan struct{}), read: make(chan struct{}),
		follower: s.opts.Hub.Follow(),
		subs:     make(map[string]*subscription), byQuery: make(map[string][]*subscription),
		holds: make(map[*subscription]struct{}),
	}
}

// run serves the connection to its end; objection ends it at once.
func (s *session) run(objection *closing) {
	go s.readAll()
	var end error = objection
	if objection == nil {
		end = s.loop()
	}
	close(s.done)
	s.release()
	s.say(end)
	s.srv.opts.Logger.Debug("live connection closed", "caller", s.caller.Name, "reason", end)
}

// say ends the connection: with a close frame, if there is one to send, and
// then with the time it takes a client to read it.
func (s *session) say(end error) { sayGoodbye(s.conn, s.read, end, s.srv.opts.Timing) }

// readAll is the reader: it checks frames, and turns them into requests. After
// the first thing that ends the connection it throws away what still comes.
func (s *session) readAll() {
	defer close(s.read)
	lim := s.srv.opts.Limits
	alive := watchReads(s.conn, s.wire, lim, s.srv.opts.Timing)
	free := rate.NewLimiter(rate.Limit(lim.Rate), lim.Burst)
	for {
		alive()
		in := s.readOne(free)
		select {
		case s.inbox <- in:
		case <-s.done:
		}
		var c *closing
		if errors.As(in.err, &c) || errors.Is(in.err, errGone) {
			io.Copy(io.Discard, s.wire)
			return
		}
	}
}

func (s *session) readOne(free *rate.Limiter) inbound {
	frame, err := readFrame(s.conn)
	if err != nil {
		return inbound{err: err}
	}
	r, err := parseRequest(frame)
	if r.Type != "ack" && !free.Allow() {
		return inbound{err: &closing{CloseRate, "too many messages"}}
	}
	return inbound{r, err}
}

// loop is the session's own goroutine until something ends the connection.
func (s *session) loop() error {
	t := s.srv.opts.Timing
	hello := time.NewTimer(t.Init)
	defer hello.Stop()
	beat := time.NewTicker(t.Ping)
	defer beat.Stop()
	hold := time.NewTimer(time.Hour)
	defer hold.Stop()
	for {
		if s.wire.slow.Load() {
			return &closing{CloseSlow, "reader too slow"}
		}
		var idle <-chan struct{} // ready at once while there is something to deliver
		if len(s.queue) > 0 {
			idle = closedChan
		}
		hold.Reset(s.nextHold())
		var err error
		// What the client and the server want goes before what there is to send.
		select {
		case <-s.srv.drain:
			return &closing{CloseDraining, "server is going down"}
		case <-s.expiry:
			return &closing{CloseExpired, "token expired"}
		case in := <-s.inbox:
			err = s.handle(in, hello)
		case <-beat.C:
			err = s.heartbeat()
		default:
			select {
			case <-s.srv.drain:
				return &closing{CloseDraining, "server is going down"}
			case <-s.expiry:
				return &closing{CloseExpired, "token expired"}
			case in := <-s.inbox:
				err = s.handle(in, hello)
			case <-beat.C:
				err = s.heartbeat()
			case <-hello.C:
				if !s.ready {
					err = &closing{CloseInitTimeout, "no init in time"}
				}
			case <-s.follower.C():
				s.wake()
			case <-hold.C:
				s.unhold(time.Now())
			case <-idle:
				err = s.deliverNext()
			}
		}
		if err != nil && !s.tell(&err) {
			return err
		}
	}
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// tell sends a refusal to the client; other errors end the connection.
func (s *session) tell(err *error) bool {
	var r *refusal
	if !errors.As(*err, &r) {
		return false
	}
	fields := []field{{"id", r.id}, {"code", r.code}, {"message", r.message}}
	if r.retryAfter > 0 {
		fields = append(fields, field{"retry_after", registry.Duration(r.retryAfter)})
	}
	*err = s.write(frame("error", fields...))
	return *err == nil
}

// write sends one frame. Only the session's own goroutine calls it.
func (s *session) write(b []byte) error {
	if err := s.conn.WriteMessage(websocket.TextMessage, b); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if s.wire.slow.Load() {
		return &closing{CloseSlow, "reader too slow"}
	}
	return nil
}

// release ends all interest and all holds.
func (s *session) release() {
	s.follower.Close()
	for _, sub := range s.subs {
		s.srv.listing.remove(sub.listed)
		sub.release()
	}
	s.srv.subscriptions.Add(-int64(len(s.subs)))
	s.subs, s.byQuery, s.queue = nil, nil, nil
}
