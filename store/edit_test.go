package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// queued runs edits concurrently after all of them wait for one transaction. It returns
// their errors and the number of transactions.
func queued(t *testing.T, d *DB, edits ...func() error) (errs []error, commits int) {
	t.Helper()
	tx, err := d.bolt.Begin(true) // no other transaction can begin
	if err != nil {
		t.Fatal(err)
	}
	errs = make([]error, len(edits))
	var all sync.WaitGroup
	for i, edit := range edits {
		all.Go(func() { errs[i] = edit() })
	}
	for n := 0; n < len(edits); time.Sleep(time.Millisecond) {
		n = d.Queries.edits.Waiting()
	}
	before := txID(t, d)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	return errs, txID(t, d) - before
}

// register returns an edit that stores a query with one holder, or fails with an error.
func register(d *DB, id string, fails error) func() error {
	return func() error {
		_, err := d.Queries.EditQuery(id, func(q *registry.Query, _ bool) error {
			q.Endpoint, q.Form, q.Holders = "city", "SELECT", []registry.Holder{{Caller: "app", Since: start}}
			return fails
		})
		return err
	}
}

// Waiting edits share a transaction. The error of one does not affect the others, and each
// gets its own revision and serial number.
func TestEditsShareATransaction(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	refused, long := errors.New("refused"), strings.Repeat("q", 501)
	edits := []func() error{register(d, "q_no", refused), register(d, long, nil)}
	for i := range 20 {
		edits = append(edits, register(d, fmt.Sprint("q_", i), nil))
	}
	errs, commits := queued(t, d, edits...)
	if commits != 1 {
		t.Errorf("%d transactions, want 1", commits)
	}
	for i, err := range errs {
		switch {
		case i == 0 && err != refused:
			t.Errorf("the refused edit: %v", err)
		case i == 1 && (err == nil || !strings.Contains(err.Error(), "at most 500 bytes")):
			t.Errorf("the edit with a long id: %v", err)
		case i > 1 && err != nil:
			t.Errorf("edit %d: %v", i, err)
		}
	}
	n, err := d.Ledger.Since("city", 0)
	if err != nil || len(n.Entries) != 20 {
		t.Fatalf("%d queries, want 20 (%v)", len(n.Entries), err)
	}
	epochs := map[string]bool{}
	for _, e := range n.Entries {
		epochs[e.Stats.Position.Epoch] = true
	}
	if len(epochs) != 20 || n.Revision != 20 {
		t.Errorf("%d epochs and revision %d, want 20 and 20", len(epochs), n.Revision)
	}
	check(t, d)
}

// Edits of one query that share a transaction follow each other, and edits without
// effect write nothing.
func TestEditsOfOneQueryFollowEachOther(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	var edits []func() error
	for range maxEdits {
		edits = append(edits, func() error {
			_, err := d.Queries.EditQuery("q_a", func(q *registry.Query, _ bool) error { q.Refreshes++; return nil })
			return err
		})
	}
	if errs, commits := queued(t, d, edits...); errors.Join(errs...) != nil || commits != 1 {
		t.Errorf("%d transactions, %v", commits, errors.Join(errs...))
	}
	if q, err := d.Queries.Query("q_a"); err != nil || q.Refreshes != maxEdits {
		t.Errorf("%d of %d edits are in effect (%v)", q.Refreshes, maxEdits, err)
	}
	before, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	same := func() error {
		_, err := d.Queries.EditQuery("q_a", func(*registry.Query, bool) error { return nil })
		return err
	}
	if errs, _ := queued(t, d, same, same); errors.Join(errs...) != nil {
		t.Error(errs)
	}
	if after, err := d.Ledger.Since("city", before.Revision); err != nil || after.Revision != before.Revision {
		t.Errorf("edits without effect: revision %d after %d (%v)", after.Revision, before.Revision, err)
	}
}

// A panic in an edit reaches only the caller of that edit.
func TestEditPanics(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	panics := func() (err error) {
		defer func() { err = fmt.Errorf("panicked: %v", recover()) }()
		_, err = d.Queries.EditQuery("q_p", func(*registry.Query, bool) error { panic("in an edit") })
		return err
	}
	errs, commits := queued(t, d, register(d, "q_a", nil), panics, register(d, "q_b", nil))
	if errs[0] != nil || errs[1].Error() != "panicked: in an edit" || errs[2] != nil || commits != 1 {
		t.Errorf("%d transactions, errors %v", commits, errs)
	}
	check(t, d)
}
