package store

import (
	"errors"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	change "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

func registerSome(t *testing.T, d *DB, n int) {
	t.Helper()
	registerAll(t, d, n, func(i int) registry.Query {
		return registry.Query{ID: []string{"q_a", "q_b"}[i], Endpoint: "city", Text: "ASK {}", Normal: "ASK {}", CreatedAt: start,
			Holders: []registry.Holder{{Caller: "app", Since: start}}}
	})
}

func touchAt(n int64) proof.Touch {
	p := change.Place{Topic: "t", Offset: n, Time: start.Add(time.Duration(n) * time.Second)}
	return proof.Touch{Feed: "wd", Reached: p, Matched: p, Edits: []proof.Edit{{Edit: change.Edit{Text: "revision 1"}, Place: p}}}
}

// A loop hears of events by Since, each once, and all after a restart. Those of a query that was
// registered again are gone.
func TestTouchesAreNews(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	registerSome(t, d, 2)
	news := func(rev uint64, want map[string]proof.Touch) scheduler.News {
		t.Helper()
		n, err := d.Ledger.Since("city", rev)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, n.Touched); diff != "" && len(want)+len(n.Touched) > 0 {
			t.Error(diff)
		}
		return n
	}
	before := news(0, nil)
	state := proof.Feed{Source: "x", Cursor: "c1", Members: map[string]uint64{"city": before.Space}, Events: 1}
	if err := d.Ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: state, Touched: map[string]proof.Touch{"q_a": touchAt(1),
		"q_gone": touchAt(1)}}); err != nil {
		t.Fatal(err)
	}
	n := news(before.Revision, map[string]proof.Touch{"q_a": touchAt(1)})
	long := state
	long.Cursor = "" // it may be long, and no loop needs it
	if diff := cmp.Diff(map[string]proof.Feed{"wd": long}, n.Feeds); diff != "" || len(n.Entries) > 0 {
		t.Error(diff, n.Entries)
	}
	news(n.Revision, nil)
	state.Cursor = "c2"
	later := touchAt(7)
	later.Matched, later.Edits = change.Place{}, nil
	for range 2 { // as if the first one had an unknown outcome
		if err := d.Ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: state, Touched: map[string]proof.Touch{"q_a": later,
			"q_b": touchAt(2)}}); err != nil {
			t.Fatal(err)
		}
	}
	both := touchAt(1)
	both.Reached = touchAt(7).Reached
	all := map[string]proof.Touch{"q_a": both, "q_b": touchAt(2)}
	n = news(n.Revision, all)
	k, err := d.Ledger.Known("q_a")
	if diff := cmp.Diff(both, k.Touch); diff != "" || err != nil || k.Result != nil || k.Before.Known() {
		t.Error(diff, k, err)
	}
	if k, err := d.Ledger.Known("q_gone"); err != nil || k.Touch.Feed != "" {
		t.Error(k, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{})
	news(0, all)
	if f, ok, err := d.Ledger.Feed("wd"); err != nil || !ok || f.Cursor != "c2" {
		t.Errorf("%+v %v %v", f, ok, err)
	}
	if _, ok, err := d.Ledger.Feed("other"); err != nil || ok {
		t.Errorf("%v %v", ok, err)
	}
	removeQueries(t, d, "q_a")
	registerSome(t, d, 1)
	delete(all, "q_a")
	news(0, all)
	if err := d.view(func(tx *bbolt.Tx) error {
		if got := tx.Bucket(bTouches).Stats().KeyN; got != 1 {
			t.Errorf("%d entries", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if n, err := d.Ledger.Since("city", n.Revision); err != nil || len(n.Touched) > 1 {
		t.Errorf("%+v %v", n.Touched, err)
	}
}

func removeQueries(t *testing.T, d *DB, id string) {
	t.Helper()
	_, err := d.Queries.EditQueries(registry.Names{Query: id}, func(q *registry.Query, _ []*registry.Query, _ bool) error {
		q.Holders = nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A position is stored with the statistics, and those without one have their old form.
func TestBeforeIsStored(t *testing.T) {
	r := record{serial: 1, stats: policy.Stats{Executions: 3, CheckedAt: start}}
	if b := r.append(nil); b[0] != recordVersion {
		t.Errorf("version %d", b[0])
	}
	r.stats.Before = change.Before{Place: change.Place{Topic: "t", Offset: 12, Time: start}, Assumed: start.Add(time.Second),
		Answered: start.Add(time.Hour), Of: 1<<63 + 5}
	got, err := parseRecord(r.append(nil))
	if diff := cmp.Diff(r.stats.Before, got.stats.Before); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A file of the schema before gets the buckets of feeds.
func TestFeedsAreAMigration(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	err := d.bolt.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket(bFeeds), tx.DeleteBucket(bTouched), tx.DeleteBucket(bTouches), tx.Bucket(bMeta).Put(kSchema,
			key8(firstSchema)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{})
	if err := d.Ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: proof.Feed{Cursor: "c"}}); err != nil {
		t.Error(err)
	}
}

// A cursor that is stored already is not in the command: that of a stream of many pages is long.
func TestCursorIsWrittenOnce(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	cursor := func(of string, want bool) {
		t.Helper()
		e := &feedEdit{Feed: "wd", State: &proof.Feed{Cursor: of, Events: 3}}
		err := d.Ledger.view(func(tx *bbolt.Tx) error {
			if got := e.withoutKnown(tx); (got.State.Cursor == of && !got.Kept) != want || got.State.Events != 3 || e.State.Cursor != of {
				t.Errorf("%s: %+v", of, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: *e.State}); err != nil {
			t.Fatal(err)
		}
		if f, _, err := d.Ledger.Feed("wd"); err != nil || f.Cursor != of {
			t.Errorf("%s is stored as %q, %v", of, f.Cursor, err)
		}
	}
	cursor("one", true)
	cursor("one", false)
	cursor("two", true)
	cursor("two", false)
	cursor("", true)
}

// What a feed was told is recorded without a lease, also if a node once had one of the feed. What was read needs it.
func TestToldDespiteLease(t *testing.T) {
	c := newCluster(t, 1, 1)
	d, n := c.stores[0], member("a", "s1")
	c.must(d.Leases.Join(n))
	granted, err := d.Leases.Take(n, []Claim{{Key: FeedLease("wd")}})
	if c.must(err); len(granted) != 1 {
		t.Fatal(granted)
	}
	b := scheduler.FeedBatch{Feed: "wd", State: proof.Feed{Events: 1}}
	c.must(d.Ledger.RecordFeed(b))
	c.must(d.Ledger.Under(granted[0].Token).RecordFeed(b))
	if err := d.Ledger.Under(granted[0].Token + 1).RecordFeed(b); !errors.Is(err, scheduler.ErrFenced) {
		t.Errorf("under another token: %v", err)
	}
}
