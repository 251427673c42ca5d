package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
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
		n = d.decisions.Waiting()
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
	for range mostTogether {
		edits = append(edits, func() error {
			_, err := d.Queries.EditQuery("q_a", func(q *registry.Query, _ bool) error { q.Refreshes++; return nil })
			return err
		})
	}
	if errs, commits := queued(t, d, edits...); errors.Join(errs...) != nil || commits != 1 {
		t.Errorf("%d transactions, %v", commits, errors.Join(errs...))
	}
	if q, err := d.Queries.Query("q_a"); err != nil || q.Refreshes != mostTogether {
		t.Errorf("%d of %d edits are in effect (%v)", q.Refreshes, mostTogether, err)
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
		_, err = d.Queries.EditQuery("q_p", func(*registry.Query, bool) error {
			(*registry.Query)(nil).Size()
			return nil
		})
		return err
	}
	errs, commits := queued(t, d, register(d, "q_a", nil), panics, register(d, "q_b", nil))
	if errs[0] != nil || !strings.Contains(errs[1].Error(), "panicked: runtime error: invalid memory") || errs[2] != nil || commits != 1 {
		t.Errorf("%d transactions, errors %v", commits, errs)
	}
	check(t, d)
}

// A failing command has an effect on the file before it fails.
type failing struct{ *tokenEdit }

func (f failing) Apply(tx *bbolt.Tx) error {
	return errors.Join(f.tokenEdit.Apply(tx), errors.New("it failed"))
}

// Commands of all kinds share a transaction. If one cannot be applied, it has no effect, and the others have theirs.
func TestCommandsShareATransaction(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	batch := scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, d, "q_a", 1, bag(t, "x"))}}
	record := func() error { _, err := d.Ledger.Record("city", batch); return err }
	token := func() error { return d.Tokens.PutToken(registry.Token{Name: "t"}) }
	if errs, commits := queued(t, d, register(d, "q_b", nil), record, token); errors.Join(errs...) != nil || commits != 1 {
		t.Errorf("%d transactions, %v", commits, errs)
	}
	fails := func() error {
		_, err := d.execute(func(*bbolt.Tx) (command, error) {
			return failing{&tokenEdit{Name: "bad", Value: []byte("{}")}}, nil
		})
		return err
	}
	errs, _ := queued(t, d, register(d, "q_c", nil), fails, register(d, "q_d", nil))
	if errs[0] != nil || errs[1] == nil || errs[1].Error() != "it failed" || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	if list, err := d.Tokens.Tokens(); err != nil || len(list) != 1 {
		t.Errorf("%d tokens: %v", len(list), err)
	}
	for _, id := range []string{"q_b", "q_c", "q_d"} {
		if _, err := d.Queries.Query(id); err != nil {
			t.Error(err)
		}
	}
	check(t, d)
}

// A command that meets a damaged page ends the use of the store, and not the process.
func TestCommandMeetsDamage(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	_, err := d.execute(func(*bbolt.Tx) (command, error) {
		return nil, errors.New(string((*bbolt.Bucket)(nil).Get(nil)))
	})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
	if err := d.Tokens.PutToken(registry.Token{Name: "t"}); !errors.Is(err, ErrBroken) {
		t.Errorf("a write after it: %v", err)
	}
}
