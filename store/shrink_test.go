package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/freshet/freshet/store/journal/memory"
	"go.etcd.io/bbolt"
)

// spacious is lived with a file that has unused pages.
func spacious(t *testing.T, dir string) (epoch string) {
	t.Helper()
	lived(t, dir)
	d := open(t, dir, Options{})
	d.bolt.NoSync = true
	for i := range 300 {
		put(t, d, fmt.Sprint("q_", i), "city")
	}
	for i := range 300 {
		remove(t, d, fmt.Sprint("q_", i))
	}
	if err := errors.Join(d.bolt.Sync(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return d.Epoch()
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	i, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return i.Size()
}

// A store that was shrunk goes on under its epoch, and nothing is left beside it. What it was before, and copies of it, do not.
func TestShrink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	epoch := spacious(t, dir)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Shrink(dir); err != nil {
		t.Fatal(err)
	}
	if n := size(t, path); n >= int64(len(before)) {
		t.Errorf("the file has %d bytes, and had %d", n, len(before))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
	other := t.TempDir()
	for _, name := range []string{File, File + generationSuffix} {
		copyFile(t, filepath.Join(dir, name), filepath.Join(other, name))
	}
	expectContinues(t, dir, epoch, true)
	if err := Shrink(dir); err != nil {
		t.Fatal(err)
	}
	expectContinues(t, dir, epoch, true)
	expectContinues(t, other, epoch, false)
	overwrite(t, path, before)
	expectContinues(t, dir, epoch, false)
}

// Once a file has taken the place of another, each is known with its own token only: a copy of the new one may have the inode that
// the old one had.
func TestGenerationOfTwoFiles(t *testing.T) {
	g := generationFile{filepath.Join(t.TempDir(), "store"+generationSuffix)}
	if err := g.write("1 2", "old", "new"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, inode string
		want         bool
	}{{"old", "1", true}, {"new", "2", true}, {"new", "1", false}, {"old", "2", false}, {"new", "3", false}, {"other", "1", false}} {
		if ok, reason, err := g.trusts(c.token, c.inode); ok != c.want || err != nil {
			t.Errorf("token %s, inode %s: %v, %q, %v", c.token, c.inode, ok, reason, err)
		}
	}
	if err := g.write("7", "before", "after"); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{"before": true, "after": true, "other": false} {
		if ok, _, err := g.trusts(token, "7"); ok != want || err != nil {
			t.Errorf("token %s: %v, %v", token, ok, err)
		}
	}
}

// A store that would begin a new epoch begins it after it was shrunk, too.
func TestShrinkCopy(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"in another directory": func(string) error { return nil },
		"without the file beside it": func(dir string) error {
			return os.Remove(filepath.Join(dir, File+generationSuffix))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, other := t.TempDir(), t.TempDir()
			epoch := spacious(t, dir)
			for _, name := range []string{File, File + generationSuffix} {
				copyFile(t, filepath.Join(dir, name), filepath.Join(other, name))
			}
			if err := errors.Join(spoil(other), Shrink(other)); err != nil {
				t.Fatal(err)
			}
			expectContinues(t, other, epoch, false)
		})
	}
}

// smaller writes a copy of a store without unused pages.
func smaller(t *testing.T, dir string) (path, part, token string) {
	t.Helper()
	path = filepath.Join(dir, File)
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.View(func(tx *bbolt.Tx) error {
		token = string(tx.Bucket(bMeta).Get(kGeneration))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	part, err = compacted(b, dir, temporaryPattern)
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	return path, part, token
}

// A process that ends between two steps leaves a store that goes on.
func TestShrinkInPart(t *testing.T) {
	for name, last := range map[string]func(path, part string, g generationFile, token string) error{
		"after both are known": func(path, part string, g generationFile, token string) error {
			old, err := inodeOf(path)
			into, err2 := inodeOf(part)
			return errors.Join(err, err2, setMeta(part, kGeneration, []byte("next")), g.write(old+" "+into, token, "next"))
		},
		"after the file is replaced": func(path, part string, g generationFile, token string) error {
			old, err := inodeOf(path)
			into, err2 := inodeOf(part)
			return errors.Join(err, err2, setMeta(part, kGeneration, []byte("next")), g.write(old+" "+into, token, "next"),
				os.Rename(part, path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			epoch := spacious(t, dir)
			path, part, token := smaller(t, dir)
			if err := last(path, part, generationFile{path + generationSuffix}, token); err != nil {
				t.Fatal(err)
			}
			expectContinues(t, dir, epoch, true)
			if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
				t.Errorf("beside the file: %v, %v", left, err)
			}
		})
	}
}

// A server that starts as soon as the file is replaced goes on, and so does its next start.
func TestOpenWhileShrinkEnds(t *testing.T) {
	dir := t.TempDir()
	epoch := spacious(t, dir)
	path, part, token := smaller(t, dir)
	var d *DB
	if err := supplant(path, part, generationFile{path + generationSuffix}, token, func() error {
		err := os.Rename(part, path)
		d = open(t, dir, Options{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil || d.Epoch() != epoch {
		t.Fatalf("epoch %s after %s, %v", d.Epoch(), epoch, err)
	}
	expectContinues(t, dir, epoch, true)
}

// A store that a process has open is left alone. A process that waited for the file that was replaced does not open it.
func TestShrinkOfStoreInUse(t *testing.T) {
	dir := t.TempDir()
	epoch := spacious(t, dir)
	d := open(t, dir, Options{})
	if err := Shrink(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("a store in use: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, File)
	replace := func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag, mode)
		return f, errors.Join(err, Shrink(dir)) // before it has the lock
	}
	if b, err := openCurrent(path, bbolt.Options{OpenFile: replace}); err == nil || !errors.Is(withRemedy(path, err), ErrLocked) {
		t.Fatalf("the file before was opened: %v, %v", b, err)
	}
	expectContinues(t, dir, epoch, true)
}

// The store of a node of a cluster goes on with its journal.
func TestShrinkOfNode(t *testing.T) {
	log, dir := memory.New("test"), t.TempDir()
	d := open(t, dir, Options{Journal: openJournal(t, log)})
	put(t, d, "q_a", "city")
	step(t, d, "city", "q_a", 1, "x")
	epoch := d.Epoch()
	if err := errors.Join(d.Close(), Shrink(dir)); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{Journal: openJournal(t, log)})
	if c := step(t, d, "city", "q_a", 2, "y"); d.Epoch() != epoch || len(c) != 1 || c[0].Seq != 2 {
		t.Errorf("epoch %s after %s, %+v", d.Epoch(), epoch, c)
	}
	check(t, d)
}

func TestShrinkOfNothing(t *testing.T) {
	if err := Shrink(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	b, err := bbolt.Open(filepath.Join(dir, File), 0o600, nil)
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Shrink(dir); !errors.Is(err, ErrNotStore) {
		t.Errorf("an empty file: %v", err)
	}
}

// A damaged store is left as it is, without a half copy beside it.
func TestShrinkOfDamagedStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	spacious(t, dir)
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	damaged := int64(0) // a page of some bucket
	err = b.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, of *bbolt.Bucket) error {
			if string(name) != string(bMeta) && of.Root() > 0 {
				damaged = int64(of.Root()) * int64(os.Getpagesize())
			}
			return nil
		})
	})
	if err := errors.Join(err, b.Close()); err != nil || damaged == 0 {
		t.Fatalf("page at %d: %v", damaged, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 16), damaged)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := Shrink(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("shrunk: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
}

// A store that a link leads to is shrunk where it is. What a crash left there is removed, and the copies of other stores stay.
func TestShrinkOfLinkedStore(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	epoch := spacious(t, dir)
	path, real := filepath.Join(dir, File), filepath.Join(far, "city.db")
	copied, other := real+".copy-1", filepath.Join(far, File+".copy-1")
	if err := errors.Join(os.Rename(path, real), os.Symlink(real, path), os.WriteFile(copied, nil, 0o600),
		os.WriteFile(other, nil, 0o600)); err != nil {
		t.Skip("this system makes no such links: ", err)
	}
	before := size(t, real)
	if err := Shrink(dir); err != nil || size(t, real) >= before {
		t.Errorf("%v, %d bytes of %d", err, size(t, real), before)
	}
	expectContinues(t, dir, epoch, true)
	_, gone := os.Stat(copied)
	_, err := os.Stat(other)
	if !errors.Is(gone, os.ErrNotExist) || err != nil {
		t.Errorf("its half copy: %v, that of another store: %v", gone, err)
	}
}
