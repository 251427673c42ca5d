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
	"github.com/freshet/freshet/store/journal"
	"go.etcd.io/bbolt"
)

// Options configures Open.
type Options struct {
	Retention Retention
	Logger    *slog.Logger     // nil: no logging
	Now       func() time.Time // the time of commits; nil: time.Now
	// Reserve is the number of bytes of the disk kept free: below it, new
	// registrations, profiles, subscriptions and endpoints are refused, while results
	// and changes are still written. It is at most a tenth of the disk.
	Reserve int64
	// ReadOnly leaves the file as it is, for programs that look at the store of a stopped server. It must have the schema of
	// this program.
	ReadOnly bool
	// Journal, unless nil, has the commands of all stores of a cluster. Open applies those that
	// this store lacks. The caller closes it after the store.
	Journal journal.Journal
	// JournalWait bounds how long a write waits for the journal; 0: 10 s. Open waits six times
	// as long without progress.
	JournalWait time.Duration
}

// Open opens the store in dir and creates both if they do not exist. Only one process
// at a time can open a store.
func Open(dir string, o Options) (*DB, error) {
	path := filepath.Join(dir, File)
	err := guarded(func() error {
		if !o.ReadOnly {
			if err := errors.Join(os.MkdirAll(dir, 0o700), createWhole(path)); err != nil {
				return err
			}
		}
		if err := plausible(path); err != nil {
			return err
		}
		return whole(path)
	})
	if err != nil {
		return nil, withRemedy(path, err)
	}
	var b *bbolt.DB
	err = guarded(func() (err error) {
		b, err = openCurrent(path, bbolt.Options{
			Timeout:         lockWait,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mapSize(path),
			ReadOnly:        o.ReadOnly,
		})
		return err
	})
	if err != nil {
		return nil, withRemedy(path, err)
	}
	d := newDB(&boltFile{bolt: b, path: path, retention: o.Retention, log: o.Logger, now: o.Now,
		removed: make(chan struct{}, 1), leased: make(chan struct{}, 1), failed: make(chan struct{}),
		others: foreign{wake: make(chan struct{}, 1)}})
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	opened := d.now()
	d.elapsed = func() time.Duration { return d.now().Sub(opened) }
	d.disk = newDisk(path, o.Reserve, d.log)
	if d.pack, err = newPacker(); err == nil {
		err = guarded(func() error {
			if o.ReadOnly {
				return d.look()
			}
			return d.enterGeneration(o.Journal != nil)
		})
	}
	if err == nil {
		d.aging.time, err = d.storedAging()
	}
	if err == nil && o.Journal != nil {
		err = d.follow(o.Journal, o.JournalWait)
	}
	if c := (*crash)(nil); errors.As(err, &c) {
		return nil, withRemedy(path, err) // closing could block on a lock held by the failed code
	}
	if err != nil {
		return nil, errors.Join(withRemedy(path, err), b.Close())
	}
	if !o.ReadOnly {
		sweepTemporary(d.boltFile)
		d.start()
	}
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

// A DB is an open store. It consists of one store for each subject; they share the file
// and its transactions. All methods are safe for concurrent use.
type DB struct {
	*boltFile
	Queries       *QueryStore
	Endpoints     *EndpointStore
	Profiles      *ProfileStore
	Rounds        *RoundStore
	Catalog       *Catalog
	History       *History
	Ledger        *Ledger
	Subscriptions *SubscriptionStore
	Rules         *RuleStore
	Tokens        *TokenStore
	Leases        *LeaseStore

	stop context.CancelFunc // of the background work, nil if the file is only read
	done sync.WaitGroup
}

func newDB(f *boltFile) *DB {
	return &DB{
		boltFile: f, Queries: &QueryStore{f}, Endpoints: &EndpointStore{boltFile: f, decoded: map[string]decodedEndpoint{}},
		Profiles: &ProfileStore{f}, Rounds: &RoundStore{f}, Catalog: &Catalog{f},
		History: &History{boltFile: f, walks: make(chan struct{}, mostWalks)}, Ledger: &Ledger{boltFile: f},
		Subscriptions: &SubscriptionStore{f}, Rules: &RuleStore{f}, Tokens: &TokenStore{f}, Leases: &LeaseStore{boltFile: f},
	}
}

func (d *DB) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	d.wakePurge() // a crash may have left tasks
	d.done.Go(func() { deleteRemoved(ctx, d.boltFile) })
	d.done.Go(func() { d.recover(ctx) })
}

// Close waits for running transactions and closes the file.
func (d *DB) Close() error {
	if d.stop != nil {
		d.stop()
	}
	if d.replica != nil {
		d.replica.Close()
	}
	d.done.Wait()
	err := d.bolt.Close()
	d.pack.close()
	if err != nil {
		return fmt.Errorf("close %s: %w", d.path, err)
	}
	return nil
}

// Applied returns the number of the last entry of the journal that is applied, 0 without one.
func (d *DB) Applied() uint64 {
	if d.replica == nil {
		return 0
	}
	return d.replica.Position()
}

// Hurry bounds how long writes wait for the journal from now on, because the process is about to
// end: those that are not applied by then end with an unknown outcome. Without a journal it has no
// effect.
func (d *DB) Hurry(within time.Duration) {
	if d.replica != nil {
		d.replica.Hurry(within)
	}
}

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

// Writable returns why nothing can be written now, or nil. The error wraps registry.ErrReadOnly unless the store refuses
// all writes until the process ends.
func (d *DB) Writable() error { return d.refusal() }

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

// Size returns the size of the file in bytes and the number of them that are free for
// reuse; "store compact" releases those.
func (d *DB) Size() (size, free int64, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, int64(d.bolt.Stats().FreeAlloc), err
}
