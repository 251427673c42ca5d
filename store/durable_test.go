package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal/memory"
	"go.etcd.io/bbolt"
)

// bbolt shows a transaction while it syncs it. A reader waits until it is durable, and reads nothing of one that is not.
func TestReadersWaitUntilACommitIsDurable(t *testing.T) {
	for name, sync := range map[string]func(d *boltFile, id int){
		"synced": func(d *boltFile, id int) { d.durable.last.Store(int64(id)) },
		"failed": func(d *boltFile, _ int) { _ = d.breaks(errors.New("the sync failed")) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(t.TempDir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			d := db.boltFile
			d.durable.commit.Lock()
			tx, err := d.bolt.Begin(true)
			if err != nil {
				t.Fatal(err)
			}
			id := tx.ID()
			if err := errors.Join(tx.Bucket(bMeta).Put([]byte("new"), []byte{1}), tx.Commit()); err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			go func() {
				read <- d.view(func(tx *bbolt.Tx) error {
					if tx.ID() != id || tx.Bucket(bMeta).Get([]byte("new")) == nil {
						t.Errorf("transaction %d was read, want %d", tx.ID(), id)
					}
					return nil
				})
			}()
			select {
			case err := <-read:
				t.Errorf("it was read before it was durable: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			sync(d, id)
			d.durable.commit.Unlock()
			if err := <-read; errors.Is(err, ErrBroken) != (name == "failed") {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// Looking at the store of a stopped node of a cluster, or at a backup, changes nothing: the node goes on afterwards.
func TestReadOnly(t *testing.T) {
	log, dir := memory.New("cluster"), t.TempDir()
	open := func(o Options) *DB {
		t.Helper()
		d, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	member := open(Options{Journal: openJournal(t, log)})
	epoch := member.epoch
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	look := open(Options{ReadOnly: true})
	if err := errors.Join(look.Check(), look.Compact(filepath.Join(t.TempDir(), "copy.db"))); err != nil || look.epoch != epoch {
		t.Errorf("epoch %s, want %s: %v", look.epoch, epoch, err)
	}
	if err := look.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, File)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed: %v", err)
	}
	again := open(Options{Journal: openJournal(t, log)})
	defer again.Close()
	if again.epoch != epoch {
		t.Errorf("the epoch is %s, want %s", again.epoch, epoch)
	}
	if d, err := Open(t.TempDir(), Options{ReadOnly: true}); err == nil {
		d.Close()
		t.Error("a store that is not there was opened")
	}
}
