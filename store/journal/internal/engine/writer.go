package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/store/journal"
)

// Limits of a writer.
const (
	groupBytes   = 4 << 20          // of a group, unless one command is larger
	groupItems   = 256              // of a group
	attempt      = 10 * time.Second // of one commit of small commands
	shortestWait = 2 * time.Millisecond
	longestWait  = 250 * time.Millisecond
)

// A Writer commits the commands of concurrent calls in groups, one group at a time. It retries
// a group until it is committed, the error is final, or no caller waits for it. Callers keep the
// commands of further groups until then.
type Writer struct {
	commit func(ctx context.Context, items []Item) ([]uint64, error)
	calls  chan *call
	next   *call           // the first one of the next group, if it was received; for run alone
	ctx    context.Context // ended by Close
	stop   context.CancelFunc
	done   chan struct{}

	mu sync.Mutex // guards the outcomes of calls
}

// A call is a command whose caller waits as long as ctx allows.
type call struct {
	Item
	ctx   context.Context
	done  chan struct{}
	seq   uint64 // valid once done is closed
	err   error  // valid once done is closed
	tried bool   // a commit of it has begun
	last  error  // of the last attempt
}

// NewWriter starts a writer on Commit of an engine.
func NewWriter(commit func(context.Context, []Item) ([]uint64, error)) *Writer {
	w := &Writer{commit: commit, calls: make(chan *call), done: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	go w.run()
	return w
}

// Close implements journal.Journal. It waits for the current commit to end.
func (w *Writer) Close() error {
	w.stop()
	<-w.done
	return nil
}

// Closed returns journal.ErrClosed after Close.
func (w *Writer) Closed() error {
	if w.ctx.Err() != nil {
		return journal.ErrClosed
	}
	return nil
}

func (w *Writer) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if err := journal.CheckCommand(id, cmd); err != nil {
		return 0, err
	}
	if err := cmp.Or(ctx.Err(), w.Closed()); err != nil {
		return 0, err
	}
	c := &call{Item: Item{id, cmd}, ctx: ctx, done: make(chan struct{})}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-w.ctx.Done():
		return 0, journal.ErrClosed
	}
	select {
	case <-c.done:
		return c.seq, c.err
	case <-ctx.Done():
		return w.leave(c, ctx.Err())
	case <-w.ctx.Done():
		<-w.done // by now a commit that was running has ended
		return w.leave(c, journal.ErrClosed)
	}
}

// leave returns the outcome of a call whose caller waits no longer because of cause.
func (w *Writer) leave(c *call, cause error) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-c.done:
		return c.seq, c.err
	default:
	}
	if !c.tried { // nor will be, see begin
		return 0, cause
	}
	return 0, c.unknown(cause)
}

// unknown returns the error of a call that was tried and whose caller waits no longer because of cause.
func (c *call) unknown(cause error) error {
	if c.last == nil {
		return fmt.Errorf("%w: %w", journal.ErrUnknown, cause)
	}
	return fmt.Errorf("%w: %w (the last attempt: %v)", journal.ErrUnknown, cause, c.last)
}

func (w *Writer) run() {
	defer close(w.done)
	for w.ctx.Err() == nil {
		c := w.next
		if w.next = nil; c == nil {
			select {
			case <-w.ctx.Done():
				return
			case c = <-w.calls:
			}
		}
		if group := w.gather(c); len(group) > 0 {
			w.flush(group)
		}
	}
}

// gather returns a group: a call and those that wait. A group has each id once. Calls whose callers have left
// are dropped.
func (w *Writer) gather(c *call) (group []*call) {
	for size := 0; ; {
		same := slices.ContainsFunc(group, func(x *call) bool { return x.ID == c.ID })
		if same || len(group) > 0 && (len(group) == groupItems || size+len(c.Command) > groupBytes) {
			w.next = c
			return group
		}
		if w.begin(c) {
			size += len(c.Command)
			group = append(group, c)
		}
		select {
		case c = <-w.calls:
		default:
			return group
		}
	}
}

// begin notes that a call is tried, unless its caller has left.
func (w *Writer) begin(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.tried = c.ctx.Err() == nil && w.ctx.Err() == nil
	return c.tried
}

// flush commits a group, in as many attempts as that takes.
func (w *Writer) flush(group []*call) {
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		items, size := make([]Item, 0, len(group)), 0
		for _, c := range group {
			items = append(items, c.Item)
			size += len(c.Command)
		}
		// A large command gets a second more for each MiB.
		ctx, cancel := context.WithTimeout(w.ctx, attempt+time.Duration(size>>20)*time.Second)
		seqs, err := w.commit(ctx, items)
		cancel()
		if errors.Is(err, journal.ErrTooLarge) && len(group) > 1 { // one of them may be, and each alone not
			for _, c := range group {
				w.flush([]*call{c})
			}
			return
		}
		if err == nil && len(seqs) != len(items) {
			err = fmt.Errorf("%d items were committed, the engine numbered %d", len(items), len(seqs))
		}
		if group = w.endCalls(group, seqs, err); len(group) == 0 {
			return
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// endCalls ends the calls of a group after an attempt and returns those that are to be tried again.
func (w *Writer) endCalls(group []*call, seqs []uint64, err error) (again []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range group {
		switch {
		case err == nil:
			c.seq = seqs[i]
		case final(err):
			c.err = err
		default:
			if c.last = err; c.ctx.Err() == nil {
				again = append(again, c)
				continue
			}
			c.err = c.unknown(c.ctx.Err()) // its caller may not have noticed yet
		}
		close(c.done)
	}
	return again
}

// final reports whether no further attempt can succeed.
func final(err error) bool {
	return errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrTooLarge)
}
