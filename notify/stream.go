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
	// enough. Without Way the stream is not listed.
	As registry.Subscription
}

// A StreamEvent is one event for a consumer. At is the consumer's position after it.
type StreamEvent struct {
	Kind      StreamKind
	At        registry.Position
	CheckedAt time.Time // of StreamChange and StreamMoved
	Filtered  bool      // a filter applies
	Reason    string    // of StreamGap
	Status    registry.Status
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
	t := tableOf(c.filter, c.Result)
	rows = make(diff.Rows, 0, t.len())
	if c.Result.Form() != diff.Ask {
		for i := range t.len() {
			rows = append(rows, t.row(i))
		}
	}
	return t.vars, rows
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
)

// Stream follows one query for one consumer. Missed and new changes are one sequence.
// The consumer sets the pace: while it blocks the stream, the stream holds only its
// cursor. The sequence ends with ctx or with an error: that of the log, one that
// wraps registry.ErrNotFound when the query has no holder any more, or ErrDropped.
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

// errStopped reports that the consumer ended the iteration.
var errStopped = errors.New("the consumer stopped")

// A stream passes the events of a cursor to a blocking consumer.
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

// step emits the next event, or waits until there may be one.
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

// replace emits the current result, after a gap if the log does not continue.
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

// send emits an event that counts as a message.
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

// wait waits until there may be an event. After a quiet heartbeat interval it emits
// an event without content.
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
