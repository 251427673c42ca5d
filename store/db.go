package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

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

	stop context.CancelFunc // of the background work
	done sync.WaitGroup
}

func newDB(f *boltFile) *DB {
	return &DB{
		boltFile: f, Queries: &QueryStore{boltFile: f}, Endpoints: &EndpointStore{boltFile: f}, Profiles: &ProfileStore{f}, Rounds: &RoundStore{f}, Catalog: &Catalog{f},
		History: &History{boltFile: f, walks: make(chan struct{}, mostWalks)}, Ledger: &Ledger{boltFile: f}, Subscriptions: &SubscriptionStore{f}, Rules: &RuleStore{f}, Tokens: &TokenStore{f}, Leases: &LeaseStore{f},
	}
}

// start starts the background work.
func (d *DB) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	d.wakePurge() // a crash may have left tasks
	d.done.Go(func() { deleteRemoved(ctx, d.boltFile) })
	d.done.Go(func() { d.recover(ctx) })
}

// Close waits for running transactions and closes the file.
func (d *DB) Close() error {
	d.stop()
	if d.replica != nil {
		d.replica.close()
	}
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

// Applied returns the number of the last entry of the journal that is applied, 0 without one.
func (d *DB) Applied() uint64 {
	if d.replica == nil {
		return 0
	}
	d.replica.mu.Lock()
	defer d.replica.mu.Unlock()
	return d.replica.applied
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

// Room returns a problem of the type storage-full while free space is too low for new
// registrations.
func (d *DB) Room() error {
	if r := d.Writable(); r != nil {
		return r
	}
	return d.disk.room()
}

// Writable returns an error that wraps registry.ErrReadOnly while the store cannot be
// written.
func (d *DB) Writable() error {
	if err := d.disk.refusal(); err != nil || d.replica == nil {
		return err
	}
	return d.replica.refusal()
}

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
