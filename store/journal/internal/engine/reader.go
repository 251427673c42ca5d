package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/store/journal"
)

// Pauses of a reader that has nothing to read.
const (
	lagPause  = time.Millisecond      // while a server lacks what was committed
	lagTime   = 50 * time.Millisecond // after Wake, at most
	lookAgain = time.Second           // until the reader looks at the end of the journal
)

// Read implements journal.Journal. It continues where it was after an outage.
func (n *Node) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.ctx, func() { cancel(journal.ErrClosed) })()
	c := cursor{Node: n, f: f}
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		before := c.at
		err := c.run(ctx, after)
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
	*Node
	f         func(journal.Entry) error
	at, first journal.Position // at is the zero Position until the start is checked
	woken     time.Time        // by Wake or a commit; zero after an entry
	failed    bool             // f has returned an error
}

func (c *cursor) run(ctx context.Context, after journal.Position) (err error) {
	if c.at == (journal.Position{}) {
		if after, err = c.start(ctx, after); err != nil {
			return err
		}
		c.at, c.first = after, after
	}
	var head journal.Position // as last seen
	for looked := time.Now(); ctx.Err() == nil; {
		c.Mark.Raise(c.at)
		mark, raised := c.Mark.look() // before the page is read, so that nothing that comes meanwhile is missed
		page, err := c.engine.Page(ctx, c.at.Seq, head.Seq > c.at.Seq)
		if err != nil {
			return err
		}
		for i := range page {
			if err := c.apply(ctx, page[i]); err != nil {
				return err
			}
		}
		switch {
		case len(page) > 0:
			looked, c.woken = time.Now(), time.Time{}
		case time.Since(looked) < lookAgain:
			c.wait(ctx, mark, raised)
		default:
			if _, head, err = c.engine.Span(ctx, mark.Seq); err == nil {
				err = Within(mark, 0, head)
			}
			if err != nil {
				return err
			}
			looked = time.Now()
		}
	}
	return ctx.Err()
}

// wait waits until there may be entries that were not there when the watermark was looked at.
func (c *cursor) wait(ctx context.Context, mark journal.Position, raised <-chan struct{}) {
	pause := c.engine.Poll
	if mark.Seq > c.at.Seq || time.Since(c.woken) < lagTime {
		pause = lagPause
	}
	select {
	case <-ctx.Done():
	case <-raised:
		c.woken = time.Now()
	case <-time.After(pause):
	}
}

// apply checks an entry and gives it to f.
func (c *cursor) apply(ctx context.Context, e journal.Entry) error {
	if err := c.follows(ctx, &e); err != nil {
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
func (c *cursor) start(ctx context.Context, after journal.Position) (journal.Position, error) {
	switch genesis := journal.Genesis(c.engine.Name); {
	case after == (journal.Position{}):
		after = genesis
	case after.Seq == 0 && after != genesis:
		return after, journal.Foreign(0)
	}
	first, head, err := c.engine.Span(ctx, after.Seq)
	if err != nil {
		return after, err
	}
	return after, Within(after, first, head)
}

// follows checks an entry. A fault at the first entry means that the position is of another
// journal. A gap may come from entries that were dropped.
func (c *cursor) follows(ctx context.Context, e *journal.Entry) error {
	err := e.Follows(c.at)
	switch {
	case err == nil:
		return nil
	case e.Seq > c.at.Seq+1:
		if oldest, _, spanErr := c.engine.Span(ctx, 0); spanErr == nil && oldest > c.at.Seq+1 {
			return journal.Dropped(oldest, c.at.Seq)
		}
	case c.at == c.first && e.Prev != c.at.Hash:
		return fmt.Errorf("%w (%w)", journal.Foreign(c.at.Seq), err)
	}
	return err
}

// Within returns an error if a journal cannot be continued after a position, as far as its
// ends show that. Every journal continues the zero Position, which is a Watermark at first.
func Within(after journal.Position, first uint64, head journal.Position) error {
	switch {
	case after == (journal.Position{}):
		return nil
	case after.Seq > head.Seq:
		return journal.Shortened(head.Seq, after.Seq)
	case after.Seq == head.Seq && after.Hash != head.Hash:
		return journal.Foreign(after.Seq)
	case after.Seq+1 < first:
		return journal.Dropped(first, after.Seq)
	}
	return nil
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
	mu     sync.Mutex
	at     journal.Position
	raised chan struct{} // closed and removed when at increases, and by wake; nil if no reader has looked
}

// Raise sets the watermark to a position unless it is higher.
func (w *Watermark) Raise(p journal.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Seq > w.at.Seq {
		w.signal()
	}
	if p.Seq >= w.at.Seq {
		w.at = p
	}
}

// wake ends the wait of those who have looked.
func (w *Watermark) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signal()
}

// signal is wake. The caller holds mu.
func (w *Watermark) signal() {
	if w.raised != nil {
		close(w.raised)
		w.raised = nil
	}
}

// Position returns the watermark, the zero Position before the first Raise.
func (w *Watermark) Position() journal.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// look returns the watermark, and a channel that is closed when it is raised.
func (w *Watermark) look() (journal.Position, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raised == nil {
		w.raised = make(chan struct{})
	}
	return w.at, w.raised
}
