package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func TestOpenLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), filepath.Join(dir, File)) {
		t.Fatalf("a second Open says %v", err)
	}
}

func TestOpenMakesPrivateFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, dir, Options{})
	for name, want := range map[string]os.FileMode{"": 0o700, File: 0o600, File + generationSuffix: 0o600} {
		i, err := os.Stat(filepath.Join(dir, name))
		if err != nil || i.Mode().Perm() != want {
			t.Errorf("%q: mode %v, %v", name, i.Mode(), err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	edit := func(f func(m *bbolt.Bucket) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			b, err := bbolt.Open(path, 0o600, nil)
			if err == nil {
				err = b.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket(bMeta)) })
				err = errors.Join(err, b.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  error
	}{
		"text": {func(t *testing.T, path string) {
			overwrite(t, path, []byte(strings.Repeat("this is no store\n", 1000)))
		}, ErrNotStore},
		"a few bytes": {func(t *testing.T, path string) { overwrite(t, path, []byte("oops")) }, ErrDamaged},
		"directory": {func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, ErrNotStore},
		"newer schema":   {edit(func(m *bbolt.Bucket) error { return m.Put(kSchema, key8(currentSchema()+1)) }), ErrSchema},
		"older schema":   {edit(func(m *bbolt.Bucket) error { return m.Put(kSchema, key8(firstSchema-1)) }), ErrSchema},
		"no schema":      {edit(func(m *bbolt.Bucket) error { return m.Delete(kSchema) }), ErrDamaged},
		"foreign bucket": {edit(func(m *bbolt.Bucket) error { return m.Put(kMagic, []byte("other")) }), ErrNotStore},
		"other bbolt file": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			b, err := bbolt.Open(path, 0o600, nil)
			if err == nil {
				err = b.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("x")); return err })
				err = errors.Join(err, b.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, ErrNotStore},
		"cut off": {func(t *testing.T, path string) {
			if err := os.Truncate(path, 5*4096); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged},
		"cut after the first page": {func(t *testing.T, path string) {
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, File)
			lived(t, dir)
			c.spoil(t, path)
			d, err := Open(dir, Options{})
			if err == nil {
				d.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			// The refused file is unchanged and not locked.
			if _, err := Open(dir, Options{}); errors.Is(err, ErrLocked) {
				t.Fatal("a refused store stays locked")
			}
		})
	}
}

// A file that lost pages at its end is refused with the same sentence wherever it ends: also if the list of
// free pages is lost, of which bbolt says nothing and faults.
func TestOpenRefusesEveryCut(t *testing.T) {
	dir := t.TempDir()
	lived(t, dir)
	d := open(t, dir, Options{})
	used, err := fetch(d.boltFile, func(tx *bbolt.Tx) (int64, error) { return tx.Size(), nil })
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	for size := int64(8192); size < used; size += 4096 {
		dir := t.TempDir()
		path := filepath.Join(dir, File)
		if err := os.WriteFile(path, good[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it is not locked afterwards
			d, err := Open(dir, Options{})
			if err == nil {
				d.Close()
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("the file was cut off (%d of %d bytes)", size, used)) {
				t.Errorf("%d of %d bytes: %v", size, used, err)
			}
		}
	}
}

func TestOpenReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, os.ErrPermission) {
		t.Fatalf("got %v", err)
	}
}

func TestSeedStays(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	seed := d.Seed()
	if seed == 0 || seed == open(t, t.TempDir(), Options{}).Seed() {
		t.Fatal("the seed is not random")
	}
	if reopen(t, d, dir, Options{}).Seed() != seed {
		t.Fatal("the seed changed")
	}
}

// A commit is on disk when it returns. Kill tests do not show this, because what a killed
// process has written is not lost.
func TestCommitsAreSynced(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	if d.bolt.NoSync || d.bolt.NoGrowSync {
		t.Errorf("NoSync %t, NoGrowSync %t: a power cut loses commits", d.bolt.NoSync, d.bolt.NoGrowSync)
	}
}
