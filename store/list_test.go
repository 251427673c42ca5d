package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// many registers n queries in one transaction, every tenth at the endpoint port.
func many(t testing.TB, d *DB, n int) {
	t.Helper()
	registerAll(t, d, n, func(i int) registry.Query {
		q := registry.Query{ID: fmt.Sprintf("q_%06d", i), Endpoint: "city", Text: "SELECT ?s { ?s a <http://example.org/Stop> }",
			Holders: []registry.Holder{{Caller: "app", Name: fmt.Sprintf("Stop %d", i), Tags: []string{fmt.Sprint("mod", i%7)}}}}
		if i%10 == 0 {
			q.Endpoint = "port"
		}
		if i%500 == 499 {
			q.Pause = &registry.Pause{By: "ops", At: start}
		}
		return q
	})
}

// registerAll registers n queries in one transaction.
func registerAll(t testing.TB, d *DB, n int, query func(i int) registry.Query) {
	t.Helper()
	if err := d.update(func(tx *bbolt.Tx) error {
		sums := newTotals(tx)
		for i := range n {
			q := query(i)
			x := queryDiff{now: q}
			if err := errors.Join(x.check(q.ID, d.disk.room), applyEdit(sums, &x)); err != nil {
				return err
			}
		}
		return sums.save()
	}); err != nil {
		t.Fatal(err)
	}
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	d.feed.catalog = nil
}

func pages(t *testing.T, d *DB, f registry.QueryFilter, limit int) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		items, next, err := d.Catalog.List(f, cursor, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(items) > limit || next != "" && len(items) < limit {
			t.Fatalf("a page of %d, limit %d, next %q", len(items), limit, next)
		}
		for _, i := range items {
			ids = append(ids, i.Query.ID)
		}
		if next == "" {
			return ids
		}
		cursor = next
	}
}

func TestList(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	many(t, d, 1200)
	step(t, d, "city", "q_000001", 1, "x")
	for _, c := range []struct {
		filter registry.QueryFilter
		limit  int
		want   int
	}{
		{registry.QueryFilter{}, 400, 1200},
		{registry.QueryFilter{}, 399, 1200},
		{registry.QueryFilter{}, 5000, 1200},
		{registry.QueryFilter{Endpoint: "port"}, 40, 120}, // ends with a full page
		{registry.QueryFilter{Endpoint: "city"}, 64, 1080},
		{registry.QueryFilter{Endpoint: "nowhere"}, 10, 0},
		{registry.QueryFilter{Tag: "mod3"}, 50, 171}, // 3, 10, … 1193
		{registry.QueryFilter{Tag: "mod"}, 50, 0},
		{registry.QueryFilter{State: registry.Paused}, 1, 2},
		{registry.QueryFilter{State: registry.Live}, 2, 1},
		{registry.QueryFilter{State: registry.New}, 700, 1197},
		{registry.QueryFilter{Text: "sTOP 29"}, 10, 11}, // 29, 290 to 299
		{registry.QueryFilter{Text: "Q_00012"}, 3, 10},
		{registry.QueryFilter{Text: "example.org/stop>", Endpoint: "port", Tag: "mod0"}, 10, 18}, // multiples of 70
		{registry.QueryFilter{Holder: "app"}, 1000, 1200},
		{registry.QueryFilter{Holder: "other"}, 10, 0},
	} {
		got := pages(t, d, c.filter, c.limit)
		if len(got) != c.want || !slices.IsSorted(got) || len(slices.Compact(got)) != c.want {
			t.Errorf("%+v in pages of %d: %d queries, want %d, each once and in order", c.filter, c.limit, len(got), c.want)
		}
	}
	// Removals between two pages do no harm, even that of the query at the cursor.
	items, cursor, err := d.Catalog.List(registry.QueryFilter{Endpoint: "city"}, "", 3)
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	remove(t, d, cursor)
	if items, _, err = d.Catalog.List(registry.QueryFilter{Endpoint: "city"}, cursor, 1); err != nil || len(items) != 1 ||
		items[0].Query.ID != "q_000004" {
		t.Fatalf("after %s comes %+v, %v", cursor, items, err)
	}
	if items, next, err := d.Catalog.List(registry.QueryFilter{}, "", 0); err != nil || len(items) != 0 || next != "" {
		t.Fatalf("limit 0: %d items, %q, %v", len(items), next, err)
	}
	check(t, d)
}

// The queries of an endpoint are listed in the order of their ids, each once, from any
// cursor, whether the endpoint has few of all queries or many.
func TestListOfAnEndpoint(t *testing.T) {
	for _, n := range []int{0, 30, 2 * readAtOnce} {
		d := open(t, t.TempDir(), Options{})
		registerAll(t, d, n, func(i int) registry.Query {
			at := i * 7919 % n // all of them, in another order than that of their ids
			q := registry.Query{ID: fmt.Sprintf("q_%06d", at), Endpoint: "city", Holders: []registry.Holder{{Caller: "app"}}}
			if at%10 == 0 {
				q.Endpoint = "port"
			}
			return q
		})
		for _, endpoint := range []string{"city", "port"} {
			var want []string
			for i := range n {
				if (i%10 == 0) == (endpoint == "port") {
					want = append(want, fmt.Sprintf("q_%06d", i))
				}
			}
			for _, limit := range []int{7, 5000} {
				if got := pages(t, d, registry.QueryFilter{Endpoint: endpoint}, limit); !slices.Equal(got, want) {
					t.Errorf("%d queries, pages of %d: %d of %s, want %d", n, limit, len(got), endpoint, len(want))
				}
			}
			for _, cursor := range []string{"a", "q_000010", "q_000010x", "q_000019", "q_000020", "z"} {
				at, found := slices.BinarySearch(want, cursor)
				if found {
					at++
				}
				rest := want[at:min(at+2, len(want))]
				items, _, err := d.Catalog.List(registry.QueryFilter{Endpoint: endpoint}, cursor, 2)
				if err != nil || len(items) != len(rest) {
					t.Fatalf("%d queries after %s: %v, want %v, %v", n, cursor, items, rest, err)
				}
				for i, x := range items {
					if x.Query.ID != rest[i] || x.Query.Endpoint != endpoint {
						t.Errorf("%d queries after %s: %s of %s, want %v of %s", n, cursor, x.Query.ID, x.Query.Endpoint, rest, endpoint)
					}
				}
			}
		}
	}
}

func TestStatus(t *testing.T) {
	run := func(o registry.Outcome) policy.Run { return policy.Run{Outcome: o, Error: "what went wrong"} }
	times := func(ms ...int) (s []policy.Sample) {
		for _, n := range ms {
			s = append(s, policy.Sample{Elapsed: time.Duration(n) * time.Millisecond})
		}
		return s
	}
	pause, now := &registry.Pause{By: "ops"}, time.Now()
	for _, c := range []struct {
		pause  *registry.Pause
		stats  policy.Stats
		state  registry.State
		median time.Duration
		err    string
	}{
		{nil, policy.Stats{}, registry.New, 0, ""},
		{nil, policy.Stats{Failures: 2, LastRun: run(registry.Throttled)}, registry.New, 0, "what went wrong"},
		{nil, policy.Stats{Failures: 2, IncompleteSince: now, LastRun: run(registry.Timeout)}, registry.Failing, 0, "what went wrong"},
		{nil, policy.Stats{Executions: 2, Failures: 1, IncompleteSince: now, LastRun: run(registry.Rejected)}, registry.Failing, 0,
			"what went wrong"},
		{nil, policy.Stats{Executions: 3, LastRun: run(registry.Unchanged), Samples: times(9, 1, 4)}, registry.Live, 4 * time.Millisecond, ""},
		{nil, policy.Stats{Executions: 2, LastRun: run(registry.Changed), Samples: times(9, 2)}, registry.Live, 5500 * time.Microsecond, ""},
		{nil, policy.Stats{Executions: 2, Failures: 1, LastRun: run(registry.Partial)}, registry.Stale, 0, "what went wrong"},
		{nil, policy.Stats{Executions: 2, LastRun: run(registry.Cut)}, registry.Live, 0, "what went wrong"},
		{pause, policy.Stats{Executions: 2, Failures: 1}, registry.Paused, 0, ""},
		{pause, policy.Stats{}, registry.Paused, 0, ""},
	} {
		got := statusOf(&registry.Query{Pause: c.pause, Holders: []registry.Holder{{Caller: "a"}}}, &c.stats, now)
		if !got.FailingSince.Equal(c.stats.IncompleteSince) || got.Failures != int(c.stats.Failures) {
			t.Errorf("%+v: since %s, %d times", c.stats, got.FailingSince, got.Failures)
		}
		if got.State != c.state || got.Median != c.median || got.Error != c.err {
			t.Errorf("%+v: %s, median %v, error %q; want %s, %v, %q", c.stats, got.State, got.Median, got.Error, c.state, c.median, c.err)
		}
	}
}

func TestItemOfUnknownHolder(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	for _, id := range []string{"", "q_a"} {
		if _, err := d.Catalog.Item(id); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("item %q: %v", id, err)
		}
	}
}

// A page of queries with long texts ends early, and the next page continues.
func TestListLongTexts(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	want := []string{}
	sizes := []int{10, 1, 5, 1, 1, 1, 1, 1, 7} // MiB
	registerAll(t, d, len(sizes), func(i int) registry.Query {
		want = append(want, fmt.Sprintf("q_%06d", i))
		return registry.Query{ID: want[i], Endpoint: "city", Text: "ASK {} #" + strings.Repeat("x", sizes[i]<<20),
			Holders: []registry.Holder{{Caller: "app"}}}
	})
	var got []string
	for cursor, more := "", true; more; more = cursor != "" {
		items, next, err := d.Catalog.List(registry.QueryFilter{}, cursor, 1000)
		if err != nil || len(items) == 0 {
			t.Fatalf("%d items after %q: %v", len(items), cursor, err)
		}
		bytes := 0
		for _, i := range items {
			got = append(got, i.Query.ID)
			bytes += len(i.Query.Text)
		}
		if len(items) > 1 && bytes > 11<<20 {
			t.Errorf("a page of %d bytes in %d items", bytes, len(items))
		}
		cursor = next
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages hold %v, want %v", got, want)
	}
}

// The queries of an endpoint that was removed and added again stay in lists, though the removal is reported last.
func TestListAfterLateRemoval(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_1", "city", registry.Holder{Caller: "app"})
	put(t, d, "q_2", "city", registry.Holder{Caller: "app"})
	pages(t, d, registry.QueryFilter{}, 10)
	removal := &endpointEdit{Name: "city"}
	if err := d.update(func(tx *bbolt.Tx) error { return removeEndpoint(tx, "city") }); err != nil {
		t.Fatal(err)
	}
	put(t, d, "q_2", "city", registry.Holder{Caller: "app"})
	d.refresh(removal)
	if got := pages(t, d, registry.QueryFilter{}, 10); !slices.Equal(got, []string{"q_2"}) {
		t.Errorf("the list has %v, want q_2", got)
	}
}

// Lists work again once what could not be read is gone.
func TestListAfterDamageIsRemoved(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_1", "city", registry.Holder{Caller: "app"})
	put(t, d, "q_2", "port", registry.Holder{Caller: "app"})
	if err := d.update(func(tx *bbolt.Tx) error {
		v := slices.Clone(tx.Bucket(bQueries).Get([]byte("q_1")))
		return tx.Bucket(bQueries).Put([]byte("q_1"), append(v[:queryHead], "no JSON"...))
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Catalog.List(registry.QueryFilter{}, "", 10); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a damaged registration is listed: %v", err)
	}
	if _, err := d.Endpoints.EditEndpoint("city", func(c *registry.Configured, _ bool) error {
		c.Endpoint.URL = ""
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := pages(t, d, registry.QueryFilter{}, 10); !slices.Equal(got, []string{"q_2"}) {
		t.Errorf("the list has %v, want q_2", got)
	}
}
