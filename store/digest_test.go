package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/google/go-cmp/cmp"
)

// digestsFromList computes what Digests returns from a full list.
func digestsFromList(t *testing.T, d *DB, text string) (out []registry.QueryDigest) {
	t.Helper()
	for cursor := ""; ; {
		items, next, err := d.Catalog.List(registry.QueryFilter{Text: text}, cursor, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			s, err := d.Catalog.Stats(it.Query.ID)
			if err != nil {
				t.Fatal(err)
			}
			x := registry.QueryDigest{ID: it.Query.ID, Endpoint: it.Query.Endpoint, Name: it.Query.NameFor(""), Tags: it.Query.Tags(),
				State:     it.Status.State,
				CheckedAt: it.Status.CheckedAt, ChangedAt: it.Status.ChangedAt, Executions: it.Status.Executions, Changes: it.Status.Changes,
				Median: it.Status.Median}
			for _, h := range it.Query.Holders {
				x.Holders = append(x.Holders, h.Caller)
			}
			x.Lately.Runs = len(s.Samples)
			for _, m := range s.Samples {
				if m.Changed {
					x.Lately.Changed++
				}
			}
			out = append(out, x)
		}
		if next == "" {
			return out
		}
		cursor = next
	}
}

// The cache of Digests is never visible: after any edits and executions it returns the same
// as the queries themselves.
func TestDigestsFollowTheQueries(t *testing.T) {
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	d := open(t, t.TempDir(), Options{})
	many(t, d, 60)
	for round := range 30 {
		for range 5 {
			id := fmt.Sprintf("q_%06d", rnd.IntN(70))
			switch rnd.IntN(4) {
			case 0:
				if _, err := d.Queries.EditQuery(id, func(q *registry.Query, found bool) error {
					if !found {
						q.ID, q.Endpoint, q.Text = id, "city", "ASK {} # "+strings.Repeat("Long ", rnd.IntN(2)*500)
					}
					q.Holders = []registry.Holder{{Caller: "app", Name: fmt.Sprint("named in ", round), Tags: []string{"t"}}}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			case 1:
				d.Queries.EditQuery(id, func(q *registry.Query, found bool) error { q.Holders = nil; return nil })
			case 2:
				d.Queries.EditQuery(id, func(q *registry.Query, found bool) error { q.Pause = &registry.Pause{By: "ops"}; return nil })
			default:
				it, err := d.Catalog.Item(id)
				if err != nil {
					continue
				}
				s, err := d.Catalog.Stats(id)
				if err != nil {
					t.Fatal(err)
				}
				_, old, err := d.History.Current(id, true)
				if err != nil {
					t.Fatal(err)
				}
				o := outcome(s, old, id, uint64(round+1), bag(t, fmt.Sprint(rnd.IntN(3))))
				if _, err := d.Ledger.Record(it.Query.Endpoint, scheduler.Batch{Outcomes: []scheduler.Outcome{o}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, text := range []string{"", "named in", "STOP 1", "nowhere", "ask {", "LONG long", "# \x00named"} {
			got, err := d.Catalog.Digests(text)
			if err != nil {
				t.Fatal(err)
			}
			want := digestsFromList(t, d, text)
			if diff := cmp.Diff(want, append([]registry.QueryDigest(nil), got...)); diff != "" {
				t.Fatalf("round %d, %q: %s", round, text, diff)
			}
		}
	}
}

// Recent reports each change after an offset and a time once, without baselines.
func TestRecent(t *testing.T) {
	now := start
	d := open(t, t.TempDir(), Options{Now: func() time.Time { return now }})
	put(t, d, "q_a", "city")
	var s policy.Stats
	var last = bag(t, "0")
	for i := range 9 { // a baseline and eight changes, a minute apart
		now = start.Add(time.Duration(i) * time.Minute)
		next := bag(t, fmt.Sprint(i))
		old := last
		if i == 0 {
			old = nil
		}
		o := outcome(s, old, "q_a", uint64(i+1), next)
		s, last = o.Stats, next
		if _, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{o}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(o registry.Offset, since time.Time) (n int, at registry.Offset) {
		at, err := d.Catalog.Recent(o, since, func(q string, _ time.Time) {
			if q != "q_a" {
				t.Errorf("a change of %s", q)
			}
			n++
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, at
	}
	all, at := read(registry.Offset{}, time.Time{})
	if head, _ := d.History.Head(); all != 8 || at != head {
		t.Errorf("%d changes up to %v, want 8 up to %v", all, at, head)
	}
	_, log := d.History.All(registry.Offset{}, 100)
	if log != nil {
		t.Fatal(log)
	}
	changes, _ := d.History.All(registry.Offset{}, 100)
	since := changes[6].Time
	want := 0
	for _, c := range changes {
		if !c.Time.Before(since) {
			want++
		}
	}
	if n, _ := read(registry.Offset{}, since); n != want {
		t.Errorf("%d since %v, want %d", n, since, want)
	}
	if n, _ := read(registry.Offset{Epoch: at.Epoch, Seq: at.Seq - 2}, time.Time{}); n != 2 {
		t.Errorf("%d after the last but two", n)
	}
	if n, again := read(at, time.Time{}); n != 0 || again != at {
		t.Errorf("%d after the last, %v", n, again)
	}
	if n, _ := read(registry.Offset{Epoch: "other", Seq: at.Seq}, time.Time{}); n != 8 {
		t.Errorf("%d after an offset of another epoch", n)
	}
}
