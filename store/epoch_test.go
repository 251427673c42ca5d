package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// overwrite restores older bytes in place, without changing the inode of the file.
func overwrite(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Epoch returns the store's epoch, which scopes offsets.
func (d *DB) Epoch() string { return string(d.epoch) }

// lived creates and closes a store in dir with a query at change 2.
func lived(t *testing.T, dir string) (epoch string) {
	t.Helper()
	d := open(t, dir, Options{})
	put(t, d, "q_a", "city")
	step(t, d, "city", "q_a", 1, "x")
	step(t, d, "city", "q_a", 2, "y")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d.Epoch()
}

// expectContinues checks whether the store in dir continues under epoch, and that it
// continues or restarts in all respects.
func expectContinues(t *testing.T, dir, epoch string, want bool) {
	t.Helper()
	d := open(t, dir, Options{})
	defer d.Close()
	check(t, d)
	if got := d.Epoch() == epoch; got != want {
		t.Fatalf("the epoch went from %s to %s; it must stay: %t", epoch, d.Epoch(), want)
	}
	s, err := d.Catalog.Stats("q_a")
	if err != nil || s.Position.Seq < 1 {
		t.Fatalf("statistics: %+v, %v", s, err)
	}
	was := s.Position
	if r, err := d.Ledger.Result("q_a"); err != nil || r == nil {
		t.Fatalf("the result is lost: %v", err)
	}
	head, err := d.History.Head()
	if err != nil || head.Seq < was.Seq || head.Epoch != d.Epoch() {
		t.Fatalf("head %v, %v", head, err)
	}
	log, err := d.History.After("q_a", registry.Position{Epoch: was.Epoch}, 10)
	if want && (err != nil || len(log) != int(was.Seq)) || !want && gap(err) != registry.TooOld {
		t.Fatalf("the log from the beginning: %d changes, %v", len(log), err)
	}
	if !want {
		if _, err := d.History.Latest("q_a"); !errors.Is(err, registry.ErrNotFound) {
			t.Fatalf("a change of the epoch before is still the latest: %v", err)
		}
		if _, err := d.History.After("q_a", registry.Position{Epoch: epoch + strings.TrimPrefix(was.Epoch, d.Epoch()), Seq: 1},
			10); gap(err) != registry.OtherEpoch {
			t.Fatalf("a position of the epoch before: %v", err)
		}
		if _, err := d.History.All(registry.Offset{Epoch: epoch, Seq: 1}, 10); gap(err) != registry.OtherEpoch {
			t.Fatalf("an offset of the epoch before: %v", err)
		}
	}
	c := step(t, d, "city", "q_a", 9, "after", was.String())
	if len(c) != 1 || c[0].Seq != was.Seq+1 || c[0].Prev != was.Seq || c[0].Offset != head.Seq+1 || c[0].Baseline {
		t.Fatalf("numbering must go on after %v: %+v", was, c)
	}
	check(t, d)
}

func TestEpochStays(t *testing.T) {
	dir := t.TempDir()
	epoch := lived(t, dir)
	expectContinues(t, dir, epoch, true)
	expectContinues(t, dir, epoch, true)
}

func TestEpochOfRolledBackStore(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string, before []byte){
		"older content in the same file": overwrite,
		"older file": func(t *testing.T, path string, before []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			overwriteNew(t, path, before)
		},
		"file beside missing": func(t *testing.T, path string, _ []byte) {
			if err := os.Remove(path + generationSuffix); err != nil {
				t.Fatal(err)
			}
		},
		"file beside of another store": func(t *testing.T, path string, _ []byte) {
			other := t.TempDir()
			lived(t, other)
			copyFile(t, filepath.Join(other, File+generationSuffix), path+generationSuffix)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, File)
			epoch := lived(t, dir)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			expectContinues(t, dir, epoch, true) // has changes that the older copy lacks
			spoil(t, path, before)
			expectContinues(t, dir, epoch, false)
		})
	}
}

func overwriteNew(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// In a copied directory both files agree; only the inode differs.
func TestEpochOfCopiedDirectory(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	epoch := lived(t, dir)
	for _, name := range []string{File, File + generationSuffix} {
		copyFile(t, filepath.Join(dir, name), filepath.Join(other, name))
	}
	expectContinues(t, other, epoch, false)
	expectContinues(t, dir, epoch, true)
}

// After a crash during Open the file beside the store names both tokens or, if numbering had
// to restart, only the new one.
func TestEpochAfterCrashDuringOpen(t *testing.T) {
	inode := func(t *testing.T, path string) string {
		i, err := inodeOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	token := func(t *testing.T, path string) (s string) {
		b, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.View(func(tx *bbolt.Tx) error {
			s = string(tx.Bucket(bMeta).Get(kGeneration))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("before the commit", func(t *testing.T) {
		dir := t.TempDir()
		epoch := lived(t, dir)
		path := filepath.Join(dir, File)
		if err := (generationFile{path + generationSuffix}).write(inode(t, path), "next", token(t, path)); err != nil {
			t.Fatal(err)
		}
		expectContinues(t, dir, epoch, true)
	})
	t.Run("after the commit", func(t *testing.T) {
		dir := t.TempDir()
		epoch := lived(t, dir)
		path := filepath.Join(dir, File)
		if err := (generationFile{path + generationSuffix}).write(inode(t, path), token(t, path), "before"); err != nil {
			t.Fatal(err)
		}
		expectContinues(t, dir, epoch, true)
	})
	t.Run("before the commit of a new epoch", func(t *testing.T) {
		dir := t.TempDir()
		epoch := lived(t, dir)
		path := filepath.Join(dir, File)
		if err := (generationFile{path + generationSuffix}).write(inode(t, path), "next"); err != nil {
			t.Fatal(err)
		}
		expectContinues(t, dir, epoch, false)
	})
	t.Run("before the first commit", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, File)
		b, err := bbolt.Open(path, 0o600, nil)
		if err == nil {
			err = b.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		lived(t, dir)
	})
}

func TestBackupComesUpWithNewEpoch(t *testing.T) {
	dir, restored := t.TempDir(), t.TempDir()
	epoch := lived(t, dir)
	d := open(t, dir, Options{})
	f, err := os.Create(filepath.Join(restored, File))
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.Backup(f)
	if i, _ := f.Stat(); err != nil || n != i.Size() || n == 0 {
		t.Fatalf("backup of %d bytes: %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	expectContinues(t, restored, epoch, false)

	// Restored in place at once, while the file beside the store still agrees.
	var buf strings.Builder
	if _, err := d.Backup(&buf); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(dir, File), []byte(buf.String()))
	expectContinues(t, dir, epoch, false)
	left, _ := filepath.Glob(filepath.Join(dir, "*.copy-*"))
	if len(left) != 0 {
		t.Fatalf("backups left %v", left)
	}
}

func TestBackupWhileWriting(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	step(t, d, "city", "q_a", 1, "x")
	type copied struct {
		bytes bytes.Buffer
		err   error
	}
	copies := make(chan *copied)
	go func() {
		defer close(copies)
		for range 5 {
			c := new(copied)
			_, c.err = d.Backup(&c.bytes)
			copies <- c
		}
	}()
	var all []*copied
	for slot := uint64(2); len(all) < 5; slot++ {
		step(t, d, "city", "q_a", slot, "v", fmt.Sprint(slot))
		select {
		case c := <-copies:
			all = append(all, c)
		default:
		}
	}
	for i, c := range all {
		if c.err != nil {
			t.Fatal(c.err)
		}
		restored := t.TempDir()
		overwriteNew(t, filepath.Join(restored, File), c.bytes.Bytes())
		r := open(t, restored, Options{})
		check(t, r)
		if r.Epoch() == d.Epoch() {
			t.Fatalf("backup %d has the epoch of the store", i)
		}
	}
	check(t, d)
}

func TestCompact(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	epoch := lived(t, dir)
	d := open(t, dir, Options{})
	dst := filepath.Join(other, File)
	if err := d.Compact(dst); err != nil {
		t.Fatal(err)
	}
	if err := d.Compact(dst); !errors.Is(err, os.ErrExist) {
		t.Fatalf("compacting onto an existing file: %v", err)
	}
	expectContinues(t, other, epoch, false)
	a, err := os.Stat(dst)
	if err != nil || a.Mode().Perm() != 0o600 {
		t.Fatalf("mode of the copy: %v, %v", a.Mode(), err)
	}
}

// A copy that exists is complete: a crash before the end leaves no file with its name.
func TestCompactIsWholeOrNotThere(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	lived(t, dir)
	d := open(t, dir, Options{})
	want, err := d.Queries.CountQueries()
	if err != nil || want == 0 {
		t.Fatalf("%d queries: %v", want, err)
	}
	dst := filepath.Join(other, File)
	done := make(chan error, 1)
	go func() { done <- d.Compact(dst) }()
	for _, err = os.Stat(dst); err != nil && len(done) == 0; _, err = os.Stat(dst) {
		runtime.Gosched() // until the copy exists or Compact fails
	}
	found := t.TempDir()
	copyFile(t, dst, filepath.Join(found, File))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c := open(t, found, Options{})
	check(t, c)
	if n, err := c.Queries.CountQueries(); err != nil || n != want {
		t.Errorf("as soon as the copy was there it held %d of %d queries: %v", n, want, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) != 1 {
		t.Errorf("beside the copy: %v, %v", left, err)
	}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	if InUse(path) {
		t.Error("what is not there is in use")
	}
	d := open(t, dir, Options{})
	if !InUse(path) {
		t.Error("an open store is not in use")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if InUse(path) {
		t.Error("a closed store is in use")
	}
}
