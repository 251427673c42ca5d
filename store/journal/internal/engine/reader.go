package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/store/journal"
)

// A Source is what Read needs of an engine. It is used by one goroutine.
type Source interface {
	// Span returns the number of the first entry, or of the next one if there is none, and the
	// position of the last entry. An engine whose answer may be out of date makes sure that it
	// is not if the last entry is before a number.
	Span(ctx context.Context, atLeast uint64) (first uint64, head journal.Position, err error)
	// Page returns some entries after a number, none if there are none at the moment.
	Page(ctx context.Context, after uint64) ([]journal.Entry, error)
	// Wait returns when there may be entries after a number, or after a while. It returns the
	// position of the last entry if it has learnt it, or else the zero Position.
	Wait(ctx context.Context, after uint64) (head journal.Position, err error)
}

// A Reader reads the journal of a node.
type Reader struct {
	Name   string          // of the journal
	Mark   *Watermark      // raised by what is read
	Closed context.Context // ended by Close
}

// Read implements Read of journal.Journal. Errors of the engine that are neither damage nor the
// end of ctx are taken for an outage, and Read continues where it was.
func (r Reader) Read(ctx context.Context, s Source, after journal.Position, f func(journal.Entry) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Closed, func() { cancel(journal.ErrClosed) })()
	c := cursor{Source: s, mark: r.Mark, f: f}
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		before := c.at
		err := c.run(ctx, r.Name, after)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.failed || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrClosed):
			return err
		case c.at != before:
			wait = shortestWait
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// A cursor is a call of Read.
type cursor struct {
	Source
	mark      *Watermark
	f         func(journal.Entry) error
	at, first journal.Position // at is the zero Position until the start is checked
	failed    bool             // f has returned an error
}

// run reads until there is an error.
func (c *cursor) run(ctx context.Context, name string, after journal.Position) (err error) {
	if c.at == (journal.Position{}) {
		at, err := start(ctx, name, c, after)
		if err != nil {
			return err
		}
		c.at, c.first = at, at
	}
	for {
		c.mark.Raise(c.at)
		page, err := c.Page(ctx, c.at.Seq)
		if err != nil {
			return err
		}
		for i := range page {
			if err := c.apply(ctx, page[i]); err != nil {
				return err
			}
		}
		if len(page) > 0 {
			continue
		}
		head, err := c.Wait(ctx, c.at.Seq)
		if err == nil && head != (journal.Position{}) {
			err = Within(c.at, 0, head)
		}
		if err != nil {
			return err
		}
	}
}

// apply checks an entry and gives it to f.
func (c *cursor) apply(ctx context.Context, e journal.Entry) error {
	if err := follows(ctx, c, &e, c.at, c.first); err != nil {
		return err
	}
	if err := c.f(e); err != nil {
		c.failed = true
		return err
	}
	c.at = e.Position
	return ctx.Err()
}

// start checks that the journal has a position, as far as its ends show that.
func start(ctx context.Context, name string, s Source, after journal.Position) (journal.Position, error) {
	switch genesis := journal.Genesis(name); {
	case after == (journal.Position{}):
		after = genesis
	case after.Seq == 0 && after != genesis:
		return after, journal.Foreign(0)
	}
	first, head, err := s.Span(ctx, after.Seq)
	if err != nil {
		return after, err
	}
	return after, Within(after, first, head)
}

// Within returns an error if a journal cannot be continued after a position, as far as its
// ends show that.
func Within(after journal.Position, first uint64, head journal.Position) error {
	switch {
	case after.Seq > head.Seq:
		return journal.Shortened(head.Seq, after.Seq)
	case after.Seq == head.Seq && after.Hash != head.Hash:
		return journal.Foreign(after.Seq)
	case after.Seq+1 < first:
		return journal.Dropped(first, after.Seq)
	}
	return nil
}

// follows checks an entry. A fault at the first entry means that the position is of another
// journal. A gap may come from entries that were dropped.
func follows(ctx context.Context, s Source, e *journal.Entry, at, first journal.Position) error {
	err := e.Follows(at)
	switch {
	case err == nil:
		return nil
	case e.Seq > at.Seq+1:
		if oldest, _, spanErr := s.Span(ctx, 0); spanErr == nil && oldest > at.Seq+1 {
			return journal.Dropped(oldest, at.Seq)
		}
	case at == first && e.Prev != at.Hash:
		return fmt.Errorf("%w (%w)", journal.Foreign(at.Seq), err)
	}
	return err
}

// Search returns the smallest number from lo up to hi for which f is true, hi if there is none.
// f is not called with hi, and must not become false again as numbers increase.
func Search(lo, hi uint64, f func(uint64) (bool, error)) (uint64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		ok, err := f(mid)
		switch {
		case err != nil:
			return 0, err
		case ok:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return lo, nil
}

// A Watermark is the last position that a node has read or that was acknowledged to it. The
// journal must not end before it.
type Watermark struct {
	mu sync.Mutex
	at journal.Position
}

// Raise sets the watermark to a position unless it is higher.
func (w *Watermark) Raise(p journal.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Seq >= w.at.Seq {
		w.at = p
	}
}

// Position returns the watermark, the zero Position before the first Raise.
func (w *Watermark) Position() journal.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// Continues returns an error if a journal ends before a position that was the watermark when the
// end was asked for, or has another entry there.
func Continues(mark, head journal.Position) error {
	if mark == (journal.Position{}) {
		return nil
	}
	return Within(mark, 0, head)
}
