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
	Kind     StreamKind
	At       registry.Position
	Change   *registry.Change // of StreamChange; follows the At of the event before
	Filtered bool             // what is shown is not all
	Reason   string           // of StreamGap

	// Of StreamSnapshot: Result is nil while there is none yet. Rows are what
	// the filter leaves of it, Vars their head.
	Status registry.Status
	Result *diff.Result
	Vars   []string
	Rows   diff.Rows
}

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
// pace is the stream's; it holds a page of the log and one net change at most.
// The sequence ends with ctx, or with an error: the log's, registry.ErrNotFound
// (wrapped) when nobody holds the query any more, ErrDropped.
func (s *Server) Stream(ctx context.Context, query string, w Wish) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		awake := s.opts.Hub.Follow(query) // before the first read, so that no commit slips between
		defer awake.Close()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		w.As.Query, w.As.Rate, w.As.Filter = query, registry.Duration(w.Rate), w.Filter.JSON()
		t := &stream{Wish: w, s: s, query: query, awake: awake, yield: yield, told: time.Now()}
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
	page, err := t.s.opts.Log.After(t.query, t.seen(), pageSize)
	switch {
	case err != nil:
		return err
	case len(page) == 0:
		t.fold = false
		return t.wait(ctx)
	case t.folds(len(page)):
		return t.net(page)
	}
	for i := range page {
		if err := t.sent(StreamEvent{Kind: StreamChange, At: page[i].Position(), Change: &page[i]}); err != nil {
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
		return t.tell(StreamEvent{Kind: StreamMoved, At: t.pos, Change: &p.last})
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
func (t *stream) net(page []registry.Change) error {
	limit := int64(0)
	if t.Limited {
		limit = t.s.opts.Limits.Change
	}
	var f folding
	if p := t.pending; p != nil {
		f.net, f.last = p.net, p.last
		if p.net == nil { // not kept
			f.last = registry.Change{Query: t.query, Epoch: t.pos.Epoch, Seq: t.pos.Seq}
			page = nil
		}
	}
	err := f.add(page, limit)
	if err == nil {
		err = f.rest(t.s.opts.Log, t.query, limit)
	}
	switch {
	case errors.Is(err, errTooLarge) || errors.Is(err, diff.ErrMismatch):
		return t.snapshot()
	case err != nil:
		return err
	}
	net := t.Filter.f.delta(f.net)
	if !t.Filter.All() && !t.Filter.f.passes(net) {
		t.pending = &pending{last: f.last, empty: net == nil}
		if f.net != nil && deltaSize(f.net) <= keepPending {
			t.pending.net = f.net
		}
		t.pending.last.Delta = nil
		return nil
	}
	t.s.folded.Add(uint64(max(f.count, 1) - 1))
	if f.net == nil {
		t.moved(f.last.Position())
		return t.tell(StreamEvent{Kind: StreamMoved, At: t.pos, Change: &f.last})
	}
	c := f.change(t.pos)
	c.Delta = net
	return t.sent(StreamEvent{Kind: StreamChange, At: c.Position(), Change: &c})
}

// snapshot tells the present result.
func (t *stream) snapshot() error {
	st, res, err := t.s.results.current(t.query)
	if err != nil {
		return err
	}
	e := StreamEvent{Kind: StreamSnapshot, At: st.Position, Status: st, Result: res}
	if res == nil {
		t.moved(st.Position)
		return t.tell(e)
	}
	all := t.Filter.f.rows(res)
	e.Vars, e.Rows = all.vars, make(diff.Rows, 0, all.len())
	if res.Form() != diff.Ask {
		for i := range all.len() {
			e.Rows = append(e.Rows, all.row(i))
		}
	}
	return t.sent(e)
}
