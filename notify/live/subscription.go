package live

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A subscription sends the events of one stream over a connection: of a query's changes,
// or of a profile's captures. It is one goroutine.
type subscription struct {
	c       *liveConn
	id      string
	follow  func() error // sends events until an error
	release func()
	options notify.StreamOptions
	at      registry.Position // of the last event
	entry   *notify.Entry
	ctx     context.Context
	cancel  context.CancelCauseFunc
	began   chan error    // gets the error of the beginning, or nil once subscribed is sent
	begun   bool          // it got nil
	gone    chan struct{} // closed at the end

	follows  string // id of the query or profile
	endpoint string
	form     diff.Form // "" of a profile
	ordered  bool
	reason   string // why the log does not continue, for the next snapshot

	mu      sync.Mutex
	acking  bool
	held    bool     // it waited for an ack since late was called last
	unacked []uint64 // positions sent, at most the window
	lags    uint64   // of the connection when late was called last
}

// errUnsubscribed is the cause of a subscription's end.
var errUnsubscribed = errors.New("unsubscribed")

func (r *request) streamOptions() (o notify.StreamOptions, err error) {
	o.Live = new(notify.LiveOptions)
	if o.Live.Snapshots, err = r.snapshotMode(); err != nil {
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
func (sub *subscription) open(about registry.Subscription, ended string) error {
	c, l := sub.c, sub.c.who()
	about.Way, about.Caller, about.Name, about.Client, about.Remote = registry.WebSocket, l.caller.Name, sub.id, l.client, l.from
	about.Endpoint, about.Rate, about.Filter = sub.endpoint, registry.Duration(sub.options.Rate), sub.options.Filter.JSON()
	sub.ctx, sub.cancel = context.WithCancelCause(c.ctx)
	sub.began, sub.gone, sub.lags = make(chan error, 1), make(chan struct{}), c.Lags()
	c.mu.Lock()
	if c.ctx.Err() != nil { // finish may wait for those that run already
		c.mu.Unlock()
		sub.release()
		return context.Cause(c.ctx)
	}
	sub.entry = c.srv.hub.Enlist(about, func() { sub.cancel(notify.ErrDropped) })
	sub.options.Lagging, sub.options.Live.Full, sub.options.Live.Turn, sub.options.Live.Entry = sub.late, sub.full, &c.out, sub.entry
	c.subs[sub.id] = sub
	c.running.Add(1)
	c.mu.Unlock()
	c.out.Enter() // for the subscription
	go sub.run()
	err := <-sub.began
	switch {
	case err == nil || errors.Is(err, errGone) || errors.As(err, new(*closing)):
		return err
	case errors.Is(err, registry.ErrNotFound):
		return &refusal{code: CodeUnknownQuery, message: ended}
	case errors.As(err, new(*refusal)):
		return err
	}
	return c.srv.unavailable("start a subscription", err)
}

func (sub *subscription) run() {
	defer sub.c.running.Done()
	defer sub.c.out.Leave()
	defer close(sub.gone)
	var err error
	for err == nil && sub.ctx.Err() == nil {
		err = sub.follow()
	}
	if refused, ok := errors.AsType[*refusal](context.Cause(sub.ctx)); ok {
		err = refused
	}
	sub.leave()
	switch reason := sub.ended(err); {
	case !sub.begun:
		sub.began <- err
	case reason != "":
		sub.c.out.add(frame("complete", member("id", sub.id), member("reason", reason)))
	default:
		if sub.c.ctx.Err() == nil && !errors.As(err, new(*closing)) {
			if !errors.As(err, new(*refusal)) { // the log failed
				err = sub.c.srv.unavailable("read the log", err)
			}
			if r, ok := errors.AsType[*refusal](err); ok {
				r.id = sub.id
			}
			err = sub.c.report(err)
		}
		if err != nil {
			sub.c.cancel(err)
		}
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
	case errors.Is(cause, notify.ErrDropped) || errors.Is(err, notify.ErrDropped):
		return "dropped"
	case errors.Is(err, registry.ErrNotFound):
		return "released"
	}
	return ""
}

func (sub *subscription) leave() {
	sub.c.mu.Lock()
	delete(sub.c.subs, sub.id)
	sub.c.due = time.Now().Add(sub.c.srv.opts.Timing.Idle)
	sub.c.mu.Unlock()
	sub.cancel(nil)
	sub.entry.Leave()
	sub.release()
}

// sent records a message that counts towards the window. It is called before the message is
// written, because the client may acknowledge it at once.
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
	sub.entry.Wake()
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
	lags := sub.c.Lags()
	late := sub.held || lags != sub.lags
	sub.held, sub.lags = false, lags
	return late
}

func (sub *subscription) followQuery() error {
	err := sub.c.srv.hub.Follow(sub.ctx, sub.follows, &sub.options, sub.event)
	if errors.Is(err, notify.ErrMoved) || errors.As(err, new(*registry.GapError)) { // the log no longer has what was being sent
		sub.options.After = nil
		return nil
	}
	return err
}

// event sends one event, and notes where the client is then.
func (sub *subscription) event(ev *notify.StreamEvent) error {
	at := ev.At
	err := sub.send(ev)
	if err == nil {
		sub.at = at
		sub.options.After = &sub.at
	}
	return err
}

func (sub *subscription) send(ev *notify.StreamEvent) error {
	switch ev.Kind {
	case notify.StreamResumed:
		if !sub.begun {
			sub.subscribed(ev.At, true, "")
		}
	case notify.StreamChange:
		return sub.change(ev)
	case notify.StreamMoved, notify.StreamIdle:
		if !ev.CheckedAt.IsZero() {
			sub.alive(ev.At, ev.CheckedAt)
		}
	case notify.StreamGap:
		sub.reason = ev.Reason
	case notify.StreamSnapshot:
		return sub.snapshot(ev)
	case notify.StreamStatus:
		sub.status(ev)
	}
	return nil
}

// subscribed begins the subscription to a query, for the first time or again. Clients then take it as live.
func (sub *subscription) subscribed(p registry.Position, resumed bool, reason string) {
	sub.options.Live.Stale = false
	sub.start(member("query", sub.follows), member("topic", notify.Format{PublicURL: sub.c.srv.opts.PublicURL}.ResultsURL(sub.follows)),
		member("form", string(sub.form)), member("ordered", orNil(sub.ordered)),
		member("epoch", p.Epoch), member("seq", p.Seq), member("resumed", resumed), member("reason", reason))
}

func (sub *subscription) start(fields ...field) {
	sub.c.out.add(frame("subscribed", append([]field{member("id", sub.id)}, fields...)...))
	if !sub.begun {
		sub.begun = true
		sub.began <- nil
	}
}

// alive confirms that nothing changed up to p.
func (sub *subscription) alive(p registry.Position, checked time.Time) {
	proved := timeOrNil(sub.c.srv.hub.Proved(sub.follows, p))
	sub.c.out.add(frame("alive", member("id", sub.id), member("epoch", p.Epoch), member("seq", p.Seq),
		member("checked_at", timeOrNil(checked)), member("proved", proved)))
}

func (sub *subscription) change(ev *notify.StreamEvent) error {
	doc, err := sub.c.srv.hub.OpenChange(ev)
	if err != nil {
		return err
	}
	out := &sub.c.out
	sub.sent(ev.At.Seq)
	ev.Release()
	const before, between, after = `{"type":"delta","id":"`, `",`, `}` // an id needs no escapes
	if small := doc.Small(); small != nil && !out.full() {
		out.add([]byte(before), []byte(sub.id), []byte(between), small, []byte(after))
		return nil
	}
	return out.document([]byte(before+sub.id+between), doc, endOfMessage, sub.large)
}

// large announces a message, for clients that see nothing of it before its end and must not take that for silence.
func (sub *subscription) large(size int) []byte {
	return frame("large", member("id", sub.id), member("bytes", size))
}

// status reports a state. reason distinguishes stale, failing and idle. Only a caller who may read everything gets the error,
// which may name hosts, graphs and users.
func (sub *subscription) status(ev *notify.StreamEvent) {
	st := &ev.Status
	fields := []field{member("id", sub.id), member("state", string(registry.Live)), member("checked_at", timeOrNil(st.CheckedAt)),
		member("next_due", timeOrNil(ev.Due))}
	if ev.Stale {
		fields[1].Value = string(registry.Stale)
		reason := st.State
		if reason == registry.New {
			reason = registry.Stale
		}
		if fields = append(fields, member("reason", string(reason))); sub.c.who().caller.MayRead(nil) {
			fields = append(fields, member("error", st.Error))
		}
	}
	sub.c.out.add(frame("status", fields...))
}

// subscribeProfile opens a subscription to a profile's captures.
func (c *liveConn) subscribeProfile(r request) error {
	var ref string
	if json.Unmarshal(r.Profile, &ref) != nil || ref == "" {
		return badParams("profile must be an id or a name")
	}
	if len(r.Query) > 0 || r.SPARQL != "" || r.Filter != nil || r.Rate != nil || r.Mode != "" {
		return badParams("a subscription to a profile has neither query, mode, filter nor rate: each capture is a message of its own")
	}
	from, given, err := r.position()
	if err != nil {
		return err
	}
	if !c.who().caller.MayRead(nil) {
		return noProfile()
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
	sub := &subscription{c: c, id: r.ID, release: func() {}, follows: p.ID, endpoint: p.Endpoint,
		options: notify.StreamOptions{Live: new(notify.LiveOptions)}}
	if given {
		sub.options.After = &from
	}
	sub.follow = func() error { return sub.followCaptures(p) }
	return sub.open(registry.Subscription{Profile: p.ID}, "the profile ended")
}

func (sub *subscription) followCaptures(p registry.Profile) error {
	for ev, err := range sub.c.srv.hub.FollowCaptures(sub.ctx, p, sub.options) {
		if err != nil {
			return err
		}
		sub.capture(&ev)
		sub.at = ev.At
		sub.options.After = &sub.at
	}
	return nil
}

func (sub *subscription) capture(ev *notify.CaptureEvent) {
	switch {
	case ev.Kind == notify.StreamIdle:
		sub.alive(ev.At, time.Now())
	case ev.Kind != notify.StreamChange:
		if resumed := ev.Kind == notify.StreamResumed; !resumed || !sub.begun {
			sub.start(member("profile", sub.follows), member("epoch", ev.At.Epoch), member("seq", ev.At.Seq), member("resumed", resumed),
				member("reason", ev.Reason))
		}
	case ev.End.State == registry.RoundCaptured:
		sub.sent(ev.At.Seq)
		sub.c.out.add(frame("captured", append([]field{member("id", sub.id)}, ev.Members()...)...))
	default:
		sub.c.out.add(frame("status", append([]field{member("id", sub.id)}, ev.Members()...)...))
	}
}
