package notify

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// StreamOptions say how a stream of one query's changes is to be.
type StreamOptions struct {
	After  *registry.Position // where to go on; nil: the present result comes first
	Filter *cursor.Filter
	Rate   time.Duration // the least time between two messages; what waits is folded
	// Lagging reports whether the consumer has fallen behind since the last call:
	// what waits is then folded. nil: it never does.
	Lagging func() bool
	// Limited lets a net change above Limits.Change give way to a snapshot.
	// Without it everything is sent as a change, whatever its size.
	Limited bool
	// As is how the stream is listed among the subscriptions: way out, caller and
	// name are enough. Without a way out it is not listed.
	As registry.Subscription
}

// A StreamEvent is one thing to send to a consumer. At is its position then.
type StreamEvent struct {
	Kind      StreamKind
	At        registry.Position
	CheckedAt time.Time // of StreamChange and StreamMoved
	Filtered  bool      // what is shown is not all
	Reason    string    // of StreamGap
	Status    registry.Status
	*StreamContent
}

// A StreamContent is what may be large in an event.
type StreamContent struct {
	Change *registry.Change // of StreamChange; follows the At of the event before
	Result *diff.Result     // of StreamSnapshot, nil while there is none yet
	filter *cursor.Filter
}

// Rows are what the filter leaves of a snapshot, with their head.
func (c *StreamContent) Rows() (vars []string, rows diff.Rows) {
	t := tableOf(c.filter, c.Result)
	rows = make(diff.Rows, 0, t.len())
	if c.Result.Form() != diff.Ask {
		for i := range t.len() {
			rows = append(rows, t.row(i))
		}
	}
	return t.vars, rows
}

// Release lets go of the content. A consumer calls it before it waits: what it
// needs for longer it opens as a document.
func (c *StreamContent) Release() { *c = StreamContent{} }

// StreamKind is the kind of a StreamEvent.
type StreamKind int

const (
	StreamSnapshot StreamKind = iota // the result as a whole, in the place of all before
	StreamChange
	StreamMoved // the changes up to At cancelled out, or the filter shows nothing of them
	StreamGap   // the log does not continue; a snapshot follows
	StreamIdle  // nothing for the length of a heartbeat
)

// Stream follows one query for one consumer: what was missed and what is yet to
// come are one sequence. The consumer's pace is the stream's. While it keeps the
// stream waiting, the stream holds nothing but its cursor.
// The sequence ends with ctx, or with an error: the log's, registry.ErrNotFound
// (wrapped) when no one holds the query any more, ErrDropped.
func (s *Server) Stream(ctx context.Context, query string, o StreamOptions) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		awake := s.opts.Waker.Follow(query) // before the first read, so that no commit slips between
		defer awake.Close()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		rules := &s.unlimited
		if o.Limited {
			rules = &s.limited
		}
		t := &stream{s: s, ctx: ctx, awake: awake, yield: yield, last: time.Now(),
			cursor: cursor.Cursor{Query: query, Filter: o.Filter, Rate: o.Rate, Late: o.Lagging, Rules: rules}}
		if o.After != nil {
			t.cursor.Jump(*o.After)
		}
		o.As.Query, o.As.Rate, o.As.Filter = query, registry.Duration(o.Rate), o.Filter.JSON()
		t.listed = s.list(o.As, t.cursor.At(), func() { cancel(ErrDropped) }, awake.signal)
		defer s.listing.remove(t.listed)
		if err := t.run(); err != nil && err != errStopped {
			yield(StreamEvent{At: t.cursor.At()}, err)
		}
	}
}

// errStopped says that the consumer has enough.
var errStopped = errors.New("the consumer stopped")

// A stream brings the events of a cursor to a consumer that blocks.
type stream struct {
	s      *Server
	ctx    context.Context
	awake  *Follower
	listed *listed
	yield  func(StreamEvent, error) bool
	cursor cursor.Cursor
	last   time.Time // when the consumer last got something
}

func (t *stream) run() (err error) {
	for err == nil && t.ctx.Err() == nil {
		err = t.step()
	}
	if context.Cause(t.ctx) == ErrDropped && err != errStopped {
		return ErrDropped
	}
	if t.ctx.Err() != nil {
		return nil
	}
	return err
}

// step brings the next event, or waits until there may be one.
func (t *stream) step() error {
	st, _, err := t.s.opts.Log.Current(t.cursor.Query, false)
	if err != nil {
		return err
	}
	if t.listed.paused.Load() { // after the log was read, so that no change from after the pause is sent
		return t.wait(time.Time{})
	}
	ev, err := t.cursor.Next(t.ctx, &t.s.reader, st.Position, time.Now())
	if err != nil {
		return err
	}
	t.s.folded.Add(uint64(ev.Folded))
	switch ev.Kind {
	case cursor.Change:
		c := *ev.Change
		return t.send(StreamEvent{Kind: StreamChange, At: ev.At, CheckedAt: ev.CheckedAt, StreamContent: &StreamContent{Change: &c}})
	case cursor.Moved:
		return t.emit(StreamEvent{Kind: StreamMoved, At: ev.At, CheckedAt: ev.CheckedAt})
	case cursor.Snapshot:
		return t.replace(ev.Lost())
	}
	return t.wait(ev.Until)
}

// replace brings the present result, after a gap if the log has one.
func (t *stream) replace(gap string) error {
	if gap != "" {
		if err := t.emit(StreamEvent{Kind: StreamGap, At: t.cursor.At(), Reason: gap}); err != nil {
			return err
		}
	}
	st, res, err := t.s.results.current(t.cursor.Query)
	if err != nil {
		return err
	}
	t.cursor.Jump(st.Position)
	e := StreamEvent{Kind: StreamSnapshot, At: st.Position, Status: st, StreamContent: &StreamContent{Result: res}}
	if res == nil {
		return t.emit(e)
	}
	res = nil
	return t.send(e)
}

// send brings a message that counts.
func (t *stream) send(e StreamEvent) error {
	t.s.sent.Add(1)
	if err := t.emit(e); err != nil {
		return err
	}
	now := time.Now()
	t.listed.delivered(now)
	t.cursor.Sent(now)
	return nil
}

func (t *stream) emit(e StreamEvent) error {
	t.last = time.Now()
	t.listed.moved(t.cursor.At())
	if e.StreamContent == nil {
		e.StreamContent = new(StreamContent)
	}
	e.filter = t.cursor.Filter
	e.Filtered = !t.cursor.Filter.All()
	t.cursor.Lend()
	defer t.cursor.Back()
	if !t.yield(e, nil) {
		return errStopped
	}
	return nil
}

// wait waits until there may be an event. After a quiet heartbeat interval it sends
// a sign of life.
func (t *stream) wait(until time.Time) error {
	if !waitFor(t.ctx, t.awake.C(), time.Until(t.last.Add(t.s.opts.Timing.Ping)), until) {
		return nil
	}
	if until.IsZero() {
		if ev, moved := t.cursor.Settle(); moved {
			return t.emit(StreamEvent{Kind: StreamMoved, At: ev.At, CheckedAt: ev.CheckedAt})
		}
	}
	return t.emit(StreamEvent{Kind: StreamIdle, At: t.cursor.At()})
}

// waitFor waits for a wake-up or, if until is set, for that moment. It waits no
// longer than quiet, and reports whether that time passed without a wake-up.
func waitFor(ctx context.Context, awake <-chan struct{}, quiet time.Duration, until time.Time) (idle bool) {
	pause := quiet
	if !until.IsZero() {
		pause, awake = min(quiet, time.Until(until)), nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-awake:
		return false
	case <-timer.C:
	}
	select {
	case <-awake: // it came at the same time
		return false
	default:
		return pause == quiet
	}
}
