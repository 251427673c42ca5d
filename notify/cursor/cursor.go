// Package cursor follows the change log. A cursor holds a reader's position, what
// its filter and its rate hold back, and nothing else: every way out asks it for
// the next event, writes the event, and asks again. Live following and resuming
// after a gap are therefore the same loop.
//
// Cursor follows one query, MultiCursor all queries. Their Next reads at most one
// page of the log and decides; it neither waits nor sends. Neither type is safe
// for concurrent use.
package cursor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/freshet/freshet/notify/loan"
	"github.com/freshet/freshet/registry"
)

// Kind is the kind of an event.
type Kind int

const (
	// Wait: there is nothing to send before Until, or before the next wake-up when
	// Until is zero.
	Wait Kind = iota
	// Change: the reader gets Change, which begins where the reader was.
	Change
	// Moved: what waited up to At cancelled out, or the filter shows nothing of it.
	Moved
	// Snapshot: changes do not lead on, or are not wanted: the reader needs the
	// whole result. The cursor stays where it is until Jump.
	Snapshot
	// Gap: changes cannot be shown, of Query or, without it, of any query. A
	// MultiCursor goes on after them.
	Gap
)

// Reasons of events besides those of a registry.GapError.
const (
	Begin    = "start"     // of Snapshot: the reader has nothing yet
	TooLarge = "too_large" // the net change is above the limit
)

// An Event is what a reader is to be sent next.
type Event struct {
	Kind Kind
	// At is the position of the event's query once the reader has the event; the
	// offset of the log for a Gap of all queries.
	At        registry.Position
	Query     string
	Change    *registry.Change // may lie in a shared page: to be copied before anything waits
	CheckedAt time.Time        // of Change and Moved
	Reason    string           // of Snapshot and Gap
	Folded    int              // of Change and Moved: changes that went into it besides one
	Until     time.Time        // of Wait
}

// Lost returns why the log does not continue where the reader was; "" where a
// Snapshot has another reason.
func (e *Event) Lost() string {
	if e.Reason == Begin || e.Reason == TooLarge {
		return ""
	}
	return e.Reason
}

// Rules are what cursors of one way out have in common.
type Rules struct {
	Fold   int   // waiting changes that are sent one by one; more are folded into one
	Limit  int64 // bytes of a net change; above it is a Snapshot; 0: no limit
	Single bool  // Limit holds for a single change, too
	Page   int   // changes that are read at once; 0: PageSize
}

// A Cursor is a reader's place in the changes of one query. The exported fields
// are set before the first Next and stay. A cursor without a position begins with
// a Snapshot.
type Cursor struct {
	Query     string
	Filter    *Filter
	Rate      time.Duration // least time between two messages; what waits is folded
	Snapshots bool          // every message is the whole result
	Rules     *Rules
	// Late reports whether the reader has fallen behind since the last call: what
	// waits is then folded. nil: it never does.
	Late func() bool

	at      registry.Position
	pending *pending // what the filter holds back after at
	fold    bool     // the reader was held up: what waits goes out as one change
	sent    time.Time
	page    loan.Loan[[]registry.Change] // the rest of what was read
}

// At is the position that the reader has.
func (c *Cursor) At() registry.Position { return c.at }

// Seen is the position up to which everything is either sent or held back.
func (c *Cursor) Seen() registry.Position {
	if c.pending != nil {
		return c.pending.last.Position()
	}
	return c.at
}

// Jump places the cursor at p: the reader has the whole result of p.
func (c *Cursor) Jump(p registry.Position) {
	c.page.Drop()
	c.move(p)
}

// Resume places the cursor at p, which the reader had when it left. The error is a
// *registry.GapError when the log does not continue from there.
func (c *Cursor) Resume(r *Reader, p registry.Position) error {
	_, err := r.Log.After(c.Query, p, 1)
	if err == nil {
		c.Jump(p)
	}
	return err
}

// Sent notes when the reader was sent its last message. The rate counts from then.
func (c *Cursor) Sent(at time.Time) { c.sent = at }

// Hold notes that the reader was held up: what waits goes out as one change.
func (c *Cursor) Hold() { c.fold = true }

// Lend is called before a write that may wait for the reader, and Back after it:
// the cursor then keeps no page while the write takes long.
func (c *Cursor) Lend() { c.page.Lend() }

// Back ends what Lend began.
func (c *Cursor) Back() { c.page.Back() }

// Release lets go of what was read and not handed out yet.
func (c *Cursor) Release() { c.page.Drop() }

// Due is when the rate allows the next message; zero if it does now.
func (c *Cursor) Due(now time.Time) time.Time {
	if c.Rate > 0 && !c.sent.IsZero() {
		if due := c.sent.Add(c.Rate); now.Before(due) {
			return due
		}
	}
	return time.Time{}
}

// Next decides what the reader is sent next. newest is the query's position; what
// was committed since newest was read may be included. The cursor moves with
// Change and Moved. The error is the log's or that of ctx, which ends long work.
func (c *Cursor) Next(ctx context.Context, r *Reader, newest registry.Position, now time.Time) (Event, error) {
	if due := c.Due(now); !due.IsZero() {
		c.Release()
		c.fold = true
		return Event{At: c.at, Until: due}, nil
	}
	if c.at.Epoch == "" {
		return c.snapshot(Begin), nil
	}
	for {
		if ev, ok := c.single(); ok {
			return ev, nil
		}
		page, err := c.read(r, newest)
		if err != nil {
			return c.failed(err)
		}
		switch {
		case len(page) == 0:
			c.fold = false
			return Event{At: c.at}, nil
		case c.Snapshots && c.Filter.All():
			return c.snapshot(""), nil
		case !c.folds(newest, len(page)):
			c.page.Put(page)
			continue
		}
		if ev, err := c.net(ctx, r, page); err != nil || ev.Kind != Wait {
			return ev, err
		}
	}
}

func (c *Cursor) snapshot(reason string) Event {
	c.Release()
	return Event{Kind: Snapshot, At: c.at, Query: c.Query, Reason: reason}
}

// failed makes a Snapshot of a gap; other errors stay.
func (c *Cursor) failed(err error) (Event, error) {
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return c.snapshot(gap.Reason), nil
	}
	return Event{}, err
}

// read returns a page of what follows, none when there is nothing.
func (c *Cursor) read(r *Reader, newest registry.Position) ([]registry.Change, error) {
	seen := c.Seen()
	if seen == newest {
		return nil, nil
	}
	return r.page(c.Query, seen, newest, cmp.Or(c.Rules.Page, PageSize))
}

// folds reports whether waiting changes go out as one.
func (c *Cursor) folds(newest registry.Position, read int) bool {
	waiting := uint64(read)
	if seen := c.Seen(); seen.Epoch == newest.Epoch && newest.Seq > seen.Seq {
		waiting = max(waiting, newest.Seq-seen.Seq)
	}
	late := c.Late != nil && c.Late()
	return c.fold || c.Rate > 0 || !c.Filter.All() || waiting > uint64(c.Rules.Fold) || read > 1 && late
}

// single hands out the next change of the page as it is.
func (c *Cursor) single() (Event, bool) {
	rest, ok := c.page.Get()
	if !ok {
		return Event{}, false
	}
	if c.fold {
		c.Release()
		return Event{}, false
	}
	next := &rest[0]
	if c.Rules.Single && c.Rules.Limit > 0 && next.Delta != nil && DeltaSize(next.Delta) > c.Rules.Limit {
		return c.snapshot(TooLarge), true
	}
	if rest = rest[1:]; len(rest) > 0 {
		c.page.Put(rest)
	} else {
		c.Release()
	}
	c.move(next.Position())
	return Event{Kind: Change, At: c.at, Query: c.Query, Change: next, CheckedAt: next.CheckedAt}, true
}

// net hands out everything that waits as one change: Moved when it cancels out, a
// Snapshot when it would be too large, Wait when the filter is against it.
func (c *Cursor) net(ctx context.Context, r *Reader, page []registry.Change) (Event, error) {
	if c.pending.skip(c.Filter, page) {
		return Event{}, nil
	}
	s, err := c.pending.sum(ctx, r, c.Query, c.at, page, c.Rules.Limit)
	if unsendable(err) {
		return c.snapshot(TooLarge), nil
	}
	if err != nil {
		return c.failed(err)
	}
	left := c.Filter.Delta(s.net)
	if !c.Filter.All() && !c.Filter.Passes(left) {
		c.pending = withhold(c.Filter, s, left)
		return Event{}, nil
	}
	if c.Snapshots {
		return c.snapshot(""), nil
	}
	ev := Event{Kind: Moved, At: s.last.Position(), Query: c.Query, CheckedAt: s.last.CheckedAt, Folded: max(s.count, 1) - 1}
	if left != nil {
		sum := s.change(c.at)
		sum.Delta = left
		ev.Kind, ev.Change = Change, &sum
	}
	c.move(ev.At)
	return ev, nil
}

// Settle moves the cursor past what it holds back if the filter shows nothing of
// that, and reports whether it moved. It is for readers that have heard nothing
// for long.
func (c *Cursor) Settle() (Event, bool) {
	if c.pending == nil || !c.pending.empty {
		return Event{At: c.at}, false
	}
	last := &c.pending.last
	ev := Event{Kind: Moved, At: last.Position(), Query: c.Query, CheckedAt: last.CheckedAt}
	c.move(ev.At)
	return ev, true
}

func (c *Cursor) move(p registry.Position) { c.at, c.pending, c.fold = p, nil, false }
