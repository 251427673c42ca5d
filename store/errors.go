package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/freshet/freshet/registry"
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

// withRemedy adds the remedy to an error of opening path.
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
