package notify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A session is one WebSocket connection. It has one goroutine: while the client
// is silent it is one that waits in a few frames of the smallest stack, else one
// that reads its frames and does what they ask for. Whatever else is to be done
// (changes, heartbeats, the end) is done by the server's senders, in turns. What
// a session holds per subscription is a cursor, never a queue.
type session struct {
	srv    *Server
	conn   *websocket.Conn
	wire   *wire
	header string // the token of the upgrade request
	from   string // where it came from
	gone   func() // to be called at the end
	free   *rate.Limiter

	ctx    context.Context // ends when the client has gone
	cancel context.CancelFunc
	reader cursor.Reader // detaches before long work

	due    atomic.Uint32 // what there is to do, of the due constants
	queued atomic.Bool   // stands among the senders' jobs

	mail  sync.Mutex // guards what others leave for the session
	awake []*subscription
	drops []*subscription

	mu     sync.Mutex // whoever has it is at work on what follows, and writes
	worker bool       // it is one of the senders
	over   bool
	out    *[]byte   // frames that are not written yet; nil: none
	big    *Document // the rest of the last of them, but for what closes it
	timer  *time.Timer
	armed  time.Time // when timer fires; zero: it has
	hello  time.Time // init is due
	beat   time.Time
	expiry time.Time // of the token, zero: never

	ready  bool
	token  string
	client string // what it says that it is
	caller registry.Caller
	subs   map[string]*subscription
	queue  []*subscription             // those that have something to look at, in turn
	holds  map[*subscription]time.Time // those that their rate holds back, until when
}

// What there may be to do for a session.
const (
	dueMail  uint32 = 1 << iota // in awake or drops
	dueQueue                    // in queue
	dueTime                     // the timer fired
	dueToken                    // tokens have changed
	dueDrain                    // the server goes down
)

// endOfMessage closes a message whose last member is a document.
var endOfMessage = []byte("}")

// flushAt is the number of bytes from which on frames are not collected any more
// but written.
const flushAt = 32 << 10

// An inbound is what the reader has to say: a request, perhaps with what is
// wrong with it, or why there are no more.
type inbound struct {
	request
	err error
}

// errGone says that the connection is broken: there is nobody to tell.
var errGone = errors.New("connection is gone")

func newSession(s *Server, conn *websocket.Conn, w *wire, token string) *session {
	e := &session{srv: s, conn: conn, wire: w, header: token, subs: make(map[string]*subscription)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.reader = s.reader
	e.reader.Long = func(ctx context.Context) func() {
		e.detach()
		return s.longFold(ctx)
	}
	return e
}

// serve begins; objection ends the connection at once.
func (s *session) serve(objection *closing, gone func()) {
	s.gone = gone
	s.open()
	if objection != nil {
		s.take(&inbound{err: objection})
		s.close()
		return
	}
	s.wire.alive()
	go s.wait()
}

func (s *session) open() {
	t, lim, now := s.srv.opts.Timing, s.srv.opts.Limits, time.Now()
	watchReads(s.conn, s.wire, lim)
	s.conn.SetCloseHandler(closeLater)
	s.free = rate.NewLimiter(rate.Limit(lim.Rate), lim.Burst)
	s.wire.free = s.free
	s.mu.Lock()
	s.hello, s.beat = now.Add(t.Init), now.Add(t.Ping)
	s.armed = s.nextTime()
	s.timer = time.AfterFunc(time.Until(s.armed), func() { s.poke(dueTime) })
	s.mu.Unlock()
	s.srv.known(s, true)
}

// closeLater leaves the answer to a close frame to finish.
func closeLater(int, string) error { return nil }

// wait is where idle connections are. It hands over to another goroutine as soon
// as there is something to read: this one's stack stays as small as stacks begin,
// and one that has grown is not kept.
func (s *session) wait() {
	err := s.wire.await()
	go s.read(err)
}

// read takes what the client has sent, and goes back to waiting for more.
func (s *session) read(err error) {
	for more := false; err == nil; {
		s.wire.alive()
		if more, err = s.wire.skipPongs(); err != nil {
			break
		}
		if !more {
			go s.wait()
			return
		}
		if !s.take(s.readOne()) {
			s.close()
			return
		}
	}
	s.cancel()
	s.take(&inbound{err: readError(err)})
	s.close()
}

// close ends a connection that is over: once the client has closed it or had its
// time to.
func (s *session) close() {
	io.Copy(io.Discard, s.wire)
	s.conn.Close()
	s.srv.known(s, false)
	s.gone()
}

func (s *session) readOne() *inbound {
	frame, err := readFrame(s.conn)
	if err != nil {
		s.cancel()
		return &inbound{err: err}
	}
	r, err := parseRequest(frame)
	if r.Type != "ack" && !s.free.Allow() {
		return &inbound{err: &closing{CloseRate, "too many messages"}}
	}
	return &inbound{r, err}
}

// take does what the client asks for, and returns false at the end.
func (s *session) take(in *inbound) bool {
	s.mu.Lock()
	if !s.over {
		s.done(s.handle(in))
	}
	over := s.over
	s.mu.Unlock()
	s.again()
	return !over
}

// poke has a session look at something, soon. It does not wait.
func (s *session) poke(due uint32) {
	s.due.Or(due)
	s.again()
}

// again has the senders look at what is due. Who had the session while something
// became due calls it after unlocking.
func (s *session) again() {
	if s.due.Load() != 0 && s.queued.CompareAndSwap(false, true) {
		s.srv.senders.push(s)
	}
}

// work is a sender's turn with the session.
func (s *session) work() (detached bool) {
	s.queued.Store(false)
	if !s.mu.TryLock() {
		return false // who has it looks again
	}
	if s.over {
		s.due.Store(0)
		s.mu.Unlock()
		return false
	}
	s.worker = true
	s.done(s.attend(s.due.Swap(0)))
	detached, s.worker = !s.worker, false
	s.mu.Unlock()
	s.again()
	return detached
}

// detach says that the session is going to wait for its client. What senders it
// belongs to then go on without this goroutine.
func (s *session) detach() {
	if s.worker {
		s.worker = false
		s.srv.senders.detach()
	}
}

// attend does what is due, the server's wants first, then a share of what there
// is to deliver.
func (s *session) attend(due uint32) error {
	if due&dueDrain != 0 {
		return &closing{CloseDraining, "server is going down"}
	}
	if due&dueToken != 0 && s.ready {
		if c := s.authenticate(); c != nil {
			return c
		}
	}
	if due&dueTime != 0 {
		if err := s.tell(s.clock(time.Now())); err != nil {
			return err
		}
	}
	if err := s.collect(); err != nil {
		return err
	}
	for n := 0; len(s.queue) > 0 && n < pageSize; n++ {
		more, err := s.deliverNext()
		if err := s.tell(err); err != nil {
			return err
		}
		if err := s.enough(); err != nil {
			return err
		}
		if more {
			break // what waits for the session has its turn between the parts of a result
		}
	}
	if len(s.queue) > 0 {
		s.due.Or(dueQueue)
	}
	return nil
}

// done ends a turn: what was said goes out, or the connection ends.
func (s *session) done(err error) {
	err = s.tell(err)
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		s.finish(err)
		return
	}
	s.arm()
}

// tell makes a message to the client of a refusal; other errors end the
// connection.
func (s *session) tell(err error) error {
	var r *refusal
	if err == nil || !errors.As(err, &r) {
		return err
	}
	fields := []field{{"id", r.id}, {"code", r.code}, {"message", r.message}}
	if r.retryAfter > 0 {
		fields = append(fields, field{"retry_after", registry.Duration(r.retryAfter)})
	}
	return s.write(frame("error", fields...))
}

// write says something; it goes out with the rest of the turn at the latest.
func (s *session) write(b []byte) error {
	if s.big != nil {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.say(len(b), b)
	return s.enough()
}

// say puts a message of n bytes together from its parts.
func (s *session) say(n int, parts ...[]byte) {
	b := appendHeader(s.said(), websocket.TextMessage, n)
	for _, p := range parts {
		b = append(b, p...)
	}
	*s.out = b
}

func (s *session) sayPing() { *s.out = appendHeader(s.said(), websocket.PingMessage, 0) }

func (s *session) said() []byte {
	if s.out == nil {
		s.out = s.srv.buffers.Get().(*[]byte)
	}
	return *s.out
}

// appendHeader begins an unmasked frame of n bytes (RFC 6455, section 5.2).
func appendHeader(b []byte, kind byte, n int) []byte {
	const final = 0x80
	b = append(b, final|kind)
	switch {
	case n <= 125:
		return append(b, byte(n))
	case n <= 1<<16-1:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
}

// sayDocument says a message with a large middle, which is written from where it
// is shared. Nothing may be said after it before it is written: see full.
func (s *session) sayDocument(before []byte, doc *Document) {
	b := appendHeader(s.said(), websocket.TextMessage, len(before)+doc.Size()+len(endOfMessage))
	*s.out = append(b, before...)
	s.big = doc
}

// full says that what has been said is to be written before more is said.
func (s *session) full() bool { return s.out != nil && (s.big != nil || len(*s.out) >= flushAt) }

// enough writes when enough has been said.
func (s *session) enough() error {
	if !s.full() {
		return nil
	}
	return s.flush()
}

// flush writes what has been said. Its caller holds nothing large: it may
// wait for the client.
func (s *session) flush() error {
	if s.out != nil {
		err := s.wire.send(*s.out, s.big, endOfMessage, s)
		s.forget()
		if err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
	if s.wire.slow.Load() {
		return &closing{CloseSlow, "reader too slow"}
	}
	return nil
}

// forget drops what has been said and not been written.
func (s *session) forget() {
	s.big = nil
	if s.out == nil {
		return
	}
	if cap(*s.out) <= 2*flushAt {
		*s.out = (*s.out)[:0]
		s.srv.buffers.Put(s.out)
	}
	s.out = nil
}

// finish ends the connection: with a close frame, if there is one to send, and
// then with the time it takes a client to read it. Closing at once could reset
// the connection and throw away what it has not read yet.
func (s *session) finish(end error) {
	s.over = true
	s.cancel()
	s.timer.Stop()
	s.detach()
	s.release()
	var c *closing
	if errors.As(end, &c) && s.sayLast(c) {
		s.wire.last()
	} else {
		s.conn.Close()
	}
	s.forget()
	s.srv.opts.Logger.Debug("live connection closed", "caller", s.caller.Name, "client", s.client, "reason", end)
}

// sayLast sends a close frame after what has been said.
func (s *session) sayLast(c *closing) bool {
	if s.out != nil {
		if err := s.wire.send(*s.out, s.big, endOfMessage, nil); err != nil {
			return false
		}
	}
	err := s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(c.code, c.reason), time.Now().Add(s.srv.opts.Timing.Write))
	return err == nil || errors.Is(err, websocket.ErrCloseSent)
}

// release ends all interest and all holds.
func (s *session) release() {
	for _, sub := range s.subs {
		s.let(sub)
	}
	clear(s.subs)
	s.queue, s.holds = nil, nil
}

// enqueue puts a subscription in turn to be looked at.
func (s *session) enqueue(sub *subscription) {
	if !sub.queued {
		sub.queued = true
		s.queue = append(s.queue, sub)
		s.due.Or(dueQueue)
	}
}

// hold has a subscription looked at when its rate allows the next message.
func (s *session) hold(sub *subscription, until time.Time) {
	if s.holds == nil {
		s.holds = make(map[*subscription]time.Time)
	}
	s.holds[sub] = until
}

// deliverNext serves the subscription whose turn it is: what its cursor has, or one
// part of its result. more says that more parts follow.
func (s *session) deliverNext() (more bool, err error) {
	sub := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	sub.queued = false
	switch {
	case sub.listed.halted.Load():
		return false, nil // resuming it queues it again
	case sub.transfer != nil:
		err = sub.nextPart()
	case sub.full():
		sub.cursor.Hold()
		return false, nil // ack will queue it again
	case sub.captures != nil:
		err = sub.deliverCaptures()
	default:
		err = sub.deliver()
	}
	return sub.transfer != nil, s.delivered(sub, err)
}

// delivered looks at how a delivery failed, if it did.
func (s *session) delivered(sub *subscription, err error) error {
	var gap *registry.GapError
	if errors.As(err, &gap) && sub.captures != nil {
		err = sub.restartCaptures(gap.Reason) // which can fail like any delivery
	}
	var refused *refusal
	var closed *closing
	switch {
	case err == nil || errors.Is(err, errGone) || errors.As(err, &closed):
		return err
	case s.ctx.Err() != nil:
		return errGone
	case errors.Is(err, registry.ErrNotFound):
		return s.complete(sub, "released")
	}
	// The log failed. The next heartbeat sees that something is left to send.
	if err = s.unavailable("read the log", err); errors.As(err, &refused) {
		refused.id = sub.id
	}
	return err
}
