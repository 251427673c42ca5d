//go:build !race

package store

// This file damages stores at random. bbolt copies a small bucket before it reads it, and if its damaged header
// counts more entries than it has, it makes pointers beyond the copy. The race detector's check of pointers
// ends the process then, and so does a garbage collection that comes at this moment.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// A damaged file causes an error that says so, without a panic or a fault. bbolt does not recognise a page whose
// child is a page above it, which random damage hardly makes; the copies of this seed have none.
func TestLongDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	if err := registerChild(d); err != nil {
		t.Fatal(err)
	}
	for slot := uint64(1); slot < 30; slot++ {
		if err := recordSlot(d, slot); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 {
		put(t, d, fmt.Sprintf("q_%04d", i), "city")
	}
	used, err := fetch(d.boltFile, func(tx *bbolt.Tx) (int64, error) { return tx.Size(), nil })
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	good = good[:used] // pages after these were never used
	seed := uint64(7)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	told := 0
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for i := range 450 {
		if i%10 == 0 {
			runtime.GC() // while no store is open
		}
		b := append([]byte(nil), good...)
		switch {
		case i%10 == 9: // a page of zeros
			p := 2 + r.IntN(len(b)/4096-2)
			clear(b[p*4096 : (p+1)*4096])
		case i%3 == 0: // in the header of a page and its first elements, which does the most harm
			b[(2+r.IntN(len(b)/4096-2))*4096+r.IntN(64)] ^= byte(1 + r.IntN(255))
		default:
			b[8192+r.IntN(len(b)-8192)] ^= byte(1 + r.IntN(255))
		}
		// The damage can be in the mark of the file or in the version of its schema.
		if err := examine(t, b); errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotStore) || errors.Is(err, ErrSchema) {
			told++
		} else if err != nil {
			t.Errorf("copy %d: %v", i, err)
		}
	}
	if told < 50 {
		t.Errorf("only %d of 450 damaged copies were told", told)
	}
}

func examine(t *testing.T, file []byte) error {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, File), file, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		d, err := Open(dir, Options{})
		if err == nil {
			use(d)
			err = errors.Join(d.Check(), d.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("it does not end:\n%s", stacks[:runtime.Stack(stacks, true)])
		return nil
	}
}

// use reads and writes like a server, which does not check the file first. It must get
// errors for damage; the check describes it in more detail.
func use(d *DB) {
	_, _ = d.Catalog.Digests("")
	_, _ = d.Ledger.Since("city", 0)
	_, _ = d.Endpoints.Endpoints()
	_, _ = d.History.Slots("city", 100)
	_, _ = d.Subscriptions.Subscriptions("", 100)
	_, _, _ = d.History.Current("q_0001", true)
	_, _ = d.Queries.LiveHolds()
	for _, id := range childQueries {
		_, _ = d.History.After(id, registry.Position{}, 100)
	}
	_ = recordSlot(d, 31)
	_, _ = d.Queries.EditQuery("q_0100", func(q *registry.Query, _ bool) error {
		q.Holders = nil
		return nil
	})
	_, _ = d.Queries.EditQuery("q_new", func(q *registry.Query, _ bool) error {
		q.Endpoint, q.Holders = "city", []registry.Holder{{Caller: "app", Since: start}}
		return nil
	})
}
