package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/store/journal"
)

// A fake is an engine whose commits wait for the test.
type fake struct {
	commits chan []Item    // each commit
	results chan fakeReply // its outcome
	seq     uint64
}

type fakeReply struct{ err error }

func (f *fake) commit(ctx context.Context, items []Item) ([]uint64, error) {
	f.commits <- items
	select {
	case r := <-f.results:
		var seqs []uint64
		for range items {
			f.seq++
			seqs = append(seqs, f.seq)
		}
		return seqs, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newFake(t *testing.T) (*fake, *Writer) {
	f := &fake{commits: make(chan []Item), results: make(chan fakeReply)}
	w := NewWriter(f.commit)
	t.Cleanup(func() { _ = w.Close() }) // it returns no error
	return f, w
}

type answer struct {
	seq uint64
	err error
}

// begin appends in the background.
func begin(ctx context.Context, w *Writer, id string, size int) chan answer {
	c := make(chan answer, 1)
	go func() {
		seq, err := w.Append(ctx, id, make([]byte, size))
		c <- answer{seq, err}
	}()
	return c
}

var errOutage = errors.New("outage")

// An attempt whose outcome is unknown is repeated with the same id, and later commands wait.
func TestWriterRetries(t *testing.T) {
	f, w := newFake(t)
	a := begin(t.Context(), w, "a", 1)
	for range 3 {
		if items := <-f.commits; len(items) != 1 || items[0].ID != "a" {
			t.Fatalf("commit of %v", items)
		}
		f.results <- fakeReply{errOutage}
	}
	<-f.commits
	f.results <- fakeReply{}
	if got := <-a; got.err != nil || got.seq != 4 {
		t.Errorf("%+v", got)
	}
}

// Commands of callers that have left are not tried again; those of others in the group are.
func TestWriterAbandons(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, w := newFake(t)
		first := begin(t.Context(), w, "first", 1)
		<-f.commits // the others form the next group
		leaving, leave := context.WithCancel(t.Context())
		a, b := begin(leaving, w, "a", 1), begin(t.Context(), w, "b", 1)
		synctest.Wait() // the callers wait
		f.results <- fakeReply{}
		if got := <-first; got.err != nil {
			t.Fatal(got.err)
		}
		if items := <-f.commits; len(items) != 2 {
			t.Fatalf("a group of %d", len(items))
		}
		leave()
		if got := <-a; !errors.Is(got.err, journal.ErrUnknown) || !errors.Is(got.err, context.Canceled) {
			t.Errorf("a: %v", got.err)
		}
		f.results <- fakeReply{errOutage}
		if items := <-f.commits; len(items) != 1 || items[0].ID != "b" {
			t.Fatalf("then %v", items)
		}
		f.results <- fakeReply{journal.ErrShortened}
		if got := <-b; !errors.Is(got.err, journal.ErrShortened) || errors.Is(got.err, journal.ErrUnknown) {
			t.Errorf("b: %v", got.err)
		}
	})
}

// A caller whose context ends while an attempt fails does not learn that its command is an entry.
func TestWriterLeavesLate(t *testing.T) {
	f, w := newFake(t)
	ctx := &lateContext{Context: t.Context()}
	a := begin(ctx, w, "a", 1)
	<-f.commits
	ctx.ended.Store(true)
	f.results <- fakeReply{errOutage}
	if got := <-a; !errors.Is(got.err, journal.ErrUnknown) || !errors.Is(got.err, context.Canceled) {
		t.Errorf("%+v", got)
	}
}

// A lateContext has ended, and who waits for that has not noticed yet.
type lateContext struct {
	context.Context
	ended atomic.Bool
}

func (c *lateContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A command that was never tried is certainly not an entry.
func TestWriterQueued(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, w := newFake(t)
		first := begin(t.Context(), w, "first", 1)
		<-f.commits
		leaving, leave := context.WithCancel(t.Context())
		queued := begin(leaving, w, "queued", 1)
		synctest.Wait() // the callers wait
		leave()
		if got := <-queued; got.err != context.Canceled {
			t.Errorf("queued: %v", got.err)
		}
		w.Close()
		if got := <-first; !errors.Is(got.err, journal.ErrUnknown) || !errors.Is(got.err, journal.ErrClosed) {
			t.Errorf("first: %v", got.err)
		}
		if _, err := w.Append(t.Context(), "late", nil); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("late: %v", err)
		}
	})
}

// A group has each id once: a second call with an id follows when the outcome of the first is known.
func TestWriterSameID(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, w := newFake(t)
		first := begin(t.Context(), w, "first", 1)
		<-f.commits
		a, b := begin(t.Context(), w, "same", 1), begin(t.Context(), w, "same", 1)
		synctest.Wait() // the callers wait
		f.results <- fakeReply{}
		for range 2 {
			if items := <-f.commits; len(items) != 1 || items[0].ID != "same" {
				t.Fatalf("a commit of %v", items)
			}
			f.results <- fakeReply{}
		}
		for _, c := range []chan answer{first, a, b} {
			if got := <-c; got.err != nil || got.seq == 0 {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A command that did not fit into a group is not tried if its caller leaves.
func TestWriterLeavesNext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, w := newFake(t)
		first := begin(t.Context(), w, "first", 1)
		<-f.commits
		a := begin(t.Context(), w, "same", 1)
		synctest.Wait() // it waits before the next one
		leaving, leave := context.WithCancel(t.Context())
		b := begin(leaving, w, "same", 1)
		synctest.Wait()
		f.results <- fakeReply{}
		<-f.commits
		leave()
		if got := <-b; got.err != context.Canceled {
			t.Errorf("b: %v", got.err)
		}
		f.results <- fakeReply{}
		if x, y := <-first, <-a; x.err != nil || y.err != nil || y.seq != 2 {
			t.Errorf("%+v, %+v", x, y)
		}
		synctest.Wait()
		select {
		case items := <-f.commits:
			t.Errorf("a commit of %v", items)
		default:
		}
	})
}

// A group has a bounded number of commands and of bytes. A larger command is one of its own.
func TestWriterGroups(t *testing.T) {
	for size, want := range map[int][]int{1: {1, 256, 44}, 1 << 20: {1, 4, 4, 2}, 5 << 20: {1, 1, 1}} {
		bubble.Test(t, func(t *testing.T) {
			f, w := newFake(t)
			var calls []chan answer
			total := 0
			for _, n := range want {
				total += n
			}
			for i := range total {
				calls = append(calls, begin(t.Context(), w, fmt.Sprint("c-", i), size))
				synctest.Wait()
			}
			for i, n := range want {
				if items := <-f.commits; len(items) != n {
					t.Errorf("group %d of commands of %d bytes has %d, want %d", i, size, len(items), n)
				}
				f.results <- fakeReply{}
			}
			for i, c := range calls {
				if got := <-c; got.err != nil || got.seq != uint64(i+1) {
					t.Errorf("command %d: %+v", i, got)
				}
			}
		})
	}
}

// A command that is too large does not fail those that were to be committed with it.
func TestWriterTooLargeInGroup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, w := newFake(t)
		first := begin(t.Context(), w, "first", 1)
		<-f.commits
		calls := map[string]chan answer{}
		for _, id := range []string{"a", "b", "c"} {
			calls[id] = begin(t.Context(), w, id, 1)
			synctest.Wait()
		}
		f.results <- fakeReply{}
		<-first
		if items := <-f.commits; len(items) != 3 {
			t.Fatalf("commit of %v", items)
		}
		f.results <- fakeReply{journal.ErrTooLarge}
		for _, id := range []string{"a", "b", "c"} {
			if items := <-f.commits; len(items) != 1 || items[0].ID != id {
				t.Fatalf("commit of %v, want %s alone", items, id)
			}
			var want error
			if id == "b" {
				want = journal.ErrTooLarge
			}
			f.results <- fakeReply{want}
			if got := <-calls[id]; got.err != want {
				t.Errorf("%s: %v, want %v", id, got.err, want)
			}
		}
	})
}

func TestSearch(t *testing.T) {
	for hi := range uint64(40) {
		for want := uint64(3); want <= hi; want++ {
			var asked []uint64
			got, err := Search(3, hi, func(n uint64) (bool, error) { asked = append(asked, n); return n >= want, nil })
			if err != nil || got != want || len(asked) > 6 || slices.Contains(asked, hi) {
				t.Fatalf("search of %d up to %d: %d, %v, asked %d", want, hi, got, err, asked)
			}
		}
	}
	if _, err := Search(0, 9, func(uint64) (bool, error) { return false, errOutage }); err != errOutage {
		t.Error(err)
	}
}
