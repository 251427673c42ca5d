package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		} else if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "put a backup in its place") ||
			strings.Contains(err.Error(), "\n") {
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
