package notify

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A subscription sends the events of one stream over a connection: of a query's changes,
// or of a profile's captures. It is one goroutine.
type subscription struct {
	c       *liveConn
	id      string
	release func()
	ctx     context.Context
	cancel  context.CancelCauseFunc
	began   chan error    // gets the error of the beginning, or nil once subscribed is sent
	begun   bool          // it got nil
	gone    chan struct{} // closed at the end

	follows  string // id of the query or profile
	endpoint string
	form     diff.Form
	ordered  bool

	wake func() // makes the follower look again

	mu      sync.Mutex
	acking  bool
	held    bool     // it waited for an ack since late was called last
	unacked []uint64 // positions sent, at most the window
	lags    uint64   // of the wire when late was called last
}

// A follower is what a subscription follows.
type follower interface {
	begin() error // sends the first messages
	run() error   // sends what follows, until an error
	close()
}

// errUnsubscribed is the cause of a subscription's end.
var errUnsubscribed = errors.New("unsubscribed")

// streamOptions returns the settings that a request names.
func (r *request) streamOptions() (o StreamOptions, err error) {
	if o.snapshots, err = r.snapshotMode(); err != nil {
		return o, err
	}
	if o.Rate, err = r.rate(); err != nil {
		return o, err
	}
	if o.Filter, err = cursor.ParseFilter(r.Filter); err != nil {
		return o, badParams("%v", err)
	}
	p, ok, err := r.position()
	if ok {
		o.After = &p
	}
	return o, err
}

// open starts the subscription. It returns the error of its beginning, which is ended if
// what it follows is gone.
func (sub *subscription) open(follow func() follower, ended string) error {
	c := sub.c
	sub.ctx, sub.cancel = context.WithCancelCause(c.ctx)
	sub.began, sub.gone, sub.lags = make(chan error, 1), make(chan struct{}), c.wire.lags.Load()
	c.mu.Lock()
	if c.ctx.Err() != nil { // finish may wait for those that run already
		c.mu.Unlock()
		sub.release()
		return context.Cause(c.ctx)
	}
	c.subs[sub.id] = sub
	c.running.Add(1)
	c.mu.Unlock()
	c.srv.subscriptions.Add(1)
	f := follow()
	c.out.enter() // for the subscription
	go sub.run(f)
	err := <-sub.began
	var gone *closing
	switch {
	case err == nil || errors.Is(err, errGone) || errors.As(err, &gone):
		return err
	case errors.Is(err, registry.ErrNotFound):
		return &refusal{code: CodeUnknownQuery, message: ended}
	}
	return c.srv.unavailable("start a subscription", err)
}

func (sub *subscription) run(f follower) {
	defer sub.c.running.Done()
	defer sub.c.out.leave()
	defer close(sub.gone)
	err := f.begin()
	if sub.begun {
		err = sub.failed(err)
	}
	for err == nil && sub.ctx.Err() == nil {
		err = sub.failed(f.run())
	}
	f.close()
	sub.leave()
	switch reason := sub.ended(err); {
	case !sub.begun:
		sub.began <- err
	case reason != "":
		sub.c.out.add(frame("complete", field{"id", sub.id}, field{"reason", reason}))
	default:
		sub.c.end(err)
	}
}

// start reports that the beginning is sent.
func (sub *subscription) start() {
	if !sub.begun {
		sub.begun = true
		sub.began <- nil
	}
}

// ended returns the reason of complete, "" if the connection ends.
func (sub *subscription) ended(err error) string {
	cause := context.Cause(sub.ctx)
	switch {
	case sub.c.ctx.Err() != nil:
		return ""
	case errors.Is(cause, errUnsubscribed):
		return "unsubscribed"
	case errors.Is(cause, ErrDropped) || errors.Is(err, ErrDropped):
		return "dropped"
	case errors.Is(err, registry.ErrNotFound):
		return "released"
	}
	return ""
}

// leave releases what the subscription holds.
func (sub *subscription) leave() {
	sub.c.mu.Lock()
	delete(sub.c.subs, sub.id)
	sub.c.mu.Unlock()
	sub.cancel(nil)
	sub.c.srv.subscriptions.Add(-1)
	sub.release()
}

// failed handles the error of a run. It returns those that end the subscription. If the log
// failed, the subscription goes on after a heartbeat.
func (sub *subscription) failed(err error) error {
	var closed *closing
	if err == nil || errors.Is(err, ErrDropped) || errors.Is(err, registry.ErrNotFound) || errors.As(err, &closed) || sub.ctx.Err() != nil {
		return err
	}
	var refused *refusal
	if err = sub.c.srv.unavailable("read the log", err); errors.As(err, &refused) {
		refused.id = sub.id
	}
	if err = sub.c.report(err); err != nil {
		return err
	}
	sub.c.out.leave()
	defer sub.c.out.enter()
	select {
	case <-sub.ctx.Done():
	case <-time.After(sub.c.srv.opts.Timing.Ping):
	}
	return nil
}

// about returns the entry in the listing.
func (sub *subscription) about() registry.Subscription {
	l := sub.c.who()
	return registry.Subscription{Way: registry.WebSocket, Caller: l.caller.Name, Name: sub.id, Client: l.client, Remote: l.from}
}

// sent records a message that counts towards the window.
func (sub *subscription) sent(seq uint64) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.unacked = append(sub.unacked, seq)
	if over := len(sub.unacked) - sub.c.srv.opts.Limits.Window; over > 0 {
		sub.unacked = append(sub.unacked[:0], sub.unacked[over:]...)
	}
}

// ack frees a part of the window. Changes that waited for it are sent as one.
func (sub *subscription) ack(seq uint64) {
	sub.mu.Lock()
	sub.held = sub.held || sub.noRoom()
	sub.acking = true
	kept := sub.unacked[:0]
	for _, n := range sub.unacked {
		if n > seq {
			kept = append(kept, n)
		}
	}
	sub.unacked = kept
	sub.mu.Unlock()
	sub.wake()
}

// full reports whether the client has to acknowledge something first.
func (sub *subscription) full() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.noRoom()
}

func (sub *subscription) noRoom() bool {
	return sub.acking && len(sub.unacked) >= sub.c.srv.opts.Limits.Window
}

// late reports whether the client was slow since the last call: it took long to read, or to
// acknowledge.
func (sub *subscription) late() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	lags := sub.c.wire.lags.Load()
	late := sub.held || lags != sub.lags
	sub.held, sub.lags = false, lags
	return late
}

// alive confirms that nothing changed up to p.
func (sub *subscription) alive(p registry.Position, checked time.Time) {
	sub.c.out.add(frame("alive", field{"id", sub.id}, field{"epoch", p.Epoch}, field{"seq", p.Seq}, field{"checked_at", timeOrNil(checked)}))
}

// A queryFollower sends the changes of a query.
type queryFollower struct {
	*subscription
	stream *stream
	resume bool
	reason string // why the log does not continue, for the next snapshot
	lost   error  // of the last event
}

func newQueryFollower(sub *subscription, o StreamOptions) *queryFollower {
	o.strict, o.full, o.Lagging, o.gather, o.As = true, sub.full, sub.late, &sub.c.out, sub.about()
	f := &queryFollower{subscription: sub, resume: o.After != nil, stream: sub.c.srv.newStream(sub.ctx, sub.follows, o)}
	f.stream.yield = f.send
	sub.wake = f.stream.awake.signal
	return f
}

func (f *queryFollower) close() { f.stream.close() }

// begin sends only the position if the log continues from there, else also the result.
func (f *queryFollower) begin() error {
	t := f.stream
	var err error
	f.c.out.leave() // a node of a cluster may ask the others
	if f.resume {
		err = t.cursor.Resume(&t.s.reader, t.cursor.At())
	} else {
		err = t.s.opts.Confirm()
	}
	f.c.out.enter()
	var gap *registry.GapError
	switch {
	case err == nil && f.resume:
		f.subscribed(t.cursor.At(), true, "")
		return nil
	case errors.As(err, &gap):
		f.reason = gap.Reason
	case err != nil:
		return err
	}
	return f.restart()
}

// restart sends the current result.
func (f *queryFollower) restart() error {
	err := f.stream.replace("")
	if err == errStopped {
		err = f.lost
	}
	return err
}

// run sends what the stream has. Its errors are those of the log.
func (f *queryFollower) run() (err error) {
	if f.lost != nil { // the client lacks what could not be sent
		err = f.restart()
	}
	if err == nil {
		err = f.stream.run()
	}
	if err == errStopped {
		err = f.lost
	}
	if errors.Is(err, errMoved) || errors.As(err, new(*registry.GapError)) {
		return nil // the log no longer has the change that waited: the next run sends the result
	}
	return err
}

// send is the loop's body: it adds one event to the output.
func (f *queryFollower) send(ev *StreamEvent) bool {
	var err error
	switch ev.Kind {
	case StreamChange:
		err = f.change(ev)
	case StreamMoved, StreamIdle:
		if !ev.CheckedAt.IsZero() {
			f.alive(ev.At, ev.CheckedAt)
		}
	case StreamGap:
		f.reason = ev.Reason
	case StreamSnapshot:
		err = f.snapshot(ev)
	case streamStatus:
		f.status(&ev.Status)
	}
	f.lost = err
	return err == nil
}

// subscribed begins the subscription, for the first time or again.
func (f *queryFollower) subscribed(p registry.Position, resumed bool, reason string) {
	defer f.start()
	f.c.out.add(frame("subscribed",
		field{"id", f.id}, field{"query", f.follows}, field{"topic", f.c.srv.format(nil).ResultsURL(f.follows)},
		field{"form", string(f.form)}, field{"ordered", orNil(f.ordered)},
		field{"epoch", p.Epoch}, field{"seq", p.Seq}, field{"resumed", resumed}, field{"reason", reason}))
}

// change adds a change to the output.
func (f *queryFollower) change(ev *StreamEvent) error {
	srv, filter := f.c.srv, ev.filter
	body, err := srv.changeContent(ev.Change, filter)
	if err != nil {
		return err
	}
	f.sent(ev.At.Seq)
	const before, between, after = `{"type":"delta","id":"`, `",`, `}` // an id needs no escapes
	if len(body.pieces) > 1 || f.c.out.full() {
		doc := srv.changeDocument(ev.Change, filter, body)
		ev.Release()
		return f.c.out.document([]byte(before+f.id+between), doc, endOfMessage)
	}
	ev.Release()
	f.c.out.add([]byte(before), []byte(f.id), []byte(between), body.pieces[0], []byte(after))
	return nil
}

// status reports a state. reason distinguishes stale, failing and idle.
func (f *queryFollower) status(st *registry.Status) {
	f.c.out.leave() // a prediction may take as long as the start of a slot
	due := f.c.srv.nextDue(f.stream.awake.audience, st, f.endpoint, f.follows)
	f.c.out.enter()
	fields := []field{{"id", f.id}, {"state", string(registry.Live)}, {"checked_at", timeOrNil(st.CheckedAt)}, {"next_due", timeOrNil(due)}}
	if f.stream.stale {
		fields[1].value = string(registry.Stale)
		reason := st.State
		if reason == registry.New {
			reason = registry.Stale
		}
		fields = append(fields, field{"reason", string(reason)}, field{"error", st.Error})
	}
	f.c.out.add(frame("status", fields...))
}

// nextDue predicts when a query runs next, zero if that cannot be predicted.
func (s *Server) nextDue(a *audience, st *registry.Status, endpoint, query string) time.Time {
	if s.opts.Due == nil {
		return time.Time{}
	}
	return a.due(st, func() time.Time {
		at, err := s.opts.Due(endpoint, query)
		if err != nil {
			s.opts.Logger.Error("predict when a query runs", "query", query, "error", err)
		}
		return at
	})
}

// subscribeProfile opens a subscription to a profile's captures. Subscriptions to
// queries and to profiles share everything that is not about results: ids, windows,
// wake-ups, the listing and the end.
func (c *liveConn) subscribeProfile(r request) error {
	var ref string
	if json.Unmarshal(r.Profile, &ref) != nil || ref == "" {
		return badParams("profile must be an id or a name")
	}
	if c.srv.opts.Captures == nil || c.srv.opts.ResolveProfile == nil {
		return badParams("there are no profiles here")
	}
	if len(r.Query) > 0 || r.SPARQL != "" || r.Filter != nil || r.Rate != nil || r.Mode != "" {
		return badParams("a subscription to a profile has neither query, mode, filter nor rate: each capture is a message of its own")
	}
	from, given, err := r.position()
	if err != nil {
		return err
	}
	p, err := c.srv.opts.ResolveProfile(c.who().caller, ref)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: "no profile has this id or name"}
	}
	if r := ambiguous(err); r != nil {
		return r
	}
	if err := c.srv.unavailable("resolve a profile", err); err != nil {
		return err
	}
	sub := &subscription{c: c, id: r.ID, release: func() {}, follows: p.ID, endpoint: p.Endpoint}
	return sub.open(func() follower { return newCapturesFollower(sub, from, given) }, "the profile ended")
}
