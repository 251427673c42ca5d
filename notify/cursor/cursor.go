// Package cursor reads the change log on behalf of its followers. A cursor holds a
// reader's position and the changes that its filter and rate withhold, and nothing
// else. Every protocol asks it for the next event, writes the event, and asks again.
// Live following and resuming after a gap are therefore the same loop.
//
// Cursor follows one query, MultiCursor follows all queries. Next reads at most one
// page of the log and returns the next event; it neither waits nor sends. Neither type
// is safe for concurrent use.
package cursor

import (
	"context"
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
)

// Kind is the kind of an event.
type Kind int

const (
	// Wait means that there is nothing to send before Until, or before the next
	// wake-up if Until is zero.
	Wait Kind = iota
	// Change means that the reader gets Change, which starts at its position.
	Change
	// Moved means that the waiting changes up to At cancelled out or do not pass the filter.
	Moved
	// Snapshot means that the reader needs the whole result: changes do not lead on
	// from its position, or it does not want changes. The cursor does not move until
	// Jump.
	Snapshot
	// Gap means that changes of Query cannot be shown, or changes of any query if
	// Query is empty. A MultiCursor continues after them.
	Gap
)

// These are the reasons of events in addition to those of registry.GapError.
const (
	Begin    = "start"     // of Snapshot: the reader has nothing yet
	TooLarge = "too_large" // the net change is above the limit
)

// An Event says what to send to the reader next.
type Event struct {
	Kind Kind
	// At is the position in the event's query once the reader has the event. For a
	// Gap of all queries it is the offset of the log.
	At        registry.Position
	Query     string
	Change    *registry.Change // may lie in a shared page: copy it before waiting
	CheckedAt time.Time        // of Change and Moved
	Reason    string           // of Snapshot and Gap
	Until     time.Time        // of Wait
}

// Lost returns why the log does not continue from the reader's position, "" if a
// Snapshot has another reason.
func (e *Event) Lost() string {
	if e.Reason == Begin || e.Reason == TooLarge {
		return ""
	}
	return e.Reason
}

// Rules are the settings that all cursors of one protocol share.
type Rules struct {
	Fold   int   // largest number of waiting changes sent one by one; more are folded into one, with 0 always
	Limit  int64 // maximum bytes of what the filter leaves of a net change, beyond which a Snapshot is sent; 0: no limit
	Single bool  // Limit also applies to a single change
}

// A Cursor is a reader's position in the changes of one query. The exported fields are
// set before the first Next and do not change. A cursor without a position starts with
// a Snapshot.
type Cursor struct {
	Query     string
	Filter    *Filter       // nil selects everything; the messages of any other are marked as filtered
	Rate      time.Duration // minimum time between two messages; waiting changes are folded
	Snapshots bool          // every message is the whole result
	Rules     *Rules
	// Late reports whether the reader has fallen behind since the last call. Waiting
	// changes are then folded. nil means never.
	Late func() bool

	at      registry.Position
	pending *pending // what the filter withholds after at
	fold    bool     // the reader was held up, so waiting changes are sent as one
	sent    time.Time
}

// At returns the reader's position.
func (c *Cursor) At() registry.Position { return c.at }

// Seen returns the position up to which everything is sent or withheld.
func (c *Cursor) Seen() registry.Position {
	if c.pending != nil {
		return c.pending.last.Position()
	}
	return c.at
}

// Jump moves the cursor to p. The reader has the whole result at p.
func (c *Cursor) Jump(p registry.Position) {
	c.at, c.pending, c.fold = p, nil, false
}

// Resume moves the cursor to p, the reader's position when it disconnected. The error
// is a *registry.GapError if the log does not continue from p.
func (c *Cursor) Resume(r *Reader, p registry.Position) error {
	_, err := r.Log.After(c.Query, p, 1)
	if err == nil {
		c.Jump(p)
	}
	return err
}

// Sent records the time of the last message to the reader. The rate counts from it.
func (c *Cursor) Sent(at time.Time) { c.sent = at }

// Due returns when the rate allows the next message, zero if it is allowed now.
func (c *Cursor) Due(now time.Time) time.Time {
	if c.Rate > 0 && !c.sent.IsZero() {
		if due := c.sent.Add(c.Rate); now.Before(due) {
			return due
		}
	}
	return time.Time{}
}

// Next returns the reader's next event. newest is the query's position; changes
// committed after newest was read may be included. Change and Moved advance the cursor.
// The error comes from the log or from ctx, which ends long work.
func (c *Cursor) Next(ctx context.Context, r *Reader, newest registry.Position, now time.Time) (Event, error) {
	if due := c.Due(now); !due.IsZero() {
		c.fold = true
		return Event{At: c.at, Until: due}, nil
	}
	if c.at.Epoch == "" {
		return c.snapshot(Begin), nil
	}
	if c.pending == nil {
		c.pending = r.Memory.of(c.Query, c.at, c.Filter)
	}
	for {
		seen := c.Seen()
		if seen == newest {
			c.fold = false
			return Event{At: c.at}, nil
		}
		folds, most := c.folds(seen, newest), 1
		if folds {
			most = PageSize
		}
		page, err := r.page(c.Query, seen, newest, most)
		switch {
		case err != nil:
			return c.failed(err)
		case len(page) == 0:
			c.fold = false
			return Event{At: c.at}, nil
		case c.Snapshots && c.Filter.All():
			return c.snapshot(""), nil
		case !folds:
			return c.single(&page[0]), nil
		}
		if ev, err := c.net(ctx, r, page); err != nil || ev.Kind != Wait {
			return ev, err
		}
	}
}

func (c *Cursor) snapshot(reason string) Event {
	return Event{Kind: Snapshot, At: c.at, Query: c.Query, Reason: reason}
}

// failed turns a gap into a Snapshot and returns other errors unchanged.
func (c *Cursor) failed(err error) (Event, error) {
	var gap *registry.GapError
	if errors.As(err, &gap) {
		return c.snapshot(gap.Reason), nil
	}
	return Event{}, err
}

// folds reports whether the changes that wait after a position are sent as one.
func (c *Cursor) folds(seen, newest registry.Position) bool {
	waiting := uint64(1)
	if seen.Epoch == newest.Epoch && newest.Seq > seen.Seq {
		waiting = newest.Seq - seen.Seq
	}
	late := c.Late != nil && c.Late()
	return c.fold || c.Rate > 0 || !c.Filter.All() || waiting > uint64(c.Rules.Fold) || waiting > 1 && late
}

func (c *Cursor) single(next *registry.Change) Event {
	if c.Rules.Single && c.Rules.Limit > 0 && next.Delta != nil && DeltaSize(next.Delta) > c.Rules.Limit {
		return c.snapshot(TooLarge)
	}
	c.Jump(next.Position())
	return Event{Kind: Change, At: c.at, Query: c.Query, Change: next, CheckedAt: next.CheckedAt}
}

// net returns everything that waits as one change. It returns Moved if the changes
// cancel out, Snapshot if the net change is too large, and Wait if the filter withholds
// it.
func (c *Cursor) net(ctx context.Context, r *Reader, page []registry.Change) (Event, error) {
	if p := c.pending.skip(c.Filter, page); p != nil {
		c.hold(r, p)
		return Event{}, nil
	}
	s, err := c.pending.sum(ctx, r, c.Query, c.at, page, 0, c.Filter.limitOfSum(c.Rules.Limit))
	if unsendable(err) {
		return c.snapshot(TooLarge), nil
	}
	if err != nil {
		return c.failed(err)
	}
	left := c.Filter.Delta(s.net)
	switch {
	case !c.Filter.All() && !c.Filter.Passes(left):
		c.hold(r, withhold(c.Filter, s, left))
		return Event{}, nil
	case c.Snapshots:
		return c.snapshot(""), nil
	case above(c.Rules.Limit, left):
		return c.snapshot(TooLarge), nil
	}
	ev := Event{Kind: Moved, At: s.last.Position(), Query: c.Query, CheckedAt: s.last.CheckedAt}
	if left != nil {
		sum := s.change(c.at)
		sum.Delta = left
		ev.Kind, ev.Change = Change, &sum
	}
	c.Jump(ev.At)
	return ev, nil
}

// hold notes what the filter withholds.
func (c *Cursor) hold(r *Reader, p *pending) {
	c.pending = p
	r.Memory.keep(c.Query, c.at, c.Filter, p)
}

// Settle moves the cursor past withheld changes if the filter shows nothing of them, and
// reports whether it moved. It is for readers that have received nothing for long.
func (c *Cursor) Settle() (Event, bool) {
	if c.pending == nil || !c.pending.empty {
		return Event{At: c.at}, false
	}
	last := &c.pending.last
	ev := Event{Kind: Moved, At: last.Position(), Query: c.Query, CheckedAt: last.CheckedAt}
	c.Jump(ev.At)
	return ev, true
}
