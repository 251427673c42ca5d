package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/internal/batch"
	"github.com/freshet/freshet/store/replica"
	"go.etcd.io/bbolt"
)

// File is the name of the store in its directory.
const File = "freshet.db"

// lockWait is how long Open waits for another process to close the store.
const lockWait = time.Second

// A boltFile runs the transactions of an open store. The stores of the subjects embed it.
type boltFile struct {
	bolt      *bbolt.DB
	durable   durability
	path      string
	epoch     storeEpoch
	seed      uint64
	retention Retention
	log       *slog.Logger
	now       func() time.Time
	elapsed   func() time.Duration // since the store was opened, by a clock that is never set
	aging     aging
	feed      feed
	pack      *packer
	disk      *diskState
	broken    atomic.Pointer[error]
	failed    chan struct{}    // closed when broken is set
	renewal   func() error     // of the generation
	entered   atomic.Bool      // the generation has been renewed
	copied    string           // why the file counts as a copy that may not begin a journal, "" if it does not
	removed   chan struct{}    // signals that there is data to purge
	leased    chan struct{}    // signals that nodes or leases have changed
	replica   *replica.Replica // nil without a journal
	others    foreign
	decisions batch.Queue[*decision]
}

// A durability says which transactions are on the disk for good. bbolt shows one to readers before it has synced it.
type durability struct {
	commit sync.Mutex   // held while a transaction is committed
	last   atomic.Int64 // the last one that is durable
}

// view runs f in a read transaction, of which everything is durable. Invalid page contents are reported as ErrDamaged.
func (d *boltFile) view(f func(tx *bbolt.Tx) error) error {
	return guarded(func() error {
		tx, err := d.begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return f(tx)
	})
}

// begin begins a read transaction. If the last commit is visible and not durable yet, it waits for that.
func (d *boltFile) begin() (*bbolt.Tx, error) {
	tx, err := d.bolt.Begin(false)
	if err != nil || int64(tx.ID()) <= d.durable.last.Load() {
		return tx, err
	}
	if err := tx.Rollback(); err != nil {
		return nil, err
	}
	d.durable.commit.Lock()
	defer d.durable.commit.Unlock()
	if err := d.breakage(); err != nil {
		return nil, err
	}
	if tx, err = d.bolt.Begin(false); err == nil { // no commit is under way
		d.durable.last.Store(int64(tx.ID()))
	}
	return tx, err
}

// fetch returns what f reads in one read transaction.
func fetch[T any](d *boltFile, f func(tx *bbolt.Tx) (T, error)) (v T, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		v, err = f(tx)
		return err
	})
	return v, err
}

// edit runs f in one write transaction. An error of f undoes it and is returned
// unchanged. If the commit itself fails, the transaction has no effect either. On a
// full disk the error wraps registry.ErrReadOnly, and writes are refused until there
// is space again; after any other error the store refuses all writes. A transaction that frees
// space is tried on a full disk, too, since the free pages of the file may suffice.
func (d *boltFile) edit(f func(tx *bbolt.Tx) (frees bool, err error)) error {
	if err := d.breakage(); err != nil {
		return err
	}
	err := guarded(func() error { return d.transact(f) })
	if c := (*crash)(nil); errors.As(err, &c) { // it is unknown how much was written
		return d.breaks(fmt.Errorf("write to %s: %w", d.path, err))
	}
	return err
}

// refusal returns why nothing can be written now, or nil. With a journal that is also the
// journal. A node whose disk is full applies nothing of it, so the disk comes first.
func (d *boltFile) refusal() error {
	if err := cmp.Or(d.breakage(), d.disk.refusal()); err != nil || d.replica == nil {
		return err
	}
	return d.replica.Refusal()
}

// breakage returns why nothing can be written any more, or nil.
func (d *boltFile) breakage() error {
	if err := d.broken.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, *err)
	}
	return nil
}

func (d *boltFile) transact(f func(tx *bbolt.Tx) (frees bool, err error)) error {
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

func (d *boltFile) commit(tx *bbolt.Tx) error {
	d.durable.commit.Lock()
	defer d.durable.commit.Unlock()
	defer func() {
		if p := recover(); p != nil { // before readers go on
			_ = d.breaks(fmt.Errorf("commit to %s: %v", d.path, p))
			panic(p)
		}
	}()
	id := tx.ID()
	failure := tx.Commit()
	if failure == nil {
		d.durable.last.Store(int64(id))
		return nil
	}
	err := fmt.Errorf("commit to %s: %w", d.path, failure)
	if d.broken.Load() == nil && isFull(failure) && !d.inEffect(id) {
		return d.disk.markFull(err, tx.Stats().PageAlloc)
	}
	return d.breaks(err)
}

// breaks refuses further writes and notifies Watch.
func (d *boltFile) breaks(err error) error {
	if d.broken.CompareAndSwap(nil, &err) {
		close(d.failed)
	}
	return err
}

// inEffect reports whether readers see a transaction whose commit failed. In that case
// the disk may hold only part of it, and neither state can be trusted.
func (d *boltFile) inEffect(id int) bool {
	tx, err := d.bolt.Begin(false)
	if err != nil {
		return true
	}
	defer tx.Rollback()
	return tx.ID() >= id
}

// wakePurge makes the purge look for data to delete.
func (d *boltFile) wakePurge() {
	select {
	case d.removed <- struct{}{}:
	default:
	}
}

// recover waits until the disk is full, and then until there is space again.
func (d *boltFile) recover(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.disk.wake:
		}
		since := d.now()
		for d.disk.refusal() != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryPause):
			}
			d.wakePurge() // the purge frees space in the file
			d.attempt()
		}
		d.log.Info("there is room on the disk again: the server writes again", "directory", d.disk.dir, "after", d.now().Sub(since))
	}
}

// attempt writes if there seems to be space, and ends the refusal on success. It
// requires as much free space as the failed transaction needed, so that the next slot
// does not fail at once.
func (d *boltFile) attempt() {
	s := d.disk.stuck.Load()
	stats := d.bolt.Stats() // pages are pending from the transaction that frees them until the next one
	inFile := int64(stats.FreePageN+stats.PendingPageN) * int64(d.bolt.Info().PageSize)
	if free, _, known := d.disk.left(); known && free+inFile < max(leastRoom, s.need) {
		return
	}
	if !d.entered.Load() {
		if d.renewal() == nil {
			d.entered.Store(true)
			d.disk.stuck.Store(nil)
		}
		return
	}
	tx, err := d.bolt.Begin(true)
	if err != nil {
		return
	}
	defer tx.Rollback()
	m := tx.Bucket(bMeta)
	if err := m.Put(kCounters, append([]byte(nil), m.Get(kCounters)...)); err != nil {
		d.log.Error("an attempt to write to the store failed", "file", d.path, "error", err)
		return
	}
	if d.commit(tx) == nil {
		d.disk.stuck.Store(nil)
	}
}

// retryPause is the time between two attempts to write on a full disk. Tests change it.
var retryPause = 2 * time.Second

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
}

// fullDisk is the state of a full disk.
type fullDisk struct {
	err  error
	need int64 // bytes that the failed transaction needed
}

func newDisk(path string, reserve int64, log *slog.Logger) *diskState {
	return &diskState{reserve: reserve, free: freeBytes, dir: filepath.Dir(path), log: log, wake: make(chan struct{}, 1)}
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
	return registry.StorageFull(fmt.Sprintf("%d MiB of the server's disk are free, and limits.reserve keeps %d MiB: make room "+
		"there, or lower the setting; what is registered goes on",
		free>>20, reserve>>20))
}

// newest is like fetch. If the error of f may only mean that this node lags, it reads again once this node
// knows that it does not.
func newest[T any](d *boltFile, f func(tx *bbolt.Tx) (T, error)) (T, error) {
	v, err := fetch(d, f)
	if d.replica == nil || !mayLag(err) {
		return v, err
	}
	if err := d.Confirm(); err != nil {
		return v, err
	}
	return fetch(d, f)
}

// mayLag reports whether the answer of a node that is up to date may be another one.
func mayLag(err error) bool {
	var gap *registry.GapError
	var problem *registry.Problem
	return errors.Is(err, registry.ErrNotFound) || errors.As(err, &gap) && gap.Reason != registry.TooOld ||
		errors.As(err, &problem) && problem.Kind == registry.KindNoResult
}

// Confirm waits until this node has applied everything that its cluster had committed when Confirm was
// called. Its error means that this node may lack some of it. Without a journal it does nothing.
func (d *boltFile) Confirm() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.Confirm()
}

// confirmStranger is Confirm for a caller who may read nothing yet. All of them wait for few barriers together.
func (d *boltFile) confirmStranger() error {
	if d.replica == nil {
		return nil
	}
	return d.replica.ConfirmStranger()
}
