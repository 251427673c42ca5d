package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/store/journal"
	"golang.org/x/sync/semaphore"
)

// Limits of a writer.
const (
	InFlight     = 128 << 20        // bytes of commands whose Append has not returned, by default
	groupBytes   = 4 << 20          // of a group, unless one command is larger
	groupItems   = 256              // of a group
	attempt      = 10 * time.Second // of one commit of small commands
	perItem      = 512              // bytes counted in addition to a command
	shortestWait = 2 * time.Millisecond
	longestWait  = 250 * time.Millisecond
)

// A Writer commits the commands of concurrent calls in groups, one group at a time. It retries
// a group until it is committed, the error is final, or no caller waits for it.
type Writer struct {
	commit func(ctx context.Context, items []Item) ([]uint64, error)
	room   *semaphore.Weighted
	size   int64
	ctx    context.Context
	stop   context.CancelFunc
	done   chan struct{}
	wake   chan struct{}

	mu    sync.Mutex
	queue []*call
}

// A call is a command whose caller waits as long as ctx allows.
type call struct {
	Item
	ctx    context.Context
	weight int64
	done   chan struct{}
	seq    uint64 // valid once done is closed
	err    error  // valid once done is closed
	tried  bool   // a commit of it has begun
	last   error  // of the last attempt
}

// NewWriter starts a writer on Commit of an engine. It accepts commands of up to inFlight bytes at a time.
func NewWriter(commit func(context.Context, []Item) ([]uint64, error), inFlight int64) *Writer {
	if inFlight <= 0 {
		inFlight = InFlight
	}
	w := &Writer{
		commit: commit, room: semaphore.NewWeighted(inFlight), size: inFlight,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	go w.run()
	return w
}

// Close ends all calls with ErrClosed and waits for the current commit to end.
func (w *Writer) Close() {
	w.stop()
	<-w.done
}

// Append implements journal.Journal. It waits while there is no room.
func (w *Writer) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if err := journal.CheckCommand(id, cmd); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := &call{Item: Item{id, cmd}, ctx: ctx, weight: min(int64(len(cmd))+perItem, w.size), done: make(chan struct{})}
	if err := w.acquire(ctx, c.weight); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.queue = append(w.queue, c)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
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

// acquire waits for room until ctx ends or the writer is closed.
func (w *Writer) acquire(ctx context.Context, weight int64) error {
	if w.ctx.Err() == nil && w.room.TryAcquire(weight) {
		return nil
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	if err := w.room.Acquire(both, weight); err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return journal.ErrClosed
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
	if !c.tried { // nor will be, see take
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
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		}
		for group := w.take(); len(group) > 0; group = w.take() {
			w.flush(group)
		}
	}
}

// take removes the next group from the queue. A group has each id once. Calls whose callers have left are dropped.
func (w *Writer) take() (group []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := 0
	for len(w.queue) > 0 && w.ctx.Err() == nil {
		c := w.queue[0]
		same := slices.ContainsFunc(group, func(x *call) bool { return x.ID == c.ID })
		if same || len(group) > 0 && (len(group) == groupItems || size+len(c.Command) > groupBytes) {
			break
		}
		w.queue[0] = nil
		w.queue = w.queue[1:]
		if c.ctx.Err() != nil {
			w.room.Release(c.weight)
			continue
		}
		c.tried = true
		size += len(c.Command)
		group = append(group, c)
	}
	return group
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
		if err == nil && len(seqs) != len(items) {
			err = fmt.Errorf("%d items were committed, the engine numbered %d", len(items), len(seqs))
		}
		if group = w.settle(group, seqs, err); len(group) == 0 {
			return
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// settle ends the calls of a group after an attempt and returns those that are to be tried again.
func (w *Writer) settle(group []*call, seqs []uint64, err error) (again []*call) {
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
		w.room.Release(c.weight)
		close(c.done)
	}
	return again
}

// final reports whether no further attempt can succeed.
func final(err error) bool {
	return errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrTooLarge)
}
