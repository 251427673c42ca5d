// Package journaltest is the contract of journal.Journal as tests, which every engine runs.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/freshet/freshet/store/journal"
)

// A Rig is a new, empty journal of an engine.
type Rig struct {
	Name string
	// Open returns the journal of another node. Nodes are numbered.
	Open func(t testing.TB, node int) journal.Journal
	// Stall returns the journal of a node, and functions that end and resume the answers of its engine.
	Stall func(t testing.TB) (j journal.Journal, stall, resume func())
	// Rewrite replaces all entries with those that f returns, behind the back of the journals.
	Rewrite func(t testing.TB, f func([]journal.Entry) []journal.Entry)
}

const (
	seed = 20261122
	soon = 3 * time.Minute // bounds what is expected to happen at once
)

// Run runs the tests, each on a rig of its own.
func Run(t *testing.T, rig func(t *testing.T) Rig) {
	t.Logf("seed %d", seed)
	for _, test := range []struct {
		name string
		run  func(*testing.T, Rig)
	}{
		{"Order", order}, {"Ids", ids}, {"Resume", resume}, {"Sizes", sizes}, {"Cancel", cancelled}, {"Close", closed},
		{"Shortened", shortened}, {"Damage", damage}, {"ShortenedWhileReading", shortenedWhileReading}, {"Drop", drop},
		{"DropPassesReader", dropPassesReader}, {"Old", old}, {"Backlog", backlog},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, rig(t)) })
	}
}

// open opens the journal of a node until the end of the test.
func (r Rig) open(t testing.TB, node int) journal.Journal {
	t.Helper()
	j := r.Open(t, node)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return patient{j}
}

// A patient journal repeats requests that an outage ends, as its callers do. A server that stalls for
// some seconds is an outage, and the election that follows it is another one.
type patient struct{ journal.Journal }

func (p patient) Head(ctx context.Context) (at journal.Position, err error) {
	err = repeat(ctx, func() error { at, err = p.Journal.Head(ctx); return err })
	return at, err
}

func (p patient) Old(ctx context.Context, limit int64) (seq uint64, err error) {
	err = repeat(ctx, func() error { seq, err = p.Journal.Old(ctx, limit); return err })
	return seq, err
}

func (p patient) Drop(ctx context.Context, upTo uint64) error {
	return repeat(ctx, func() error { return p.Journal.Drop(ctx, upTo) })
}

// repeat makes a request until it succeeds, until its error is final, or until ctx ends.
func repeat(ctx context.Context, request func() error) error {
	for {
		err := request()
		if err == nil || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrClosed) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	return ctx
}

func add(t testing.TB, j journal.Journal, id string, cmd []byte) uint64 {
	t.Helper()
	seq, err := j.Append(within(t), id, cmd)
	if err != nil {
		t.Fatalf("append %s: %v", id, err)
	}
	return seq
}

// fill appends n small commands.
func fill(t testing.TB, j journal.Journal, n int) {
	t.Helper()
	for i := range n {
		add(t, j, fmt.Sprint("fill-", i), fmt.Appendf(nil, "command %d", i))
	}
}

var errEnough = errors.New("enough")

// Take reads n entries after a position.
func Take(t testing.TB, j journal.Journal, after journal.Position, n int) []journal.Entry {
	t.Helper()
	var list []journal.Entry
	if n == 0 {
		return nil
	}
	err := j.Read(within(t), after, func(e journal.Entry) error {
		if list = append(list, e); len(list) == n {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		t.Fatalf("read after %d: %d entries, %v", after.Seq, len(list), err)
	}
	return list
}

// CheckChain fails unless entries are dense, intact and in order after a position.
func CheckChain(t testing.TB, after journal.Position, list []journal.Entry) {
	t.Helper()
	for i := range list {
		if err := list[i].Follows(after); err != nil {
			t.Fatal(err)
		}
		after = list[i].Position
	}
}

// order lets several writers append on several nodes while others read.
func order(t *testing.T, r Rig) {
	const nodes, writers, each = 3, 2, 15
	var (
		mu       sync.Mutex
		appended = map[uint64]string{}
		wg       sync.WaitGroup
		journals []journal.Journal
	)
	for n := range nodes {
		journals = append(journals, r.open(t, n))
	}
	got := make([][]journal.Entry, nodes)
	for n, j := range journals {
		wg.Go(func() { got[n] = Take(t, j, journal.Position{}, nodes*writers*each) })
		for w := range writers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(n*writers+w)))
				last := uint64(0)
				for i := range each {
					id := fmt.Sprintf("n%d-w%d-%d", n, w, i)
					seq, err := j.Append(within(t), id, command(id, random.IntN(3000)))
					if err != nil || seq <= last {
						t.Errorf("append %s after %d: %d, %v", id, last, seq, err)
						return
					}
					last = seq
					mu.Lock()
					appended[seq] = id
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for n, list := range got {
		CheckChain(t, journal.Genesis(r.Name), list)
		for _, e := range list {
			if appended[e.Seq] != e.ID || !bytes.HasPrefix(e.Command, []byte(e.ID)) {
				t.Fatalf("node %d read %s as %d, %s was appended", n, e.ID, e.Seq, appended[e.Seq])
			}
		}
	}
	head, err := journals[0].Head(within(t))
	if all := got[0]; err != nil || head != all[len(all)-1].Position {
		t.Errorf("head %v, %v", head, err)
	}
}

// command returns a command that begins with its id.
func command(id string, size int) []byte {
	cmd := make([]byte, len(id)+size)
	rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32.32s", id)))).Read(cmd)
	copy(cmd, id)
	return cmd
}

// ids appends the same ids again: in turn, at the same time, on other nodes, after a restart, and
// together with new ones.
func ids(t *testing.T, r Rig) {
	a, b := r.open(t, 0), r.open(t, 1)
	first := add(t, a, "same", []byte("first"))
	for _, j := range []journal.Journal{a, b, r.open(t, 0)} {
		if seq := add(t, j, "same", []byte("again")); seq != first {
			t.Errorf("appended again: %d, first %d", seq, first)
		}
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seqs = map[string][]uint64{}
	)
	for i := range 24 {
		j := []journal.Journal{a, b}[i%2]
		id := fmt.Sprint("both-", i/4)
		if i%5 == 0 {
			id = "same"
		}
		wg.Go(func() {
			seq, err := j.Append(within(t), id, []byte(id))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			seqs[id] = append(seqs[id], seq)
			mu.Unlock()
		})
	}
	wg.Wait()
	for id, list := range seqs {
		if slices.Min(list) != slices.Max(list) {
			t.Errorf("%s is the entries %d", id, list)
		}
	}
	head, err := b.Head(within(t))
	if err != nil || head.Seq != uint64(len(seqs)) {
		t.Fatalf("head %d, %v, want %d", head.Seq, err, len(seqs))
	}
	seen := map[string]bool{}
	for _, e := range Take(t, b, journal.Position{}, len(seqs)) {
		if seen[e.ID] {
			t.Errorf("%s is two entries", e.ID)
		}
		seen[e.ID] = true
	}
	for _, id := range []string{"", "a b", "a.b", "a*", "ä", string(make([]byte, 65))} {
		if _, err := a.Append(within(t), id, nil); !errors.Is(err, journal.ErrID) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// resume reads from every position, also from the end on.
func resume(t *testing.T, r Rig) {
	j := r.open(t, 0)
	if head, err := j.Head(within(t)); err != nil || head != journal.Genesis(r.Name) {
		t.Fatalf("head of an empty journal: %v, %v", head, err)
	}
	fill(t, j, 7)
	all := Take(t, j, journal.Position{}, 7)
	CheckChain(t, journal.Genesis(r.Name), all)
	reader := r.open(t, 1)
	for i, e := range all {
		rest := Take(t, reader, e.Position, 6-i)
		CheckChain(t, e.Position, rest)
	}
	// A waiting reader gets further entries of another node.
	got := make(chan []journal.Entry)
	go func() { got <- Take(t, reader, all[6].Position, 2) }()
	add(t, j, "seventh", nil)
	add(t, j, "eighth", []byte("8"))
	if rest := <-got; len(rest) == 2 && (rest[0].ID != "seventh" || len(rest[0].Command) > 0 || string(rest[1].Command) != "8") {
		t.Errorf("read %v", rest)
	}
}

// sizes appends commands up to the largest. Those above a chunk are one entry each.
func sizes(t *testing.T, r Rig) {
	a, b := r.open(t, 0), r.open(t, 1)
	const chunk = 512 << 10
	list := []int{0, 1, chunk - 1, chunk, chunk + 1, 3*chunk + 7, journal.MaxCommand}
	for _, n := range list {
		add(t, a, fmt.Sprint("size-", n), sized(n))
	}
	if _, err := a.Append(within(t), "more", sized(journal.MaxCommand+1)); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("a command above the limit: %v", err)
	}
	for i, e := range Take(t, b, journal.Position{}, len(list)) {
		if e.Seq != uint64(i+1) || !bytes.Equal(e.Command, sized(list[i])) {
			t.Errorf("entry %d has %d bytes, want %d", e.Seq, len(e.Command), list[i])
		}
	}
	// Several large commands from several callers pass through a smaller space.
	var wg sync.WaitGroup
	for i := range 6 {
		j := []journal.Journal{a, b}[i%2]
		wg.Go(func() {
			if _, err := j.Append(within(t), fmt.Sprint("large-", i), sized(chunk+i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if head, err := b.Head(within(t)); err != nil || head.Seq != uint64(len(list)+6) {
		t.Errorf("head %d, %v", head.Seq, err)
	}
}

func sized(n int) []byte {
	cmd := make([]byte, n)
	for i := 0; i < n; i += 509 {
		cmd[i] = byte(i >> 8)
	}
	return cmd
}

// cancelled ends calls by their contexts.
func cancelled(t *testing.T, r Rig) {
	j := r.open(t, 0)
	fill(t, j, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := j.Append(ctx, "never", nil); !errors.Is(err, context.Canceled) || errors.Is(err, journal.ErrUnknown) {
		t.Errorf("append with an ended context: %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	err := j.Read(ctx, journal.Position{}, func(journal.Entry) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("read with an ended context: %v", err)
	}
	waiting, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := j.Read(waiting, journal.Position{}, func(journal.Entry) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a waiting read: %v", err)
	}
	if err := j.Read(within(t), journal.Position{}, func(journal.Entry) error { return errEnough }); err != errEnough {
		t.Errorf("an error of f: %v", err)
	}
	if head, err := j.Head(within(t)); err != nil || head.Seq != 1 {
		t.Errorf("head %d, %v", head.Seq, err)
	}
}

// closed ends calls by Close.
func closed(t *testing.T, r Rig) {
	j := r.Open(t, 0)
	fill(t, j, 1)
	reading, ended := make(chan bool, 1), make(chan error, 1)
	go func() {
		ended <- j.Read(context.Background(), journal.Position{}, func(journal.Entry) error { reading <- true; return nil })
	}()
	<-reading
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, journal.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := j.Append(within(t), "late", nil); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := j.Head(within(t)); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("head: %v", err)
	}
}

// shortened cuts the end off. A node that knows the end neither reads nor appends.
func shortened(t *testing.T, r Rig) {
	j := r.open(t, 0)
	fill(t, j, 6)
	all := Take(t, j, journal.Position{}, 6)
	r.Rewrite(t, func(list []journal.Entry) []journal.Entry { return list[:4] })
	refuse(t, r.open(t, 1), all[5].Position, journal.ErrShortened, 0)
	if _, err := j.Append(within(t), "next", nil); !errors.Is(err, journal.ErrShortened) {
		t.Errorf("append: %v", err)
	}
	// Another node, which knows less, writes more entries: now there is another history.
	other := r.open(t, 2)
	for i := range 4 {
		add(t, other, fmt.Sprint("other-", i), nil)
	}
	refuse(t, j, all[5].Position, journal.ErrForeign, 0)
	CheckChain(t, all[3].Position, Take(t, other, all[3].Position, 4))
}

// refuse reads from a position and expects an error after some entries.
func refuse(t *testing.T, j journal.Journal, after journal.Position, want error, entries int) {
	t.Helper()
	seen := 0
	err := j.Read(within(t), after, func(journal.Entry) error { seen++; return nil })
	if !errors.Is(err, want) || !errors.Is(err, journal.ErrDamaged) || seen != entries {
		t.Errorf("read after %d: %d entries, %v; want %d, %v", after.Seq, seen, err, entries, want)
	}
}

// damage alters entries in several ways.
func damage(t *testing.T, r Rig) {
	j := r.open(t, 0)
	fill(t, j, 8)
	all := Take(t, j, journal.Position{}, 8)
	forged := all[3].Prev
	for _, c := range []struct {
		name    string
		alter   func([]journal.Entry) []journal.Entry
		want    error
		entries int // before the error, from the beginning
	}{
		{"command", func(l []journal.Entry) []journal.Entry { l[3].Command = []byte("forged"); return l }, journal.ErrAltered, 3},
		{"id", func(l []journal.Entry) []journal.Entry { l[3].ID = "forged"; return l }, journal.ErrAltered, 3},
		{"command with its hash", func(l []journal.Entry) []journal.Entry {
			l[3] = journal.Position{Seq: 3, Hash: forged}.Next("forged", nil)
			return l
		}, journal.ErrAltered, 4},
		{"gap", func(l []journal.Entry) []journal.Entry { return slices.Delete(l, 3, 4) }, journal.ErrAltered, 3},
		{"order", func(l []journal.Entry) []journal.Entry {
			l[3].Command, l[4].Command = l[4].Command, l[3].Command
			l[3].ID, l[4].ID = l[4].ID, l[3].ID
			return l
		}, journal.ErrAltered, 3},
		{"another journal", func(l []journal.Entry) []journal.Entry { return chainOf("other", len(l)) }, journal.ErrForeign, 0},
	} {
		r.Rewrite(t, func([]journal.Entry) []journal.Entry { return c.alter(slices.Clone(all)) })
		refuse(t, r.open(t, 1), journal.Position{}, c.want, c.entries)
		if t.Failed() {
			t.Fatal("above: ", c.name)
		}
	}
	// The positions of the journal that was here are not in the one that is.
	refuse(t, r.open(t, 1), all[7].Position, journal.ErrForeign, 0)
	refuse(t, r.open(t, 1), all[4].Position, journal.ErrForeign, 0)
	refuse(t, r.open(t, 1), journal.Genesis("other"), journal.ErrForeign, 0)
}

// chainOf returns n entries of a journal with a name.
func chainOf(name string, n int) (list []journal.Entry) {
	at := journal.Genesis(name)
	for i := range n {
		e := at.Next(fmt.Sprint("other-", i), nil)
		list, at = append(list, e), e.Position
	}
	return list
}

// shortenedWhileReading cuts the end off while a reader waits there.
func shortenedWhileReading(t *testing.T, r Rig) {
	j := r.open(t, 0)
	fill(t, j, 5)
	reading, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- r.open(t, 1).Read(within(t), journal.Position{}, func(e journal.Entry) error {
			if e.Seq == 5 {
				close(reading)
			}
			return nil
		})
	}()
	<-reading
	r.Rewrite(t, func(list []journal.Entry) []journal.Entry { return list[:3] })
	if err := <-ended; !errors.Is(err, journal.ErrShortened) {
		t.Errorf("read: %v", err)
	}
}

// drop removes entries from the beginning.
func drop(t *testing.T, r Rig) {
	a, b := r.open(t, 0), r.open(t, 1)
	fill(t, a, 4)
	add(t, a, "large", sized(2<<20))
	add(t, a, "sixth", nil)
	all := Take(t, b, journal.Position{}, 6)
	if err := b.Drop(within(t), 4); err != nil {
		t.Fatal(err)
	}
	refuse(t, a, journal.Position{}, journal.ErrDropped, 0)
	refuse(t, a, all[2].Position, journal.ErrDropped, 0)
	CheckChain(t, all[3].Position, Take(t, a, all[3].Position, 2))
	if seq := add(t, a, "large", nil); seq != 5 {
		t.Errorf("a kept id is entry %d", seq)
	}
	for _, upTo := range []uint64{2, 5, 1 << 63} { // the last entry remains
		if err := a.Drop(within(t), upTo); err != nil {
			t.Fatal(err)
		}
	}
	refuse(t, b, all[3].Position, journal.ErrDropped, 0)
	head, err := b.Head(within(t))
	if err != nil || head != all[5].Position {
		t.Errorf("head %d, %v", head.Seq, err)
	}
	if seq := add(t, r.open(t, 2), "seventh", nil); seq != 7 {
		t.Errorf("the entry after a drop is %d", seq)
	}
	CheckChain(t, all[5].Position, Take(t, b, all[5].Position, 1))
}

// dropPassesReader drops entries that a slow reader has not read.
func dropPassesReader(t *testing.T, r Rig) {
	j := r.open(t, 0)
	fill(t, j, 2)
	last := uint64(0)
	err := r.open(t, 1).Read(within(t), journal.Position{}, func(e journal.Entry) error {
		switch last = e.Seq; e.Seq {
		default:
			return nil
		case 7:
			return errEnough
		case 2:
		}
		for i := range 5 {
			add(t, j, fmt.Sprint("more-", i), sized(3<<20))
		}
		return j.Drop(within(t), 6)
	})
	// Entries that were fetched before the drop may still be read.
	if !errors.Is(err, journal.ErrDropped) && err != errEnough {
		t.Errorf("read up to %d: %v", last, err)
	}
}

// old finds entries by the bytes that follow them.
func old(t *testing.T, r Rig) {
	j := r.open(t, 0)
	check := func(bytes int64, want uint64) {
		t.Helper()
		if seq, err := j.Old(within(t), bytes); err != nil || seq != want {
			t.Errorf("before %d bytes: %d, %v; want %d", bytes, seq, err, want)
		}
	}
	check(1, 0)
	for i := range 6 {
		add(t, j, fmt.Sprint("old-", i), sized(1000))
	}
	check(6000, 0)
	check(2500, 3)
	check(1, 5)
	if seq, err := new(journal.Retention).Droppable(within(t), j, 6, 4); err != nil || seq != 0 {
		t.Errorf("droppable %d, %v: ids are kept for an hour", seq, err)
	}
	if err := j.Drop(within(t), 4); err != nil {
		t.Fatal(err)
	}
	check(2500, 0)
	check(500, 5)
}

// backlog lets many callers append while the engine does not answer. They wait, or their contexts end
// them. The journal keeps hardly any command of a call that has ended. When the engine answers again,
// all commands of those that wait are entries, in the order in which each has appended them.
func backlog(t *testing.T, r Rig) {
	const size, ended, writers, each = 32 << 10, 80, 16, 3
	j, stall, resume := r.Stall(t)
	defer j.Close()
	direct := r.open(t, 0)
	add(t, j, "first", nil)
	resume = sync.OnceFunc(resume)
	stall()
	defer resume()
	unknown := map[string]bool{} // of those that have ended
	var kept []weak.Pointer[byte]
	for i := range ended {
		id := fmt.Sprint("ended-", i)
		cmd := command(id, size)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		_, err := j.Append(ctx, id, cmd)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("append %s to a journal that does not answer: %v", id, err)
		}
		unknown[id] = errors.Is(err, journal.ErrUnknown)
		kept = append(kept, weak.Make(&cmd[0]))
	}
	var group sync.WaitGroup
	var returned atomic.Int64
	seqs := make([][each]uint64, writers)
	for w := range writers {
		group.Go(func() {
			for i := range each {
				id := fmt.Sprintf("waits-%d-%d", w, i)
				seq, err := j.Append(within(t), id, command(id, size))
				if returned.Add(1); err != nil {
					t.Errorf("append %s: %v", id, err)
				}
				seqs[w][i] = seq
			}
		})
	}
	runtime.GC()
	runtime.GC()
	left := 0
	for _, p := range kept {
		if p.Value() != nil {
			left++
		}
	}
	if left > 24 { // an engine may still have those of attempts that have ended
		t.Errorf("%d commands of %d KiB are kept", left, size>>10)
	}
	if n := returned.Load(); n > 0 {
		t.Errorf("%d calls returned while the engine did not answer", n)
	}
	resume()
	group.Wait()
	if t.Failed() {
		return
	}
	head, err := direct.Head(within(t))
	if err != nil {
		t.Fatal(err)
	}
	all := Take(t, direct, journal.Position{}, int(head.Seq))
	CheckChain(t, journal.Genesis(r.Name), all)
	at := map[string]uint64{}
	for _, e := range all {
		if may, has := unknown[e.ID]; at[e.ID] > 0 || has && !may {
			t.Errorf("entry %d is %s, which is entry %d, or which was refused", e.Seq, e.ID, at[e.ID])
		}
		if at[e.ID] = e.Seq; e.ID != "first" && !bytes.Equal(e.Command, command(e.ID, size)) {
			t.Errorf("%s has another command", e.ID)
		}
	}
	for w := range writers {
		for i, seq := range seqs[w] {
			if id := fmt.Sprintf("waits-%d-%d", w, i); at[id] != seq || seq == 0 || i > 0 && seq <= seqs[w][i-1] {
				t.Errorf("%s is entry %d, append returned %d", id, at[id], seq)
			}
		}
	}
	t.Logf("%d entries; %d of %d ended commands were kept", len(all), left, ended)
}
