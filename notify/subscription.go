package notify

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A subscription sends the events of one cursor over a session: of a query's
// changes, or of a profile's captures.
type subscription struct {
	id      string
	session *session
	member  *membership
	awake   bool // in mailbox.woken, guarded by mailbox.mu
	over    bool // has left
	queued  bool // in turnQueue.queue
	release func()

	follows  string // id of the query or profile
	endpoint string
	form     diff.Form
	ordered  bool
	cursor   cursor.Cursor
	captures *capturesCursor // of a profile; nil: of a query

	transfer *transfer // the result that is being sent, part by part
	stale    bool      // the client's last status
	lastSent time.Time

	acking  bool
	unacked []uint64 // positions sent, at most the window
	listed  *listed  // its entry in the listing
}

func newSubscription(r request, rules *cursor.Rules) (*subscription, *registry.Position, error) {
	sub := &subscription{id: r.ID, release: func() {}}
	c := &sub.cursor
	c.Rules = rules
	var err error
	if c.Snapshots, err = r.snapshotMode(); err != nil {
		return nil, nil, err
	}
	if c.Rate, err = r.rate(); err != nil {
		return nil, nil, err
	}
	if c.Filter, err = cursor.ParseFilter(r.Filter); err != nil {
		return nil, nil, badParams("%v", err)
	}
	p, ok, err := r.position()
	if err != nil || !ok {
		return sub, nil, err
	}
	return sub, &p, nil
}

// list adds the subscription to the listing.
func (sub *subscription) list(filter json.RawMessage) {
	s := sub.session
	about := registry.Subscription{Way: registry.WebSocket, Caller: s.login.caller.Name, Name: sub.id, Client: s.login.client, Remote: s.login.from,
		Query: sub.follows, Rate: registry.Duration(sub.cursor.Rate), Filter: filter}
	if sub.captures != nil {
		about.Query, about.Profile, about.Endpoint = "", sub.captures.profile, sub.endpoint
	}
	sub.listed = s.srv.list(about, sub.at(), sub.drop, func() { s.notify(sub) })
}

// setAwake sets the flag of mailbox and returns the old one.
func (sub *subscription) setAwake(on bool) (was bool) {
	was, sub.awake = sub.awake, on
	return was
}

// drop requests the end of the subscription.
func (sub *subscription) drop() {
	sub.session.mail.drop(sub)
	sub.session.schedule(dueMail)
}

// at returns the position that the client has.
func (sub *subscription) at() registry.Position {
	if sub.captures != nil {
		return sub.captures.pos
	}
	return sub.cursor.At()
}

// jump records that the client has everything up to p.
func (sub *subscription) jump(p registry.Position) {
	sub.cursor.Jump(p)
	sub.moved()
}

// moved updates the listed position.
func (sub *subscription) moved() {
	sub.listed.moved(sub.at())
	sub.lastSent = time.Now()
}

// sent records a message that counts towards the rate and the window.
func (sub *subscription) sent() {
	sub.moved()
	srv := sub.session.srv
	srv.sent.Add(1)
	sub.listed.delivered(sub.lastSent)
	sub.cursor.Sent(sub.lastSent)
	sub.unacked = append(sub.unacked, sub.at().Seq)
	if over := len(sub.unacked) - srv.opts.Limits.Window; over > 0 {
		sub.unacked = append(sub.unacked[:0], sub.unacked[over:]...)
	}
}

// ack frees a part of the window. Changes that waited for it are sent as one.
func (sub *subscription) ack(seq uint64) {
	if sub.full() {
		sub.cursor.Hold()
	}
	sub.acking = true
	kept := sub.unacked[:0]
	for _, n := range sub.unacked {
		if n > seq {
			kept = append(kept, n)
		}
	}
	sub.unacked = kept
}

// full reports whether the client has to acknowledge something first.
func (sub *subscription) full() bool {
	return sub.acking && len(sub.unacked) >= sub.session.srv.opts.Limits.Window
}

// begin sends the first messages of a subscription: only its position if the log
// continues from there, else also the result.
func (sub *subscription) begin(from *registry.Position) error {
	if from == nil {
		if err := sub.session.srv.opts.Confirm(); err != nil {
			return err
		}
		return sub.restart("")
	}
	err := sub.cursor.Resume(&sub.session.reader, *from)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return sub.restart(gap.Reason)
	}
	if err != nil {
		return err
	}
	sub.moved()
	sub.session.enqueue(sub)
	return sub.subscribed(true, "")
}

// restart starts again with the current result.
func (sub *subscription) restart(reason string) error {
	st, res, err := sub.session.srv.results.current(sub.follows)
	if err != nil {
		return err
	}
	sub.jump(st.Position)
	sub.session.enqueue(sub) // for the status, and for what came meanwhile
	if err := sub.subscribed(false, reason); err != nil || res == nil {
		return err
	}
	return sub.transferResult(&st)
}

func (sub *subscription) subscribed(resumed bool, reason string) error {
	p := sub.at()
	return sub.session.out.write(frame("subscribed",
		field{"id", sub.id}, field{"query", sub.follows}, field{"topic", sub.session.srv.format(nil).ResultsURL(sub.follows)},
		field{"form", string(sub.form)}, field{"ordered", orNil(sub.ordered)},
		field{"epoch", p.Epoch}, field{"seq", p.Seq}, field{"resumed", resumed}, field{"reason", reason}))
}

// turn sends the waiting events of the cursor, or one part of a result. more reports
// whether further parts follow.
func (sub *subscription) turn() (more bool, err error) {
	switch {
	case sub.listed.paused.Load():
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
	return sub.transfer != nil, sub.failed(err)
}

// failed handles the error of a delivery. err may be nil.
func (sub *subscription) failed(err error) error {
	var gap *registry.GapError
	if errors.As(err, &gap) && sub.captures != nil {
		err = sub.restartCaptures(gap.Reason) // which can fail like any delivery
	}
	var refused *refusal
	var closed *closing
	switch {
	case err == nil || errors.Is(err, errGone) || errors.As(err, &closed):
		return err
	case sub.session.ctx.Err() != nil:
		return errGone
	case errors.Is(err, registry.ErrNotFound):
		return sub.end("released")
	}
	// The log failed. The next heartbeat sees that something is left to send.
	if err = sub.session.srv.unavailable("read the log", err); errors.As(err, &refused) {
		refused.id = sub.id
	}
	return err
}

// begun removes a subscription that failed to start.
func (sub *subscription) begun(err error, ended string) error {
	var gone *closing
	if err == nil || errors.Is(err, errGone) || errors.As(err, &gone) {
		return err
	}
	sub.session.subs.leave(sub)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: ended}
	}
	return sub.session.srv.unavailable("start a subscription", err)
}

// end sends complete and removes the subscription.
func (sub *subscription) end(reason string) error {
	if sub.over {
		return nil // it has ended meanwhile
	}
	sub.session.subs.leave(sub)
	return sub.session.out.write(frame("complete", field{"id", sub.id}, field{"reason", reason}))
}

// deliver sends the waiting events while the client keeps up and until enough output
// is collected. It releases the cursor's page before the output is written.
func (sub *subscription) deliver() error {
	s := sub.session
	st, err := sub.member.topic.current()
	if err != nil {
		return err
	}
	if s.in.wire.blocked.Swap(false) { // everything else on this connection is late as well
		s.subs.foldAll()
	}
	defer sub.cursor.Release()
	for {
		ev, err := sub.cursor.Next(s.ctx, &s.reader, st.Position, time.Now())
		if err != nil {
			return err
		}
		s.srv.folded.Add(uint64(ev.Folded))
		switch ev.Kind {
		case cursor.Change:
			err = sub.change(ev.Change)
		case cursor.Moved:
			sub.moved()
			err = sub.alive(ev.CheckedAt)
		case cursor.Snapshot:
			return sub.snapshot(ev.Lost())
		case cursor.Wait:
			if !ev.Until.IsZero() {
				s.subs.hold(sub, ev.Until)
				return nil
			}
			return sub.state(st)
		}
		if err != nil {
			return err
		}
		if s.out.full() || s.in.wire.blocked.Load() || sub.full() {
			s.enqueue(sub) // the rest waits, or will be folded
			return nil
		}
	}
}

// change adds a change to the output. It does not write.
func (sub *subscription) change(c *registry.Change) error {
	s, filter := sub.session, sub.cursor.Filter
	body, err := s.srv.changeContent(c, filter)
	if err != nil {
		return err
	}
	const before, between, after = `{"type":"delta","id":"`, `",`, `}` // an id needs no escapes
	if len(body.pieces) > 1 {
		s.out.addDocument([]byte(before+sub.id+between), s.srv.changeDocument(c, filter, body))
	} else {
		members := body.pieces[0]
		b := appendHeader(s.out.bytes(), websocket.TextMessage, len(before)+len(sub.id)+len(between)+len(members)+len(after))
		b = append(append(append(b, before...), sub.id...), between...)
		*s.out.frames = append(append(b, members...), after...)
	}
	sub.sent()
	return nil
}

// snapshot sends the current result. If the log does not continue from the client's
// position, the subscription starts again with the reason.
func (sub *subscription) snapshot(lost string) error {
	if lost != "" {
		return sub.restart(lost)
	}
	st, res, err := sub.session.srv.results.current(sub.follows)
	if err != nil {
		return err
	}
	if res == nil { // history began again and has no result yet
		return sub.restart(registry.OtherEpoch)
	}
	return sub.transferResult(&st)
}

// state reports a transition between live and stale, the only states that a follower
// needs and that older clients know. reason distinguishes stale, failing and idle. A
// query that fails before its first result is stale as well.
func (sub *subscription) state(st *registry.Status) error {
	stale := !st.State.Current() || st.State == registry.New && st.Error != ""
	if stale == sub.stale || st.State == registry.Paused {
		return nil
	}
	fields := []field{{"id", sub.id}, {"state", string(registry.Live)}, {"checked_at", timeOrNil(st.CheckedAt)}, {"next_due", timeOrNil(sub.member.topic.due(sub.endpoint))}}
	if stale {
		fields[1].value = string(registry.Stale)
		reason := st.State
		if reason == registry.New {
			reason = registry.Stale
		}
		fields = append(fields, field{"reason", string(reason)}, field{"error", st.Error})
	}
	if err := sub.session.out.write(frame("status", fields...)); err != nil {
		return err
	}
	sub.stale = stale
	return nil
}

// heartbeat confirms to a quiet client that nothing changed, or enqueues the
// subscription if something did.
func (sub *subscription) heartbeat() error {
	if sub.captures != nil {
		return sub.heartbeatOfCaptures()
	}
	if sub.transfer != nil {
		return nil
	}
	s := sub.session
	st, _, err := s.srv.opts.Log.Current(sub.follows, false)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return sub.end("released")
	case err != nil:
		s.srv.opts.Logger.Error("read a status", "query", sub.follows, "error", err)
		return nil
	case st.Position != sub.cursor.Seen():
		sub.member.topic.expire()
		s.enqueue(sub)
		return nil
	}
	if err := sub.state(&st); err != nil {
		return err
	}
	if _, moved := sub.cursor.Settle(); moved {
		sub.moved()
	}
	return sub.alive(st.CheckedAt)
}

func (sub *subscription) alive(checked time.Time) error {
	sub.lastSent = time.Now()
	p := sub.at()
	return sub.session.out.write(frame("alive", field{"id", sub.id}, field{"epoch", p.Epoch}, field{"seq", p.Seq}, field{"checked_at", timeOrNil(checked)}))
}
