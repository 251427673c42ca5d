package store

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
	"go.etcd.io/bbolt"
)

func TestMain(m *testing.M) {
	if childMain() {
		return // this is a child process that a test started
	}
	// Every step of the model waits for the disk. The command line can set more checks.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// start is the initial time of the tests' clock.
var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func open(t testing.TB, dir string, o Options) *DB {
	t.Helper()
	if o.JournalWait == 0 { // the default ends a write on a machine that stalls
		o.JournalWait = engineWait
	}
	d, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func reopen(t testing.TB, d *DB, dir string, o Options) *DB {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, o)
}

// bag returns a SELECT result with the given values in its only column.
func bag(t testing.TB, values ...string) *diff.Result {
	t.Helper()
	r, err := rows(values...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func rows(values ...string) (*diff.Result, error) {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	errs := []error{b.SetVars([]string{"s"})}
	for _, v := range values {
		errs = append(errs, b.Row(diff.Term{Kind: diff.Literal, Value: v}))
	}
	r, err := b.Finish()
	return r, errors.Join(append(errs, err)...)
}

func put(t testing.TB, d *DB, id, endpoint string, holders ...registry.Holder) registry.Query {
	t.Helper()
	if len(holders) == 0 {
		holders = []registry.Holder{{Caller: registry.Anonymous, Since: start}}
	}
	q, err := d.Queries.EditQuery(id, func(q *registry.Query, found bool) error {
		q.Endpoint, q.Text, q.Form, q.Holders, q.CreatedAt = endpoint, "SELECT ?s { ?s ?p ?o }", diff.Select, holders, start
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func remove(t testing.TB, d *DB, id string) {
	t.Helper()
	_, err := d.Queries.EditQuery(id, func(q *registry.Query, found bool) error {
		q.Holders = nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// next returns the outcome of an execution in a slot with the given result.
func next(t testing.TB, d *DB, id string, slot uint64, result *diff.Result) scheduler.Outcome {
	t.Helper()
	s, err := d.Catalog.Stats(id)
	if err != nil {
		t.Fatal(err)
	}
	old, err := d.Ledger.Result(id)
	if err != nil {
		t.Fatal(err)
	}
	return outcome(s, old, id, slot, result)
}

func outcome(s policy.Stats, old *diff.Result, id string, slot uint64, result *diff.Result) scheduler.Outcome {
	at := start.Add(time.Duration(slot) * time.Minute)
	delta := diff.Compare(old, result)
	s.Last, s.Executions, s.CheckedAt = slot, s.Executions+1, at
	s.LastRun = policy.Run{Slot: slot, At: at, Elapsed: 40 * time.Millisecond, Outcome: registry.Unchanged, Why: "ranked"}
	sample := policy.Sample{Slot: slot, Elapsed: 40 * time.Millisecond}
	o := scheduler.Outcome{Query: id, Checked: at, At: at}
	if delta != nil {
		o.Result, o.Delta = result, delta
		s.LastRun.Outcome = registry.Changed
		s.Hash, s.Rows, s.ChangedAt = result.Hash(), result.Len(), at
		if old != nil {
			s.Changes++
			sample.Changed, sample.Jaccard = true, delta.Jaccard
		}
	}
	s.Samples = append(s.Samples, sample)
	if n := len(s.Samples); n > 63 {
		s.Samples = s.Samples[n-63:]
	}
	o.Stats = s
	return o
}

// step records one result of a query and returns the changes it made.
func step(t testing.TB, d *DB, endpoint, id string, slot uint64, values ...string) []registry.Change {
	t.Helper()
	changes, err := d.Ledger.Record(endpoint, scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, d, id, slot, bag(t, values...))}})
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func gap(err error) string {
	var g *registry.GapError
	if errors.As(err, &g) {
		return g.Reason
	}
	return fmt.Sprint(err)
}

func check(t testing.TB, d *DB) {
	t.Helper()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestBaselineThenChanges(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{Now: func() time.Time { return start }})
	put(t, d, "q_a", "city")
	first := step(t, d, "city", "q_a", 1, "x", "y")
	if len(first) != 1 || !first[0].Baseline || first[0].Prev != 0 || first[0].Seq != 1 || first[0].Offset != 1 ||
		!first[0].Time.Equal(start) {
		t.Fatalf("the first result is not a baseline: %+v", first)
	}
	if none := step(t, d, "city", "q_a", 2, "y", "x"); len(none) != 0 {
		t.Fatalf("the same bag made a change: %+v", none)
	}
	second := step(t, d, "city", "q_a", 3, "x", "z")
	if len(second) != 1 || second[0].Baseline || second[0].Prev != 1 || second[0].Seq != 2 || second[0].Slot != 3 {
		t.Fatalf("the second result: %+v", second)
	}
	epoch := first[0].Epoch
	d = reopen(t, d, dir, Options{})
	log, err := d.History.After("q_a", registry.Position{Epoch: epoch}, 10)
	if err != nil || len(log) != 2 {
		t.Fatalf("After: %d changes, %v", len(log), err)
	}
	r, err := log[0].Delta.Apply(bag(t))
	if err == nil {
		r, err = log[1].Delta.Apply(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, err := d.Ledger.Result("q_a")
	if err != nil || string(kept.Document()) != string(r.Document()) || kept.Hash() != bag(t, "z", "x").Hash() {
		t.Fatalf("the kept result is not what the changes lead to: %v", err)
	}
	check(t, d)
}

// update runs f in one write transaction.
func (d *boltFile) update(f func(tx *bbolt.Tx) error) error {
	if err := d.refusal(); err != nil {
		return err
	}
	return d.edit(func(tx *bbolt.Tx) (bool, error) { return false, f(tx) })
}
