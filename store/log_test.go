package store

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// A subject is a store that the suite can replace by its own backup.
type subject struct {
	*History
	db      *DB
	options func(dir string) Options
}

func newSubject(t *testing.T, options func(dir string) Options) notifytest.Subject {
	s, dir := &subject{options: options}, t.TempDir()
	s.use(open(t, dir, options(dir)))
	return notifytest.Subject{
		Log:      s,
		Head:     func() (registry.Offset, error) { return s.db.History.Head() },
		Add:      func(name string, form diff.Form, ordered bool) string { return s.add(t, name, form, ordered) },
		Record:   func(id string, r *diff.Result, at time.Time) { s.execute(t, id, r, at) },
		Trim:     func(id string, keep int) { s.trim(t, id, keep) },
		Renumber: func() { s.restore(t) },
		Remove:   func(id string) { remove(t, s.db, id) },
	}
}

func (s *subject) use(d *DB) { s.History, s.db = d.History, d }

func testLog(t *testing.T, options func(dir string) Options) {
	notifytest.TestLog(t, func(t *testing.T) notifytest.Subject { return newSubject(t, options) })
}

func (s *subject) add(t *testing.T, name string, form diff.Form, ordered bool) string {
	t.Helper()
	id := registry.Identity("city", name, ordered, nil, nil)
	_, err := s.db.Queries.EditQuery(id, func(q *registry.Query, _ bool) error {
		q.Endpoint, q.Text, q.Form, q.Ordered, q.CreatedAt = "city", name, form, ordered, start
		q.Holders = []registry.Holder{{Caller: registry.Anonymous, Name: name, Since: start}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// execute records a complete answer like the loop does. The suite calls it from one
// goroutine while others read.
func (s *subject) execute(t *testing.T, id string, r *diff.Result, at time.Time) {
	t.Helper()
	stats, err := s.db.Catalog.Stats(id)
	if err != nil {
		t.Fatal(err)
	}
	o := next(t, s.db, id, stats.Last+1, r)
	o.Checked, o.At, o.Stats.CheckedAt = at, at, at
	if o.Delta != nil {
		o.Stats.ChangedAt = at
	}
	if _, err := s.db.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{o}}); err != nil {
		t.Fatal(err)
	}
}

// trim does at once what retention does in small steps.
func (s *subject) trim(t *testing.T, id string, keep int) {
	t.Helper()
	err := s.bolt.Update(func(tx *bbolt.Tx) error {
		w := logWriter{tx: tx, keep: Retention{Changes: keep}, counters: loadCounters(tx)}
		r := recordHead(tx.Bucket(bStats).Get([]byte(id)))
		for range 10 {
			if err := w.trimQuery(r.serial, r.seq); err != nil {
				return err
			}
		}
		return w.counters.save(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// restore replaces the store by a backup, which starts a new epoch.
func (s *subject) restore(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Backup(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir, Options{}) // without the journal, which begins again with this store
	s.use(reopen(t, d, dir, s.options(dir)))
}

// Since lists queries in the order of their last edit, whatever their ids.
func TestSinceKeepsTheOrderOfEdits(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	for _, id := range []string{"q_c", "q_a", "q_d", "q_b", "q_c"} {
		put(t, d, id, "city", registry.Holder{Caller: "a", Since: start}, registry.Holder{Caller: "b", Since: start.Add(time.Duration(len(id)))})
	}
	if _, err := d.Queries.EditQuery("q_c", func(q *registry.Query, _ bool) error { q.Refreshes++; return nil }); err != nil {
		t.Fatal(err)
	}
	first, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, "q_0", "city")
	later, err := d.Ledger.Since("city", first.Revision)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range append(first.Entries, later.Entries...) {
		ids = append(ids, e.Query.ID)
	}
	if want := []string{"q_a", "q_d", "q_b", "q_c", "q_0"}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
}
