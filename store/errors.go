package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Errors of Open. They are wrapped in a message that names the file and the remedy.
var (
	ErrLocked   = errors.New("the store is in use by another process")
	ErrNotStore = errors.New("not a Freshet store")
	ErrSchema   = errors.New("unknown schema version")
	ErrDamaged  = unusable("the store is damaged")
)

// ErrBroken is returned by writes after a failed commit: the disk can no longer be
// trusted, and the process should exit.
var ErrBroken = unusable("the store takes no writes after a failed commit")

func unusable(text string) error { return &unusableError{text} }

// An unusableError is registry.ErrUnusable with a text of its own.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

// Is implements the interface of errors.Is.
func (e *unusableError) Is(target error) bool { return target == registry.ErrUnusable }

func withRemedy(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open %s: %w: stop the other freshet, or give this one its own data directory", path, ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("open %s: %w (%v): move the file away, or point data at another directory", path, ErrNotStore, err)
	case isFull(err):
		return fmt.Errorf("open %s: %w: %s", path, err, makeRoom)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open %s: %w: the store needs a file system it can write to", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open %s: %w: the file and its directory must belong to the user who runs freshet", path, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// isFull reports whether err means that the disk has no space. bbolt returns errors of
// growing the file as text only.
func isFull(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, e) || err != nil && strings.HasPrefix(err.Error(), "file ") && strings.HasSuffix(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

const makeRoom = "the disk is full: make room and start again; nothing is lost"

const putBackup = "put a backup in its place"

// A crash is the error of code that was interrupted and may hold locks.
type crash struct{ error }

func (c *crash) Unwrap() error { return c.error }

// guarded turns a panic of f, or a fault of the mapped memory, into ErrDamaged,
// because bbolt does not validate pages. Panics in code outside of page access are
// passed on.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if !pagesFault() {
				panic(r)
			}
			err = &crash{fmt.Errorf("%w: a page holds what no page can hold (%v): %s", ErrDamaged, r, putBackup)}
		}
	}()
	err = f()
	for _, e := range []error{bolterrors.ErrBucketNotFound, bolterrors.ErrIncompatibleValue, bolterrors.ErrBucketExists} {
		if errors.Is(err, e) { // buckets are the same in every store
			return fmt.Errorf("%w: %w: %s", ErrDamaged, err, putBackup)
		}
	}
	return err
}

// pagesFault reports whether the current panic began in code that reads pages:
// bbolt's, this package's, or diff's, which unpacks results.
func pagesFault() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // skip this and the deferred function
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if of, ours := strings.CutPrefix(f.Function, "github.com/freshet/freshet/"); ours {
			return strings.HasPrefix(of, "store.") || strings.HasPrefix(of, "diff.")
		}
		if strings.HasPrefix(f.Function, "go.etcd.io/bbolt") {
			return true
		}
	}
	return true
}

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

// whole refuses a file that was cut off. It opens it without the list of free pages: if a page
// of that is missing, bbolt faults while it opens the file, and the file stays mapped and locked.
func whole(path string) error {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
	if err != nil {
		return err
	}
	err = b.View(func(tx *bbolt.Tx) error {
		i, err := os.Stat(path) // while no other process writes it
		if err != nil {
			return err
		}
		if tx.Size() > i.Size() {
			return fmt.Errorf("%w: the file was cut off (%d of %d bytes): put a backup in its place", ErrDamaged, i.Size(), tx.Size())
		}
		return nil
	})
	return errors.Join(err, b.Close())
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
