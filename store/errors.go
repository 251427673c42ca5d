package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Errors of Open, wrapped in a sentence that names the file and says what to do.
var (
	ErrLocked   = errors.New("the store is in use by another process")
	ErrNotStore = errors.New("not a Freshet store")
	ErrSchema   = errors.New("unknown schema version")
	ErrDamaged  = errors.New("the store is damaged")
)

// ErrBroken is what writes return after a transaction could not be committed:
// the disk can no longer be trusted, and the process should end.
var ErrBroken = errors.New("the store takes no writes after a failed commit")

// explain says what to do about an error of opening path.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open %s: %w: stop the other freshet, or give this one its own data directory", path, ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("open %s: %w (%v): move the file away, or point data at another directory", path, ErrNotStore, err)
	case full(err):
		return fmt.Errorf("open %s: %w: %s", path, err, makeRoom)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open %s: %w: the store needs a file system it can write to", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open %s: %w: the file and its directory must belong to the user who runs freshet", path, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

const makeRoom = "the disk is full: make room and start again; nothing is lost"

// Watch returns the error of the first commit that fails, or nil when ctx ends.
// What has failed is undone, but no further write is taken: the process should
// end.
func (d *DB) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.failed:
		return *d.broken.Load()
	}
}

// update runs f in one write transaction. Errors of f undo it and are returned
// as they are; when the commit itself fails nothing is in effect either, and
// the store takes no more writes.
func (d *DB) update(f func(tx *bbolt.Tx) error) error {
	if err := d.broken.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, *err)
	}
	tx, err := d.bolt.Begin(true)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer tx.Rollback() // does nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		err = fmt.Errorf("commit to %s: %w", d.path, err)
		if full(err) {
			err = fmt.Errorf("%w: %s", err, makeRoom)
		}
		if d.broken.CompareAndSwap(nil, &err) {
			close(d.failed)
		}
		return err
	}
	return nil
}
