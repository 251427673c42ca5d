package store

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// Retries on a full disk start after Options.Retry; their interval grows to
// longestRetry.
const (
	usualRetry   = 2 * time.Second
	longestRetry = 30 * time.Second
)

// leastRoom is the minimum free space, in the file or on the disk, for a retry.
const leastRoom = 64 << 10

// A diskState tracks whether the store can be written. It is full from a commit that found
// no space until a later attempt to write succeeds.
type diskState struct {
	reserve int64
	free    func(path string) (free, total int64, err error)
	dir     string
	log     *slog.Logger
	stuck   atomic.Pointer[fullDisk] // nil if writes are allowed
	wake    chan struct{}            // signals that the disk has become full
	wait    time.Duration            // before the first retry
}

// fullDisk is the state of a full disk.
type fullDisk struct {
	err  error
	need int64 // bytes that the failed transaction needed
}

func newDisk(path string, reserve int64, retry time.Duration, log *slog.Logger) *diskState {
	d := &diskState{reserve: reserve, free: freeBytes, dir: filepath.Dir(path), log: log, wake: make(chan struct{}, 1), wait: retry}
	if d.wait <= 0 {
		d.wait = usualRetry
	}
	return d
}

// refusal returns why writes are refused, or nil.
func (d *diskState) refusal() error {
	if s := d.stuck.Load(); s != nil {
		return s.err
	}
	return nil
}

const fullDetail = "the server's disk is full and nothing of this was stored: make room there; the server goes on by itself"

// markFull records that a commit found the disk full, and returns the error to report.
func (d *diskState) markFull(err error, need int64) error {
	err = fmt.Errorf("%w: %w: %w", registry.ErrReadOnly, err, registry.StorageFull(fullDetail))
	if d.stuck.CompareAndSwap(nil, &fullDisk{err, need}) {
		d.log.Error("the disk is full: the server only reads until there is room again; nothing is lost", "directory", d.dir, "error", err)
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// left returns the number of free bytes and the reserve, which is at most a tenth of
// the disk.
func (d *diskState) left() (free, reserve int64, known bool) {
	free, total, err := d.free(d.dir)
	if err != nil {
		return -1, d.reserve, false
	}
	return free, min(d.reserve, total/10), true
}

// room refuses transactions that only enlarge the store while free space is below the
// reserve.
func (d *diskState) room() error {
	free, reserve, known := d.left()
	if !known || free >= reserve {
		return nil
	}
	return registry.StorageFull(fmt.Sprintf("%d MiB of the server's disk are free, and limits.reserve keeps %d MiB: make room there, or lower the setting; what is registered goes on",
		free>>20, reserve>>20))
}

// pause waits before the nth retry. It returns false when ctx ends.
func (d *diskState) pause(ctx context.Context, n int) bool {
	t := time.NewTimer(min(d.wait<<min(n-1, 6), longestRetry))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
