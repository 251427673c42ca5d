package notify

import (
	"context"
	"errors"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// StreamOptions are the settings of a stream of one query's changes.
type StreamOptions struct {
	After  *registry.Position // position to resume from; nil: begin with the current result
	Filter *cursor.Filter
	Rate   time.Duration // the least time between two messages; what waits is folded
	// Lagging reports whether the consumer has fallen behind since the last call;
	// waiting changes are then folded. nil: it never has.
	Lagging func() bool
	// Limited replaces a net change above Limits.Change by a snapshot. Without it every
	// net change is sent, whatever its size.
	Limited bool
	// As is the stream's entry in the list of subscriptions. Way, Caller and Name are
	// enough. nil: the stream is not listed.
	As *registry.Subscription

	// Live is for clients that follow by freshet.v1; nil: none.
	Live *LiveOptions
}

// LiveOptions are the settings of a stream for freshet.v1. Such a stream says at its beginning whether
// the log continues from After, and reports the states of the query. It is Limited, and a single
// change above Limits.Change gives way to a snapshot, too.
type LiveOptions struct {
	Snapshots bool        // every message is the whole result
	Full      func() bool // the client takes nothing now; Entry.Wake makes the stream look again
	Turn      Turn
	Entry     *Entry // in place of As
	Stale     bool   // the client knows the query as stale; the stream sets it with each status
}

// A Turn is left while a stream waits, and entered before it goes on. A wake-up enters the turns of
// all streams that it wakes.
type Turn interface {
	Enter()
	Leave()
}

// A StreamEvent is one event for a consumer. At is the consumer's position after it.
type StreamEvent struct {
	Kind      StreamKind
	At        registry.Position
	CheckedAt time.Time // of StreamChange, StreamMoved and StreamIdle; zero while changes are held back
	Filtered  bool      // a filter applies
	Reason    string    // of StreamGap
	Status    registry.Status
	Stale     bool      // of StreamStatus
	Due       time.Time // of StreamStatus: when the query runs next, zero if that is not known
	*StreamContent
}

// A StreamContent holds the parts of an event that may be large.
type StreamContent struct {
	Change *registry.Change // of StreamChange; follows the At of the event before
	Result *diff.Result     // of StreamSnapshot, nil while there is none yet
	filter *cursor.Filter
}

// Rows returns the part of a snapshot that the filter selects: its variables and
// rows.
func (c *StreamContent) Rows() (vars []string, rows diff.Rows) {
	if vars, rows = c.filter.Rows(c.Result); rows == nil {
		rows = c.Result.All()
	}
	return vars, rows
}

// Release drops the content. A consumer calls it before it waits, and opens what it
// still needs as a document.
func (c *StreamContent) Release() { *c = StreamContent{} }

// StreamKind is the kind of a StreamEvent.
type StreamKind int

const (
	StreamSnapshot StreamKind = iota // the result as a whole, in the place of all before
	StreamChange
	StreamMoved // the changes up to At cancelled out, or the filter shows nothing of them
	StreamGap   // the log does not continue; a snapshot follows
	StreamIdle  // nothing for the length of a heartbeat

	StreamStatus  // Status is live or stale now; with Live
	StreamResumed // the log continues from After; with Live, at the beginning
)

// Follow follows one query for one consumer. It passes the events to send, on a small stack. Missed and new changes are one
// sequence. The consumer sets the pace: while it blocks the stream, the stream holds only its cursor. Follow returns nil at the end
// of ctx, else the error of send, that of the log, one that wraps registry.ErrNotFound when the query has no holder any more, or
// ErrDropped.
func (s *Server) Follow(ctx context.Context, query string, o *StreamOptions, send func(*StreamEvent) error) error {
	t := s.newStream(ctx, query, o)
	defer t.close()
	t.send = send
	err := t.begin(o.After != nil)
	if err == nil {
		err = t.run()
	}
	return t.why(err)
}

// newStream returns a stream that follows already, so that no commit slips between.
func (s *Server) newStream(ctx context.Context, query string, o *StreamOptions) *stream {
	t := &stream{s: s, live: o.Live, last: time.Now(), cursor: cursor.Cursor{Query: query, Filter: o.Filter, Rate: o.Rate,
		Late: o.Lagging, Rules: &s.unlimited}}
	switch {
	case o.Live != nil:
		t.cursor.Rules, t.cursor.Snapshots = &s.strict, o.Live.Snapshots
	case o.Limited:
		t.cursor.Rules = &s.limited
	}
	t.awake = s.opts.Waker.followOne(query, o.Live.turn())
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	if o.After != nil {
		t.cursor.Jump(*o.After)
	}
	if o.Live != nil {
		t.listed = o.Live.Entry
	} else {
		var about registry.Subscription
		if o.As != nil {
			about = *o.As
		}
		about.Query, about.Rate, about.Filter = query, registry.Duration(o.Rate), o.Filter.JSON()
		t.listed = s.Enlist(about, func() { t.cancel(ErrDropped) })
	}
	t.listed.follow(t.cursor.At(), t.awake)
	return t
}

// turn returns the turn of a stream, nil for none.
func (o *LiveOptions) turn() Turn {
	if o == nil {
		return nil
	}
	return o.Turn
}

func (t *stream) close() {
	if t.live == nil {
		t.listed.Leave()
	}
	t.cancel(nil)
	t.awake.Close()
}

// A stream passes the events of a cursor to a blocking consumer.
type stream struct {
	s      *Server
	ctx    context.Context
	cancel context.CancelCauseFunc
	awake  *Follower
	listed *Entry
	send   func(*StreamEvent) error
	live   *LiveOptions // nil for other protocols
	cursor cursor.Cursor
	last   time.Time // when the consumer last got something
}

// begin says whether the log continues from a position, or else emits the result, if the consumer
// wants to know that. A node of a cluster may ask the others.
func (t *stream) begin(resume bool) (err error) {
	if t.live == nil {
		return nil
	}
	t.live.Turn.Leave()
	if resume {
		err = t.cursor.Resume(&t.s.reader, t.cursor.At())
	} else {
		err = t.s.opts.Confirm()
	}
	t.live.Turn.Enter()
	var gap *registry.GapError
	switch {
	case errors.As(err, &gap):
		return t.replace(gap.Reason)
	case err != nil:
		return err
	case resume:
		return t.emit(&StreamEvent{Kind: StreamResumed, At: t.cursor.At()})
	}
	return t.replace("")
}

// why returns the error with which the sequence ends.
func (t *stream) why(err error) error {
	switch {
	case context.Cause(t.ctx) == ErrDropped:
		return ErrDropped
	case t.ctx.Err() != nil:
		return nil
	}
	return err
}

func (t *stream) run() (err error) {
	for err == nil && t.ctx.Err() == nil {
		var until time.Time
		var waits bool
		if until, waits, err = t.step(); err == nil && waits && t.awake.wait(t.ctx, t.last.Add(t.s.opts.Timing.Ping), until) {
			err = t.quiet()
		}
	}
	return err
}

// step emits the next event, or says until when to wait at most: zero is the next wake-up.
// It does not wait itself, because what waits should have a small stack.
func (t *stream) step() (until time.Time, waits bool, err error) {
	st, err := t.current()
	if err != nil {
		return until, false, err
	}
	if t.listed.paused.Load() || t.live != nil && t.live.Full() { // after the log was read, so that no change from after the pause is sent
		return until, true, nil
	}
	ev, err := t.cursor.Next(t.ctx, &t.s.reader, st.Position, time.Now())
	if err != nil {
		return until, false, err
	}
	switch ev.Kind {
	case cursor.Change:
		c := ev.Change
		if t.live == nil { // a WebSocket encodes the change before it waits
			c = new(*ev.Change)
		}
		return until, false, t.message(&StreamEvent{Kind: StreamChange, At: ev.At, CheckedAt: ev.CheckedAt,
			StreamContent: &StreamContent{Change: c}})
	case cursor.Moved:
		return until, false, t.emit(&StreamEvent{Kind: StreamMoved, At: ev.At, CheckedAt: ev.CheckedAt})
	case cursor.Snapshot:
		return until, false, t.replace(ev.Lost())
	}
	if ev.Until.IsZero() {
		err = t.status(st)
	}
	return ev.Until, true, err
}

// current returns the query's status, which all followers share.
func (t *stream) current() (*registry.Status, error) {
	return t.awake.audience.current(func() (registry.Status, error) {
		st, _, err := t.s.opts.Log.Current(t.cursor.Query, false)
		return st, err
	})
}

// status emits a transition between live and stale, the only states that a follower needs
// and that older clients know. A query that fails before its first result is stale as well, and so is a live one whose
// endpoint does not keep it up to date.
func (t *stream) status(st *registry.Status) error {
	if t.live == nil {
		return nil
	}
	why := ""
	if st.State == registry.Live {
		why = t.s.opts.Halted(t.listed.about.Endpoint)
	}
	stale := !st.State.Current() || st.State == registry.New && st.Error != "" || why != ""
	if stale == t.live.Stale || st.State == registry.Paused {
		return nil
	}
	t.live.Stale = stale
	e := &StreamEvent{Kind: StreamStatus, At: t.cursor.At(), Status: *st, Stale: stale, Due: t.due(st)}
	if why != "" {
		e.Status.State, e.Status.Error = registry.Stale, why
	}
	return t.emit(e)
}

// due predicts when the query runs next, zero if that cannot be predicted. A prediction may take as
// long as the start of a slot.
func (t *stream) due(st *registry.Status) time.Time {
	t.live.Turn.Leave()
	defer t.live.Turn.Enter()
	return t.awake.audience.due(st, func() time.Time {
		at, err := t.s.opts.Due(t.listed.about.Endpoint, t.cursor.Query)
		if err != nil {
			t.s.opts.Logger.Error("predict when a query runs", "query", t.cursor.Query, "error", err)
		}
		return at
	})
}

// replace emits the current result, after a gap if the log does not continue.
func (t *stream) replace(gap string) error {
	if gap != "" {
		if err := t.emit(&StreamEvent{Kind: StreamGap, At: t.cursor.At(), Reason: gap}); err != nil {
			return err
		}
	}
	st, res, err := t.s.Current(t.cursor.Query, true)
	if err != nil {
		return err
	}
	t.cursor.Jump(st.Position)
	e := &StreamEvent{Kind: StreamSnapshot, At: st.Position, Status: st, StreamContent: &StreamContent{Result: res}}
	if res == nil {
		return t.emit(e)
	}
	res = nil
	return t.message(e)
}

// message emits an event that counts as a message.
func (t *stream) message(e *StreamEvent) error {
	if err := t.emit(e); err != nil {
		return err
	}
	now := time.Now()
	t.listed.delivered(now)
	t.cursor.Sent(now)
	return nil
}

func (t *stream) emit(e *StreamEvent) error {
	t.last = time.Now()
	t.listed.moved(t.cursor.At())
	if e.StreamContent == nil {
		e.StreamContent = new(StreamContent)
	}
	e.filter = t.cursor.Filter
	e.Filtered = !t.cursor.Filter.All()
	return t.send(e)
}

// quiet emits an event without content after a quiet heartbeat interval.
func (t *stream) quiet() error {
	t.last = time.Now()
	t.awake.audience.expire()
	st, err := t.current()
	if err != nil {
		return err
	}
	if st.Position != t.cursor.Seen() { // the client lacks something
		return t.emit(&StreamEvent{Kind: StreamIdle, At: t.cursor.At()})
	}
	if err := t.status(st); err != nil {
		return err
	}
	if ev, moved := t.cursor.Settle(); moved {
		return t.emit(&StreamEvent{Kind: StreamMoved, At: ev.At, CheckedAt: st.CheckedAt})
	}
	return t.emit(&StreamEvent{Kind: StreamIdle, At: t.cursor.At(), CheckedAt: st.CheckedAt})
}

// wait waits for a wake-up or, if until is set, for that moment. It waits no longer than
// quiet, and reports whether that time has come. Meanwhile what was gathered is written. All
// calls have the same context. The end of the context and of the time are wake-ups, too,
// because one channel costs less than three.
func (f *Follower) wait(ctx context.Context, quiet, until time.Time) (idle bool) {
	held := !until.IsZero()
	if !held || quiet.Before(until) {
		until = quiet
	}
	if f.unhook == nil {
		f.unhook = context.AfterFunc(ctx, f.signal)
	}
	for ctx.Err() == nil {
		f.alarm(until)
		f.rest()
		<-f.c
		f.enterTurn()
		if !time.Now().Before(until) {
			return until.Equal(quiet) && ctx.Err() == nil
		}
		if !held {
			return false
		}
	}
	return false
}

// alarm wakes the follower at a time or earlier: setting the timer for each message costs
// more than looking again.
func (f *Follower) alarm(at time.Time) {
	now := time.Now()
	switch {
	case f.timer == nil:
		f.timer = time.AfterFunc(at.Sub(now), f.signal)
	case !f.alarmAt.After(now) || at.Before(f.alarmAt):
		f.timer.Reset(at.Sub(now))
	default:
		return
	}
	f.alarmAt = at
}
