// Tests of commits that are flushed after their answers.

package store

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal/memory"
)

// image returns the pages of a file that its newest state uses.
func image(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := extent(f)
	if err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// putImage stores an image in a new directory.
func putImage(t testing.TB, b []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stateOf returns the numbers of the newest commit and of the last flushed one, 0 if none is marked.
func stateOf(t testing.TB, dir string) (newest, flushed uint64) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := flushStateOf(f)
	if err != nil || s.newest == nil {
		t.Fatalf("%+v, %v", s, err)
	}
	for i, m := range []*metaPage{s.before, s.newest} {
		if s.marks[1-i] != nil {
			flushed = m.transaction
		}
	}
	return s.newest.transaction, flushed
}

// otherBoot makes a store write its marks as if the system was started again after it.
func otherBoot(d *DB) {
	d.flusher.mu.Lock()
	defer d.flusher.mu.Unlock()
	d.flusher.boot = bootID{1}
}

// beforeSync calls f before each flush, and later after it.
func beforeSync(d *DB, f func() error, later func()) {
	d.flusher.mu.Lock()
	defer d.flusher.mu.Unlock()
	sync := d.flusher.sync
	d.flusher.sync = func() error {
		if err := f(); err != nil {
			return err
		}
		err := sync()
		later()
		return err
	}
}

// TestPowerFailure takes files as a power failure leaves them: what was flushed, and any of the sectors
// that were written since. A store opened from each is whole, and ends like the one that it is from.
func TestPowerFailure(t *testing.T) {
	const seed = 20261124
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 3))
	c := newCluster(t, seed, 1)
	c.stays = true
	d := c.stores[0]
	otherBoot(d)
	var failures [][]byte
	var durable []byte // nil before the first flush with another boot
	flushes := 0
	beforeSync(d, func() error {
		if flushes++; durable != nil && flushes%11 == 0 && len(failures) < 16 { // each other one is that of a mark
			failures = append(failures, tear(random, durable, image(t, d.path), len(failures)%3 > 0))
		}
		return nil
	}, func() { durable = image(t, d.path) })
	for n := range 120 {
		c.step(n)
	}
	settle(t, d)
	torn := 0
	for _, b := range failures {
		dir := putImage(t, b)
		if newest, flushed := stateOf(t, dir); flushed != 0 && flushed < newest {
			torn++
		}
		again := open(t, dir, Options{Journal: openJournal(t, c.log)})
		check(t, again)
		settle(t, again)
		expectSame(t, d, again)
	}
	if torn < 3 {
		t.Errorf("%d of %d files had a commit that was not flushed", torn, len(failures))
	}
	t.Logf("%d files, %d with a commit that was not flushed", len(failures), torn)
}

// tear returns what was on the disk, with some of the sectors that were written since, and all of those of
// the meta pages if meta is set.
func tear(random *rand.Rand, old, now []byte, meta bool) []byte {
	const sector = 512
	b := append(old[:len(old):len(old)], make([]byte, max(0, len(now)-len(old)))...)
	for at := 0; at < len(now); at += sector {
		if random.IntN(2) == 0 || meta && at < 2*os.Getpagesize() {
			copy(b[at:at+sector], now[at:])
		}
	}
	return b
}

// A commit that is not flushed stays if only the process has ended, since the system still has all of
// it. After a start of the system it is gone. The marks are, too.
func TestMend(t *testing.T) {
	for name, boot := range map[string]bool{"process": false, "system": true} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), Options{Journal: openJournal(t, memory.New("test"))})
			if boot {
				otherBoot(d)
			}
			put(t, d, "a", "city")
			if err := d.flush(); err != nil {
				t.Fatal(err)
			}
			var b []byte
			beforeSync(d, func() error {
				if b == nil {
					b = image(t, d.path)
				}
				return nil
			}, func() {})
			put(t, d, "b", "city")
			if err := d.flush(); err != nil {
				t.Fatal(err)
			}
			dir := putImage(t, b)
			newest, flushed := stateOf(t, dir)
			if newest != flushed+1 {
				t.Fatalf("commit %d is flushed before commit %d", flushed, newest)
			}
			want := newest
			if boot {
				want = flushed
			}
			if err := mend(filepath.Join(dir, File)); err != nil {
				t.Fatal(err)
			}
			if newest, flushed := stateOf(t, dir); newest != want || flushed != 0 {
				t.Errorf("commit %d, expected %d; %d is marked", newest, want, flushed)
			}
		})
	}
}

// After a flush that failed, the store writes no more, and its file is not trusted even if the system
// is not started again.
func TestFlushFails(t *testing.T) {
	dir, log := t.TempDir(), memory.New("test")
	d := open(t, dir, Options{Journal: openJournal(t, log)})
	put(t, d, "a", "city")
	if err := d.flush(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	failed := false
	beforeSync(d, func() error {
		if failed {
			return nil // as Linux says when it has given up
		}
		failed = true
		return broken
	}, func() {})
	put(t, d, "b", "city")
	if err := d.Watch(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("Watch: %v", err)
	}
	if err := d.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: %v", err)
	}
	newest, flushed := stateOf(t, dir)
	if newest != flushed+1 {
		t.Fatalf("commit %d is newest, %d is marked as flushed", newest, flushed)
	}
	if err := mend(filepath.Join(dir, File)); err != nil {
		t.Fatal(err)
	}
	if n, _ := stateOf(t, dir); n != flushed {
		t.Errorf("commit %d is trusted after a flush that failed", n)
	}
	again := open(t, dir, Options{Journal: openJournal(t, log)})
	if _, err := again.Queries.Query("b"); err != nil {
		t.Error(err)
	}
}

// A fullFile has no room for some writes.
type fullFile struct {
	io.WriterAt
	fails int
}

func (f *fullFile) WriteAt(b []byte, at int64) (int, error) {
	if f.fails--; f.fails >= 0 {
		return 0, syscall.ENOSPC
	}
	return f.WriterAt.WriteAt(b, at)
}

// A disk without room for a mark holds up the next commit until there is room.
func TestNoRoomForMark(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{Journal: openJournal(t, memory.New("test")), JournalWait: engineWait, Retry: time.Millisecond})
	put(t, d, "a", "city")
	if err := d.flush(); err != nil {
		t.Fatal(err)
	}
	f := &fullFile{d.flusher.file, 3}
	d.flusher.mu.Lock()
	d.flusher.file = f
	d.flusher.mu.Unlock()
	put(t, d, "b", "city")
	put(t, d, "c", "city")
	if err := errors.Join(d.breakage(), d.flush()); err != nil {
		t.Fatal(err)
	}
	if newest, flushed := stateOf(t, dir); newest != flushed || f.fails >= 0 {
		t.Errorf("commit %d is newest, %d is marked as flushed after %d more writes", newest, flushed, f.fails)
	}
}
