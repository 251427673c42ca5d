package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A file that is empty or cut off is refused with a sentence and stays as it is.
func TestEmptyFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, File)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 15, 16, 80, 4095, 4096, 8191, 8192, 12288} {
		dir := t.TempDir()
		path := filepath.Join(dir, File)
		if err := os.WriteFile(path, good[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := Open(dir, Options{}); err == nil {
			t.Errorf("%d bytes: opened", size)
			d.Close()
		} else if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "put a backup in its place") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, good[:size]) {
			t.Errorf("%d bytes: the file was changed: %v", size, err)
		}
	}
	entries, err := os.ReadDir(dir) // of the store
	if err != nil || len(entries) != 2 {
		t.Errorf("more files than the store and its generation: %v, %v", entries, err)
	}
}

// A damaged file causes an error that says so, without a panic or a fault. bbolt does not recognise a page whose
// child is a page above it, which random damage hardly makes; the copies of this seed have none.
func TestDamagedFiles(t *testing.T) {
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
	for i := range 450 {
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

// A write to a damaged page ends the use of the store. A panic in code that the store calls
// does not count as damage.
func TestWritingMeetsDamage(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	func() { // the panic ends the transaction like an error
		defer func() {
			if recover() == nil {
				t.Error("the mistake is an error")
			}
		}()
		_, err := d.Queries.EditQuery("q_a", func(*registry.Query, bool) error {
			_ = (*registry.Query)(nil).Size()
			return nil
		})
		t.Errorf("got %v", err)
	}()
	if err := d.update(func(*bbolt.Tx) error { panic("page 7 is not a page") }); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if err := d.update(func(*bbolt.Tx) error { return nil }); !errors.Is(err, ErrBroken) {
		t.Errorf("a write afterwards: %v", err)
	}
	if err := d.Watch(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("watch: %v", err)
	}
	if _, err := d.Queries.Query("q_a"); err != nil {
		t.Errorf("reading goes on: %v", err)
	}
}

var childQueries = []string{"q_a", "q_b", "q_c"}

// valuesAt returns the result of a query in a slot.
func valuesAt(id string, slot uint64) []string {
	return []string{"always", fmt.Sprintf("%s in slot %d", id, slot), strings.Repeat("x", int(slot%7)*900)}
}

func registerChild(d *DB) error {
	for _, id := range childQueries {
		_, err := d.Queries.EditQuery(id, func(q *registry.Query, _ bool) error {
			q.Endpoint, q.Form, q.Holders = "city", "SELECT", []registry.Holder{{Caller: "app", Name: id, Since: start}}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordSlot changes all queries in one batch.
func recordSlot(d *DB, slot uint64) error {
	b := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: "city", Number: slot}}
	for _, id := range childQueries {
		stats, err := d.Catalog.Stats(id)
		if err != nil {
			return err
		}
		old, err := d.Ledger.Result(id)
		if err != nil {
			return err
		}
		now, err := rows(valuesAt(id, slot)...)
		if err != nil {
			return err
		}
		b.Outcomes = append(b.Outcomes, outcome(stats, old, id, slot, now))
	}
	_, err := d.Ledger.Record("city", b)
	return err
}
