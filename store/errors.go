package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Errors of Open. They are wrapped in a message that names the file and the remedy.
var (
	ErrLocked   = errors.New("the store is in use by another process")
	ErrNotStore = errors.New("not a Freshet store")
	ErrSchema   = errors.New("unknown schema version")
	ErrDamaged  = errors.New("the store is damaged")
)

// ErrBroken is returned by writes after a failed commit: the disk can no longer be
// trusted, and the process should exit.
var ErrBroken = errors.New("the store takes no writes after a failed commit")

// withRemedy adds the remedy to an error of opening path.
func withRemedy(path string, err error) error {
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

// full reports whether err means that the disk has no space. bbolt returns errors of
// growing the file as text only.
func full(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, e) || err != nil && strings.HasPrefix(err.Error(), "file ") && strings.HasSuffix(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

const makeRoom = "the disk is full: make room and start again; nothing is lost"

// Watch returns the error of the first commit that fails for a reason other than a
// full disk, or nil when ctx ends. The failed transaction is undone and later writes
// are refused: the process should exit.
func (d *DB) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.failed:
		return *d.broken.Load()
	}
}

// update runs f in one write transaction. An error of f undoes it and is returned
// unchanged. If the commit itself fails, the transaction has no effect either. On a
// full disk the error wraps registry.ErrReadOnly, and writes are refused until there
// is space again; after any other error the store refuses all writes.
func (d *DB) update(f func(tx *bbolt.Tx) error) error {
	if r := d.disk.refusal(); r != nil {
		return r
	}
	return d.edit(func(tx *bbolt.Tx) (bool, error) { return false, f(tx) })
}

// edit is like update for transactions that may only delete. It also tries them on a
// full disk, since the free pages of the file may suffice.
func (d *DB) edit(f func(tx *bbolt.Tx) (frees bool, err error)) error {
	if err := d.broken.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, *err)
	}
	err := guarded(func() error { return d.write(f) })
	if c := (*crash)(nil); errors.As(err, &c) { // it is unknown how much was written
		return d.breaks(fmt.Errorf("write to %s: %w", d.path, err))
	}
	return err
}

func (d *DB) write(f func(tx *bbolt.Tx) (frees bool, err error)) error {
	tx, err := d.bolt.Begin(true)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer tx.Rollback() // no effect after a commit
	frees, err := f(tx)
	if err == errUnchanged {
		return nil
	}
	if err != nil {
		return err
	}
	if r := d.disk.refusal(); r != nil && !(frees && d.entered.Load()) {
		return r
	}
	return d.commit(tx)
}

// errUnchanged ends a transaction that has nothing to write.
var errUnchanged = errors.New("nothing has changed")

func (d *DB) commit(tx *bbolt.Tx) error {
	id := tx.ID()
	failure := tx.Commit()
	if failure == nil {
		return nil
	}
	err := fmt.Errorf("commit to %s: %w", d.path, failure)
	if full(failure) && !d.inEffect(id) {
		return d.disk.markFull(err, tx.Stats().PageAlloc)
	}
	return d.breaks(err)
}

// breaks refuses further writes and notifies Watch.
func (d *DB) breaks(err error) error {
	if d.broken.CompareAndSwap(nil, &err) {
		close(d.failed)
	}
	return err
}

// inEffect reports whether readers see a transaction whose commit failed. In that case
// the disk may hold only part of it, and neither state can be trusted.
func (d *DB) inEffect(id int) bool {
	tx, err := d.bolt.Begin(false)
	if err != nil {
		return true
	}
	defer tx.Rollback()
	return tx.ID() >= id
}
