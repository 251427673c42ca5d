package notify

import (
	"context"
	"net/http"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// All answers a request with server-sent events: the changes of all queries that allow admits. It is the channel
// allChanges of web/docs/asyncapi.yaml. Withheld changes stay in the log, and the id of an event lists the queries that
// have some, so a reader that resumes with it misses nothing and receives nothing twice.
func (s *Server) All(w http.ResponseWriter, r *http.Request, caller string, allow func(*registry.Change) bool) {
	filter, rate, err := cursor.ParseParams(r.URL.Query())
	if err != nil {
		malformed(w, err)
		return
	}
	t := &allStream{s: s, cursor: cursor.MultiCursor{Filter: filter, Rate: rate, Limit: s.opts.Limits.Change,
		Wants: func(c *registry.Change) (bool, error) { return allow(c), nil }}}
	if text := lastEventID(r); text != "" {
		if t.cursor.Resume(text) != nil {
			badPosition(w, r, "be the id of an event: epoch:number")
			return
		}
	} else {
		head, err := s.opts.Head()
		if err != nil {
			s.sseError(w, err)
			return
		}
		t.cursor.Jump(head)
	}
	about := eventsOf(r, caller)
	about.Tag, about.Endpoint, about.Filter, about.Rate = r.URL.Query().Get("tag"), r.URL.Query().Get("endpoint"), filter.JSON(),
		registry.Duration(rate)
	s.stream(w, r, func(ctx context.Context, e *events) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		t.ctx, t.e, t.awake = ctx, e, s.opts.Waker.FollowAll() // before the first read, so that no commit slips between
		defer t.awake.Close()
		t.listed = s.Enlist(*about, func() { cancel(ErrDropped) })
		t.listed.follow(t.cursor.At(), t.awake)
		defer t.listed.Leave()
		return t.run()
	})
}

// An allStream writes the events of a cursor over all queries.
type allStream struct {
	s      *Server
	ctx    context.Context
	e      *events
	awake  *Follower
	listed *Entry
	cursor cursor.MultiCursor
	id     string // the last event id that was sent
}

func (t *allStream) run() (err error) {
	t.e.held = true
	for err == nil && t.ctx.Err() == nil {
		err = t.step()
	}
	t.e.held = false
	if context.Cause(t.ctx) == ErrDropped {
		return t.e.complete("dropped")
	}
	return err
}

// step writes the next event, or waits until there may be one.
func (t *allStream) step() error {
	if t.listed.paused.Load() {
		return t.wait(time.Time{})
	}
	ev, err := t.cursor.Next(t.ctx, &t.s.reader, time.Now())
	if err != nil {
		return err
	}
	t.listed.moved(t.cursor.At())
	switch ev.Kind {
	case cursor.Change:
		return t.change(&ev)
	case cursor.Moved:
		return t.write("alive", field{"query", ev.Query}, field{"epoch", ev.At.Epoch}, field{"seq", ev.At.Seq},
			field{"checked_at", TimeOrNil(ev.CheckedAt)})
	case cursor.Gap:
		if ev.Reason == cursor.TooLarge {
			t.cursor.Sent(time.Now())
		}
		return t.write("gap", field{"reason", ev.Reason}, field{"query", ev.Query})
	}
	return t.wait(ev.Until)
}

// change writes a change. It holds none while it waits for the reader.
func (t *allStream) change(ev *cursor.Event) error {
	doc, err := t.s.openChange(ev.Change, t.cursor.Filter)
	if ev.Change = nil; err != nil {
		return err
	}
	t.id = t.cursor.EventID()
	t.cursor.During(func() { err = t.e.document("change", t.id, []byte("{"), doc, []byte("}")) })
	if err != nil {
		return err
	}
	now := time.Now()
	t.listed.delivered(now)
	t.cursor.Sent(now)
	return nil
}

func (t *allStream) write(kind string, fields ...field) error {
	t.id = t.cursor.EventID()
	return t.e.event(kind, t.id, frameless(fields...))
}

// wait sends what was written and waits until there may be an event. After a quiet
// heartbeat interval it sends an id without data, which moves the reader past changes that
// it may not see.
func (t *allStream) wait(until time.Time) error {
	if err := t.e.flush(); err != nil {
		return err
	}
	if !t.awake.wait(t.ctx, time.Now().Add(t.s.opts.Timing.Ping), until) {
		return nil
	}
	id := t.cursor.EventID()
	if id == t.id {
		return t.e.comment()
	}
	t.id = id
	return t.e.write([]byte("id: "+id+"\n:\n\n"), nil, nil)
}
