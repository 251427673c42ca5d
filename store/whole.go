package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// plausible refuses what cannot be a store.
func plausible(path string) error {
	i, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !i.Mode().IsRegular():
		return fmt.Errorf("%w: it is not a regular file", ErrNotStore)
	case i.Size() == 0:
		return fmt.Errorf("%w: the file is empty: put a backup in its place, or remove it to begin a new store", ErrDamaged)
	case i.Size() < 2<<12:
		return fmt.Errorf("%w: the file has only %d bytes: put a backup in its place", ErrDamaged, i.Size())
	}
	return nil
}

// whole refuses a file that was cut off. size is that of the file before it was opened.
func whole(b *bbolt.DB, size int64) error {
	return b.View(func(tx *bbolt.Tx) error {
		if tx.Size() > size {
			return fmt.Errorf("%w: the file was cut off (%d of %d bytes): put a backup in its place", ErrDamaged, size, tx.Size())
		}
		return nil
	})
}

// createWhole makes a new file as a whole, so that a file that is empty or cut off is always a damaged one.
func createWhole(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // also for errors, which opening it reports
	}
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPattern)
	if err != nil {
		return err
	}
	part := f.Name()
	defer os.Remove(part)
	if err := f.Close(); err != nil {
		return err
	}
	b, err := bbolt.Open(part, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType})
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		return err
	}
	if err = os.Link(part, path); err == nil {
		return syncDir(filepath.Dir(path))
	}
	if _, there := os.Stat(path); there == nil {
		return nil // another process was faster
	}
	return os.Rename(part, path) // a file system without links
}
