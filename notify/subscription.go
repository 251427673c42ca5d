package notify

import (
	"errors"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A subscription is a cursor over one query's changes, or one profile's captures,
// with the wishes of its client.
type subscription struct {
	id        string
	session   *session
	topic     *topic
	place     int  // in topic.subs, guarded by topic.mu
	awake     bool // stands in session.awake, guarded by session.mail
	over      bool // has left
	query     registry.Query
	release   func()
	snapshots bool // mode "snapshot"
	rate      time.Duration
	filter    *filter
	captures  *capturesCursor // of a profile; nil: of query

	giving    *giving           // the result that is being sent, part by part
	pos       registry.Position // last sent: what the client's next delta begins at
	pending   *pending          // what a filter holds back
	queued    bool              // stands in session.queue
	fold      bool              // was held back: what waits goes out as one
	stale     bool              // as the client was told
	notBefore time.Time         // by rate
	lastSent  time.Time

	acking  bool
	unacked []uint64 // positions sent, at most the window
	listed  *listed  // as others see it
}

// pending is the net change behind sub.pos that a filter keeps from being sent.
type pending struct {
	last  registry.Change // the newest change looked at
	kept  bool            // net is there; otherwise it is added up from the log again
	net   *diff.Delta     // nil where everything cancelled out
	bound bound           // of one that is not kept
	empty bool            // nothing in it passes the filter
}

// keepPending is the size in bytes up to which a held back net change is kept
// instead of being folded from the log again, once it may pass.
const keepPending = 64 << 10

func newSubscription(r request) (*subscription, *registry.Position, error) {
	sub := &subscription{id: r.ID, release: func() {}}
	var err error
	if sub.snapshots, err = r.snapshotMode(); err != nil {
		return nil, nil, err
	}
	if sub.rate, err = r.rate(); err != nil {
		return nil, nil, err
	}
	if sub.filter, err = parseFilter(r.Filter); err != nil {
		return nil, nil, err
	}
	p, ok, err := r.position()
	if err != nil || !ok {
		return sub, nil, err
	}
	return sub, &p, nil
}

// seen is the position up to which everything is either sent or held back.
func (s *subscription) seen() registry.Position {
	if s.pending != nil {
		return s.pending.last.Position()
	}
	return s.pos
}

// moved notes that the client was told of everything up to p.
func (s *subscription) moved(p registry.Position) { s.movedTo(&p) }

// movedTo is moved for a position that is shared and never written to.
func (s *subscription) movedTo(p *registry.Position) {
	s.pos, s.pending, s.fold = *p, nil, false
	s.listed.at.Store(p)
	s.lastSent = time.Now()
}

// counts notes a message that a client which acknowledges has to answer for.
func (s *subscription) counts(window int) {
	s.listed.delivered(s.lastSent)
	if s.rate > 0 {
		s.notBefore = s.lastSent.Add(s.rate)
	}
	s.unacked = append(s.unacked, s.pos.Seq)
	if over := len(s.unacked) - window; over > 0 {
		s.unacked = append(s.unacked[:0], s.unacked[over:]...)
	}
}

// ack frees the window. What waited for a full one goes out as one.
func (s *subscription) ack(seq uint64, window int) {
	s.fold = s.fold || s.full(window)
	s.acking = true
	kept := s.unacked[:0]
	for _, n := range s.unacked {
		if n > seq {
			kept = append(kept, n)
		}
	}
	s.unacked = kept
}

// full says that the client has to acknowledge something first.
func (s *subscription) full(window int) bool { return s.acking && len(s.unacked) >= window }

// enqueue puts a subscription in turn to be looked at.
func (s *session) enqueue(sub *subscription) {
	if !sub.queued {
		sub.queued = true
		s.queue = append(s.queue, sub)
		s.due.Or(dueQueue)
	}
}

// deliverNext serves the subscription whose turn it is: one page of its log, or
// one part of its result. giving says that more parts follow.
func (s *session) deliverNext() (giving bool, err error) {
	sub := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	sub.queued = false
	switch {
	case sub.listed.halted.Load():
		return false, nil // resuming it queues it again
	case sub.giving != nil:
		err = s.givePart(sub)
		return sub.giving != nil, s.delivered(sub, err)
	case sub.full(s.srv.opts.Limits.Window):
		sub.fold = true
		return false, nil // ack will queue it again
	}
	if sub.rate > 0 && time.Now().Before(sub.notBefore) {
		sub.fold = true
		if s.holds == nil {
			s.holds = make(map[*subscription]struct{})
		}
		s.holds[sub] = struct{}{}
		return false, nil
	}
	err = s.delivered(sub, s.deliver(sub))
	return sub.giving != nil, err
}

// delivered looks at how a delivery failed, if it did.
func (s *session) delivered(sub *subscription, err error) error {
	var gap *registry.GapError
	if errors.As(err, &gap) {
		err = s.restart(sub, gap.Reason) // which can fail like any delivery
	}
	var refused *refusal
	var closed *closing
	switch {
	case err == nil || errors.Is(err, errGone) || errors.As(err, &closed):
		return err
	case errors.Is(err, registry.ErrNotFound):
		return s.complete(sub, "released")
	}
	// The log failed. The next heartbeat sees that something is left to send.
	if err = s.unavailable("read the log", err); errors.As(err, &refused) {
		refused.id = sub.id
	}
	return err
}

func (s *session) deliver(sub *subscription) error {
	if sub.captures != nil {
		return s.deliverCaptures(sub)
	}
	st, err := sub.topic.current()
	if err != nil {
		return err
	}
	if sub.seen() == st.Position {
		return s.settle(sub, st)
	}
	page, err := sub.topic.after(sub.seen(), st.Position)
	if err != nil {
		return err
	}
	switch {
	case len(page) == 0:
		return s.settle(sub, st)
	case sub.snapshots && sub.filter == nil:
		s.enqueue(sub) // until the log has no more
		return s.snapshot(sub)
	case s.folds(sub, len(page)):
		s.enqueue(sub)
		return s.deliverNet(sub, page)
	}
	if err := s.deliverPage(sub, page, &st.Position); err != nil {
		return err
	}
	if sub.pos == st.Position && sub.giving == nil && s.big == nil {
		return s.settle(sub, st)
	}
	s.enqueue(sub)
	return nil
}

// deliverPage says changes one by one, for as long as their reader keeps up and
// until enough has been said: what is written meanwhile is not held by a page.
func (s *session) deliverPage(sub *subscription, page []registry.Change, now *registry.Position) error {
	for i := range page {
		if s.full() || s.wire.blocked.Load() || sub.full(s.srv.opts.Limits.Window) {
			return nil // the rest waits, or will be folded
		}
		if s.format().TooLarge(page[i].Delta) {
			return s.snapshot(sub)
		}
		if err := s.delta(sub, &page[i], now); err != nil {
			return err
		}
	}
	return nil
}

// folds says whether waiting changes go out as one. A write that took long
// means that everything else on this connection is late as well.
func (s *session) folds(sub *subscription, waiting int) bool {
	if s.wire.blocked.Swap(false) {
		for _, other := range s.subs {
			other.fold = true
		}
	}
	return sub.fold || sub.rate > 0 || sub.filter != nil || waiting > s.srv.opts.Limits.Fold
}

func (s *session) format() Format { return s.srv.format() }

// delta says a change; now is where the query stands, if that is known. It does
// not write.
func (s *session) delta(sub *subscription, c *registry.Change, now *registry.Position) error {
	body, err := s.srv.changeContent(c, Filter{sub.filter})
	if err != nil {
		return err
	}
	const before, between, after = `{"type":"delta","id":"`, `",`, `}` // an id needs no escapes
	if len(body.pieces) > 1 {
		s.sayDocument([]byte(before+sub.id+between), s.srv.changeDocument(c, Filter{sub.filter}, body))
	} else {
		members := body.pieces[0]
		b := appendHeader(s.said(), websocket.TextMessage, len(before)+len(sub.id)+len(between)+len(members)+len(after))
		b = append(append(append(b, before...), sub.id...), between...)
		*s.out = append(append(b, members...), after...)
	}
	s.srv.sent.Add(1)
	if now != nil && now.Seq == c.Seq && now.Epoch == c.Epoch {
		sub.movedTo(now) // the same for all followers
	} else {
		sub.moved(c.Position())
	}
	sub.counts(s.srv.opts.Limits.Window)
	return nil
}

// settle is for a subscription that has nothing more to send: it tells whether
// its query still works.
func (s *session) settle(sub *subscription, st *registry.Status) error {
	sub.fold = false
	return s.state(sub, st)
}

// state tells a transition between live and stale. For a follower there are no
// other states: what it holds is kept up to date or it is not, and clients of the
// first version know these two. reason tells stale, failing and idle apart, for
// those who want to know. A query that was never complete is stale too: its client
// waits for nothing otherwise.
func (s *session) state(sub *subscription, st *registry.Status) error {
	stale := !st.State.Current() || st.State == registry.New && st.Error != ""
	if stale == sub.stale || st.State == registry.Paused {
		return nil
	}
	fields := []field{{"id", sub.id}, {"state", string(registry.Live)}, {"checked_at", timeOrNil(st.CheckedAt)}, {"next_due", timeOrNil(sub.topic.due(sub.query.Endpoint))}}
	if stale {
		fields[1].value = string(registry.Stale)
		reason := st.State
		if reason == registry.New {
			reason = registry.Stale
		}
		fields = append(fields, field{"reason", string(reason)}, field{"error", st.Error})
	}
	if err := s.write(frame("status", fields...)); err != nil {
		return err
	}
	sub.stale = stale
	return nil
}

func timeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// alive tells a quiet subscription up to when nothing changed, or finds that
// something did.
func (s *session) alive(sub *subscription) error {
	if sub.captures != nil {
		return s.aliveCaptures(sub)
	}
	if sub.giving != nil {
		return nil
	}
	st, _, err := s.srv.opts.Log.Current(sub.query.ID, false)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return s.complete(sub, "released")
	case err != nil:
		s.srv.opts.Logger.Error("read a status", "query", sub.query.ID, "error", err)
		return nil
	case st.Position != sub.seen():
		sub.topic.expire()
		s.enqueue(sub)
		return nil
	}
	if err := s.state(sub, &st); err != nil {
		return err
	}
	if sub.pending != nil && sub.pending.empty {
		sub.moved(sub.seen())
	}
	return s.sayAlive(sub, st.CheckedAt)
}

func (s *session) sayAlive(sub *subscription, checked time.Time) error {
	sub.lastSent = time.Now()
	return s.write(frame("alive", field{"id", sub.id}, field{"epoch", sub.pos.Epoch}, field{"seq", sub.pos.Seq}, field{"checked_at", timeOrNil(checked)}))
}
