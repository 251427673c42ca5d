package notify

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A Wish says how a stream of one query's changes is to be.
type Wish struct {
	After  *registry.Position // where to go on; nil: the present result comes first
	Filter Filter
	Rate   time.Duration // the least time between two messages; what waits is folded
	// Lagging says whether the consumer has fallen behind since the last call:
	// what waits is then folded. nil: it never does.
	Lagging func() bool
	// Limited lets a net change above Limits.Change give way to a snapshot.
	// Without it everything is sent as a change, whatever its size.
	Limited bool
	// As is how the stream is listed among the subscriptions: way out, caller and
	// name are enough. Without a way out it is not listed.
	As registry.Subscription
}

// A StreamEvent is one thing to tell a consumer. At is where it stands then.
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
	filter Filter
}

// Rows are what the filter leaves of a snapshot, with their head.
func (c *StreamContent) Rows() (vars []string, rows diff.Rows) {
	t := c.filter.f.rows(c.Result)
	rows = make(diff.Rows, 0, t.len())
	if c.Result.Form() != diff.Ask {
		for i := range t.len() {
			rows = append(rows, t.row(i))
		}
	}
	return t.vars, rows
}

// Release lets go of the content. A consumer that waits for somebody calls it
// before: what it needs for longer it opens as a document.
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
// come are one sequence, filtered and held back as w wishes. A filter's
// thresholds apply to the net change since the last message, so what it holds
// back is not lost: it goes out with what makes the sum pass. The consumer's
// pace is the stream's. While it keeps the stream waiting, the stream holds nothing
// but its position.
// The sequence ends with ctx, or with an error: the log's, registry.ErrNotFound
// (wrapped) when nobody holds the query any more, ErrDropped.
func (s *Server) Stream(ctx context.Context, query string, w Wish) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		awake := s.opts.Hub.Follow(query) // before the first read, so that no commit slips between
		defer awake.Close()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		w.As.Query, w.As.Rate, w.As.Filter = query, registry.Duration(w.Rate), w.Filter.JSON()
		t := &stream{Wish: w, s: s, query: query, ctx: ctx, awake: awake, yield: yield, told: time.Now()}
		t.listed = s.list(w.As, t.pos, func() { cancel(ErrDropped) }, awake.signal)
		defer s.listing.remove(t.listed)
		if err := t.run(ctx); err != nil && err != errStopped {
			yield(StreamEvent{At: t.pos}, err)
		}
	}
}

// errStopped says that the consumer has enough.
var errStopped = errors.New("the consumer stopped")

// A stream is the cursor behind Server.Stream.
type stream struct {
	Wish
	ctx    context.Context
	s      *Server
	query  string
	awake  *Follower
	listed *listed
	yield  func(StreamEvent, error) bool

	pos       registry.Position // the consumer's
	pending   *pending          // what the filter holds back behind it
	fold      bool              // was held back by its rate
	notBefore time.Time
	told      time.Time // when the consumer last heard something
}

func (t *stream) run(ctx context.Context) error {
	err := t.begin()
	for err == nil && ctx.Err() == nil {
		err = t.step(ctx)
		var gap *registry.GapError
		if errors.As(err, &gap) {
			if err = t.tell(StreamEvent{Kind: StreamGap, At: t.pos, Reason: gap.Reason}); err == nil {
				err = t.snapshot()
			}
		}
	}
	if context.Cause(ctx) == ErrDropped && err != errStopped {
		return ErrDropped
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (t *stream) begin() error {
	if t.After == nil {
		return t.snapshot()
	}
	t.moved(*t.After)
	return nil
}

func (t *stream) tell(e StreamEvent) error {
	t.told = time.Now()
	if e.StreamContent == nil {
		e.StreamContent = new(StreamContent)
	}
	e.filter = t.Filter
	e.Filtered = !t.Filter.All()
	if !t.yield(e, nil) {
		return errStopped
	}
	return nil
}

// seen is the position up to which everything is either sent or held back.
func (t *stream) seen() registry.Position {
	if t.pending != nil {
		return t.pending.last.Position()
	}
	return t.pos
}

func (t *stream) moved(p registry.Position) {
	t.pos, t.pending, t.fold = p, nil, false
	t.listed.at.Store(&p)
}

// sent tells a message that counts for the rate.
func (t *stream) sent(e StreamEvent) error {
	t.moved(e.At)
	t.s.sent.Add(1)
	err := t.tell(e)
	if err == nil {
		t.listed.delivered(time.Now())
	}
	t.notBefore = time.Now().Add(t.Rate)
	return err
}

// step looks at the log once, or waits until that makes sense.
func (t *stream) step(ctx context.Context) error {
	if t.listed.halted.Load() {
		return t.wait(ctx)
	}
	if held := time.Until(t.notBefore); held > 0 {
		t.fold = true
		return t.rest(ctx, held)
	}
	st, _, err := t.s.opts.Log.Current(t.query, false)
	if err != nil {
		return err
	}
	if t.seen() == st.Position {
		t.fold = false
		return t.wait(ctx)
	}
	page, err := t.s.page(t.query, t.seen(), st.Position)
	switch {
	case err != nil:
		return err
	case len(page) == 0:
		t.fold = false
		return t.wait(ctx)
	case t.folds(len(page)):
		return t.net(ctx, page)
	}
	return t.page(page)
}

// page tells changes one by one. It lets go of the page while the consumer keeps
// it waiting; what is left is read again.
func (t *stream) page(page []registry.Change) error {
	var held loan[[]registry.Change]
	held.put(page)
	for i, n := 0, len(page); i < n; i++ {
		rest, ok := held.take()
		if !ok {
			return nil
		}
		c := rest[i]
		e := StreamEvent{Kind: StreamChange, At: c.Position(), CheckedAt: c.CheckedAt, StreamContent: &StreamContent{Change: &c}}
		rest = nil
		if i == n-1 {
			held.drop()
			return t.sent(e)
		}
		held.lend()
		err := t.sent(e)
		held.back()
		if err != nil {
			return err
		}
	}
	return nil
}

// rest waits for a stream's rate; a heartbeat's length of it is told as idle.
func (t *stream) rest(ctx context.Context, held time.Duration) error {
	quiet := t.quiet()
	timer := time.NewTimer(min(held, quiet))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		if held > quiet {
			return t.tell(StreamEvent{Kind: StreamIdle, At: t.pos})
		}
	}
	return nil
}

// quiet is how much longer the consumer may go without hearing anything.
func (t *stream) quiet() time.Duration { return time.Until(t.told.Add(t.s.opts.Timing.Ping)) }

// wait waits for a wake-up or a heartbeat.
func (t *stream) wait(ctx context.Context) error {
	beat := time.NewTimer(t.quiet())
	defer beat.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-t.awake.C():
		return nil
	case <-beat.C:
	}
	if p := t.pending; p != nil && p.empty {
		t.moved(p.last.Position())
		return t.tell(StreamEvent{Kind: StreamMoved, At: t.pos, CheckedAt: p.last.CheckedAt})
	}
	return t.tell(StreamEvent{Kind: StreamIdle, At: t.pos})
}

// folds says whether waiting changes go out as one.
func (t *stream) folds(waiting int) bool {
	late := t.Lagging != nil && t.Lagging()
	return t.fold || t.Rate > 0 || !t.Filter.All() || waiting > t.s.opts.Limits.Fold || waiting > 1 && late
}

// net sends everything that waits as one change: nothing when it cancels out
// or the filter is against it, a snapshot when it would be too large.
func (t *stream) net(ctx context.Context, page []registry.Change) error {
	limit := int64(0)
	if t.Limited {
		limit = t.s.opts.Limits.Change
	}
	if t.pending.short(t.Filter.f, page) {
		return nil
	}
	var f folding
	err := t.s.addUp(ctx, t.s.longFold, &f, t.pending, t.query, t.pos, page, limit)
	page = nil
	switch {
	case errors.Is(err, errTooLarge) || errors.Is(err, diff.ErrMismatch):
		return t.snapshot()
	case err != nil:
		return err
	}
	net := t.Filter.f.delta(f.net)
	if !t.Filter.All() && !t.Filter.f.passes(net) {
		t.pending = withheld(t.Filter.f, &f, net)
		return nil
	}
	t.s.folded.Add(uint64(max(f.count, 1) - 1))
	if f.net == nil {
		t.moved(f.last.Position())
		return t.tell(StreamEvent{Kind: StreamMoved, At: t.pos, CheckedAt: f.last.CheckedAt})
	}
	c := f.change(t.pos)
	c.Delta = net
	f, net = folding{}, nil
	return t.sent(StreamEvent{Kind: StreamChange, At: c.Position(), CheckedAt: c.CheckedAt, StreamContent: &StreamContent{Change: &c}})
}

// snapshot tells the present result.
func (t *stream) snapshot() error {
	st, res, err := t.s.results.current(t.query)
	if err != nil {
		return err
	}
	e := StreamEvent{Kind: StreamSnapshot, At: st.Position, Status: st, StreamContent: &StreamContent{Result: res}}
	if res == nil {
		t.moved(st.Position)
		return t.tell(e)
	}
	res = nil
	return t.sent(e)
}
