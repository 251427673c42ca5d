package store

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

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
	Retry   time.Duration // delay before the first retry on a full disk; 0: 2 s
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
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, withRemedy(dir, err)
	}
	path := filepath.Join(dir, File)
	if err := guarded(func() error { return errors.Join(createWhole(path), plausible(path)) }); err != nil {
		return nil, withRemedy(path, err)
	}
	var b *bbolt.DB
	var file *os.File
	var size int64
	err := guarded(func() (err error) {
		b, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:         lockWait,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mapSize(path),
			OpenFile: func(path string, flag int, mode os.FileMode) (f *os.File, err error) {
				if file, err = os.OpenFile(path, flag, mode); err != nil {
					return nil, err
				}
				i, err := file.Stat()
				if err == nil {
					size = i.Size()
				}
				return file, err
			},
		})
		if err != nil {
			return err
		}
		if err := whole(b, size); err != nil {
			return errors.Join(err, b.Close())
		}
		return nil
	})
	if err != nil {
		if file != nil {
			_ = file.Close() // a fault may have left it open, and locked
		}
		return nil, withRemedy(path, err)
	}
	d := newDB(&boltFile{bolt: b, file: file, path: path, retention: o.Retention, log: o.Logger, now: o.Now, removed: make(chan struct{}, 1), leased: make(chan struct{}, 1), failed: make(chan struct{})})
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	opened := d.now()
	d.elapsed = func() time.Duration { return d.now().Sub(opened) }
	d.disk = newDisk(path, o.Reserve, o.Retry, d.log)
	if d.pack, err = newPacker(); err == nil {
		err = guarded(func() error { return d.enter(o.Journal != nil) })
	}
	if err == nil && o.Journal != nil {
		err = d.startReplica(o.Journal, o.JournalWait)
	}
	if c := (*crash)(nil); errors.As(err, &c) {
		return nil, withRemedy(path, err) // closing could block on a lock held by the failed code
	}
	if err != nil {
		return nil, errors.Join(withRemedy(path, err), b.Close())
	}
	sweepTemporary(d.boltFile)
	d.start()
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
