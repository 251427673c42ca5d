package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

func newFake(t *testing.T, inFlight int64) (*fake, *Writer) {
	f := &fake{commits: make(chan []Item), results: make(chan fakeReply)}
	w := NewWriter(f.commit, inFlight)
	t.Cleanup(w.Close)
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
	f, w := newFake(t, 0)
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
	f, w := newFake(t, 0)
	first := begin(t.Context(), w, "first", 1)
	<-f.commits // the others form the next group
	leaving, leave := context.WithCancel(t.Context())
	a, b := begin(leaving, w, "a", 1), begin(t.Context(), w, "b", 1)
	waitFor(t, func() bool { return w.queued() == 2 })
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
}

// A caller whose context ends while an attempt fails does not learn that its command is an entry.
func TestWriterLeavesLate(t *testing.T) {
	f, w := newFake(t, 0)
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
	f, w := newFake(t, 0)
	first := begin(t.Context(), w, "first", 1)
	<-f.commits
	leaving, leave := context.WithCancel(t.Context())
	queued := begin(leaving, w, "queued", 1)
	waitFor(t, func() bool { return w.queued() == 1 })
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
}

// A group has each id once: a second call with an id follows when the outcome of the first is known.
func TestWriterSameID(t *testing.T) {
	f, w := newFake(t, 0)
	first := begin(t.Context(), w, "first", 1)
	<-f.commits
	a, b := begin(t.Context(), w, "same", 1), begin(t.Context(), w, "same", 1)
	waitFor(t, func() bool { return w.queued() == 2 })
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
}

// The bytes of commands in flight are bounded, whatever their sizes.
func TestWriterBounds(t *testing.T) {
	const most = 10_000
	var w *Writer
	ready := make(chan bool)
	w = NewWriter(func(_ context.Context, items []Item) ([]uint64, error) {
		<-ready
		w.mu.Lock()
		defer w.mu.Unlock()
		weight := int64(0)
		for _, c := range w.queue {
			weight += c.weight
		}
		for _, it := range items {
			weight += min(int64(len(it.Command))+perItem, most)
		}
		if weight > most {
			t.Errorf("%d bytes in flight", weight)
		}
		return make([]uint64, len(items)), nil
	}, most)
	defer w.Close()
	close(ready)
	var wg sync.WaitGroup
	for i := range 200 {
		size := []int{0, 10, 3000, 9000, 50_000}[i%5]
		wg.Go(func() {
			if _, err := w.Append(t.Context(), fmt.Sprint("c-", i), make([]byte, size)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// Without commits, callers wait for room until they leave.
	f, stuck := newFake(t, most)
	ctx, cancel := context.WithCancel(t.Context())
	var calls []chan answer
	for i := range 20 {
		calls = append(calls, begin(ctx, stuck, fmt.Sprint("c-", i), 3000))
	}
	in := len(<-f.commits)
	waitFor(t, func() bool { return in+stuck.queued() == 2 })
	cancel()
	known := 0
	for _, c := range calls {
		if got := <-c; got.err == context.Canceled {
			known++
		} else if !errors.Is(got.err, journal.ErrUnknown) {
			t.Error(got.err)
		}
	}
	if known < 17 || known == 20 {
		t.Errorf("%d of 20 commands were not tried; 2 or 3 fit", known)
	}
}

func (w *Writer) queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 20_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it does not happen")
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
