package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// File is the name of the store in its directory.
const File = "freshet.db"

// lockWait is how long Open waits for another process to close the store.
const lockWait = time.Second

// Options configures Open.
type Options struct {
	Retention Retention
	Logger    *slog.Logger     // nil: no logging
	Now       func() time.Time // the time of commits; nil: time.Now
	// Reserve is the number of bytes of the disk kept free: below it, new
	// registrations, profiles, subscriptions and endpoints are refused, while results
	// and changes are still written. It is at most a tenth of the disk.
	Reserve int64
	Retry   time.Duration // delay before the first retry on a full disk; 0: 2 s
}

// A DB is an open store. Its methods are safe for concurrent use.
type DB struct {
	*file
	digests digests
	edits   editQueue
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// Open opens the store in dir and creates both if they do not exist. Only one process
// at a time can open a store.
func Open(dir string, o Options) (*DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, withRemedy(dir, err)
	}
	path := filepath.Join(dir, File)
	if err := plausible(path); err != nil {
		return nil, withRemedy(path, err)
	}
	var b *bbolt.DB
	err := guarded(func() (err error) {
		b, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:         lockWait,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mapSize(path),
		})
		if err != nil {
			return err
		}
		if err := walk(path, false); err != nil { // no other process writes the file now
			return errors.Join(err, b.Close())
		}
		return nil
	})
	if err != nil {
		return nil, withRemedy(path, err)
	}
	d := &DB{file: &file{bolt: b, path: path, retention: o.Retention, log: o.Logger, now: o.Now, removed: make(chan struct{}, 1), failed: make(chan struct{})}}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	d.disk = newDisk(path, o.Reserve, o.Retry, d.log)
	if d.pack, err = newPacker(); err == nil {
		err = guarded(d.enter)
	}
	if c := (*crash)(nil); errors.As(err, &c) {
		return nil, withRemedy(path, err) // closing could block on a lock held by the failed code
	}
	if err != nil {
		return nil, errors.Join(withRemedy(path, err), b.Close())
	}
	d.sweepTemporary()
	d.startWork()
	return d, nil
}

// mapSize reserves address space for the file to grow, because remapping makes a
// writer wait until all readers, including backups, are done. It uses no memory.
func mapSize(path string) int {
	if math.MaxInt == math.MaxInt32 || runtime.GOOS == "windows" {
		return 0 // too little address space, or the file would be grown to that size
	}
	size := int64(0)
	if i, err := os.Stat(path); err == nil {
		size = i.Size()
	}
	return int(2*size + 1<<30)
}

// enter upgrades the schema and renews the generation. On a full disk, a store with
// the current schema is read-only until that is possible.
func (d *DB) enter() error {
	inode, err := inodeOf(d.path)
	if err != nil {
		return err
	}
	g := generation{d.path + generationSuffix}
	var from uint64
	var token string
	fresh := ""
	err = d.bolt.View(func(tx *bbolt.Tx) (err error) {
		if from, err = version(tx); err != nil || from == 0 {
			return err
		}
		token = string(tx.Bucket(bMeta).Get(kGeneration))
		if tx.Bucket(bMeta).Get(kCopy) != nil {
			fresh = "this is a backup"
		}
		return nil
	})
	if err != nil {
		return err
	}
	if from > 0 && fresh == "" {
		if _, fresh, err = g.trusts(token, inode); err != nil {
			return err
		}
	}
	next := randomText(15)
	tokens := []string{next}
	if from > 0 && fresh == "" {
		tokens = append(tokens, token) // a crash before the commit leaves the current token in force
	}
	d.renewal = func() error {
		if err := g.write(inode, tokens...); err != nil {
			return err
		}
		tx, err := d.bolt.Begin(true)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := d.renew(tx, from, next, fresh); err != nil {
			return err
		}
		if err := d.commit(tx); err != nil {
			return err
		}
		return g.write(inode, next)
	}
	err = d.renewal()
	if err == nil {
		d.entered.Store(true)
		return nil
	}
	if !full(err) || from < schema || fresh != "" {
		return err
	}
	// Existing data can be read and followed without a write.
	d.disk.markFull(err, 0)
	return d.bolt.View(func(tx *bbolt.Tx) error {
		d.epoch, d.seed = epoch(tx.Bucket(bMeta).Get(kEpoch)), number(tx.Bucket(bMeta).Get(kSeed))
		return nil
	})
}

func (d *DB) renew(tx *bbolt.Tx, from uint64, token, fresh string) error {
	if err := migrate(tx, from); err != nil {
		return err
	}
	m := tx.Bucket(bMeta)
	if from == 0 || fresh != "" {
		if err := newEpoch(tx); err != nil {
			return err
		}
	}
	if fresh != "" {
		d.log.Warn("numbering begins again: followers will be sent a snapshot", "file", d.path, "reason", fresh,
			"epoch", string(m.Get(kEpoch)))
	}
	d.epoch = epoch(m.Get(kEpoch))
	d.seed = number(m.Get(kSeed))
	return errors.Join(m.Put(kGeneration, []byte(token)), m.Delete(kCopy))
}

// newEpoch drops the logs that cannot be continued: changes, and rounds of profiles,
// whose intervals have ended.
func newEpoch(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bChanges, bOffsets, bOld, bRounds, bOpen, bEnds, bCaptures} {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	c := loadCounters(tx)
	c.trimmed, c.logBytes = c.offset, 0
	if err := errors.Join(c.save(tx), forgetRounds(tx)); err != nil {
		return err
	}
	return tx.Bucket(bMeta).Put(kEpoch, []byte(randomText(5)))
}

// Close waits for running transactions and closes the file.
func (d *DB) Close() error {
	d.stop()
	d.done.Wait()
	err := d.bolt.Close()
	d.pack.close()
	if err != nil {
		return fmt.Errorf("close %s: %w", d.path, err)
	}
	return nil
}

// Epoch returns the store's epoch, which scopes offsets.
func (d *DB) Epoch() string { return string(d.epoch) }

// Seed returns a random value that is constant for the life of the store. It keys
// internal fingerprints, so that results with equal fingerprints cannot be
// constructed.
func (d *DB) Seed() uint64 { return d.seed }

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

// Room returns a problem of the type storage-full while free space is too low for new
// registrations.
func (d *DB) Room() error {
	if r := d.disk.refusal(); r != nil {
		return r
	}
	return d.disk.room()
}

// Writable returns an error that wraps registry.ErrReadOnly while the store cannot be
// written.
func (d *DB) Writable() error { return d.disk.refusal() }

// Storage reports the state of the disk.
func (d *DB) Storage() registry.Storage {
	free, reserve, known := d.disk.left()
	s := registry.Storage{Free: free, Reserve: reserve, ReadOnly: d.disk.refusal() != nil, Short: known && free < reserve}
	switch {
	case s.ReadOnly:
		s.Reason = "the disk is full: results can be read and followed, but nothing is executed or stored until there is room again"
	case s.Short:
		s.Reason = fmt.Sprintf("the disk is nearly full: nothing new can be registered until %d MiB are free", reserve>>20)
	}
	return s
}
