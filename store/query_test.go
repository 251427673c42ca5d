package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

func slot(t *testing.T, d *DB, endpoint string, n uint64) {
	t.Helper()
	if _, err := d.Ledger.Record(endpoint, scheduler.Batch{Slot: &scheduler.Slot{Endpoint: endpoint, Number: n}}); err != nil {
		t.Fatal(err)
	}
}

func putEndpointURL(t *testing.T, d *DB, name, url string) {
	t.Helper()
	if _, err := d.Endpoints.EditEndpoint(name, func(c *registry.Configured, _ bool) error {
		c.Endpoint.URL = url
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// drained waits for the purge and returns the number of remaining history entries.
func drained(t *testing.T, d *DB) (left int) {
	t.Helper()
	for pending := true; pending; {
		if _, err := purgeSome(d.boltFile); err != nil {
			t.Fatal(err)
		}
		if err := d.bolt.View(func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(bPurge).Cursor().First()
			pending, left = k != nil, 0
			for _, name := range buckets() {
				if string(name) != string(bMeta) {
					left += tx.Bucket(name).Stats().KeyN
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return left
}

func TestEditQuery(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	at := start.Add(time.Hour)
	want := registry.Query{
		ID: "q_a", Endpoint: "city", Text: "SELECT *", Normal: "select *", Form: diff.Select, Ordered: true, OrderKeys: []string{"s"}, Limit: -1,
		DefaultGraphs: []string{"http://g"}, Constants: []string{"http://c"}, Warnings: []registry.Warning{{Code: "c", Message: "m", Line: 1}},
		CreatedAt: start, Pause: &registry.Pause{By: "ops", At: at}, Refreshes: 3,
		Holders: []registry.Holder{{Caller: "app", Name: "n", Tags: []string{"t"}, Weight: 2,
			MaxStaleness: registry.Duration(time.Hour), From: &at, Since: start}},
	}
	got, err := d.Queries.EditQuery("q_a", func(q *registry.Query, found bool) error {
		if found || q.ID != "q_a" {
			t.Errorf("a new query is handed over as %+v, found: %t", q, found)
		}
		*q = want
		return nil
	})
	if err != nil || cmp.Diff(want, got) != "" {
		t.Fatalf("%v %s", err, cmp.Diff(want, got))
	}
	d = reopen(t, d, dir, Options{})
	if got, err = d.Queries.Query("q_a"); err != nil || cmp.Diff(want, got) != "" {
		t.Fatalf("%v %s", err, cmp.Diff(want, got))
	}
	refused := errors.New("refused")
	for name, edit := range map[string]func(q *registry.Query) error{
		"error":    func(q *registry.Query) error { q.Holders, q.Text = nil, ""; q.Pause.By = "x"; return refused },
		"id":       func(q *registry.Query) error { q.ID = "q_b"; return nil },
		"endpoint": func(q *registry.Query) error { q.Endpoint = "port"; return nil },
	} {
		_, err := d.Queries.EditQuery("q_a", func(q *registry.Query, found bool) error { return edit(q) })
		if err == nil || name == "error" && err != refused {
			t.Fatalf("%s: got %v", name, err)
		}
		if got, err = d.Queries.Query("q_a"); err != nil || cmp.Diff(want, got) != "" {
			t.Fatalf("%s is in effect: %v %s", name, err, cmp.Diff(want, got))
		}
	}
	if _, err := d.Queries.EditQuery("q_x", func(*registry.Query, bool) error { return nil }); err != nil {
		t.Fatalf("leaving a query that is not there without holders: %v", err)
	}
	if _, err := d.Queries.Query("q_x"); !errors.Is(err, registry.ErrNotFound) {
		t.Fatalf("it is there: %v", err)
	}
	n, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Queries.EditQuery("q_a", func(*registry.Query, bool) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if again, err := d.Ledger.Since("city", n.Revision); err != nil || again.Revision != n.Revision {
		t.Fatalf("an edit that changes nothing gave revision %d after %d, %v", again.Revision, n.Revision, err)
	}
}

func TestFindName(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_z", "city", registry.Holder{Caller: "b", Name: "sensors"})
	put(t, d, "q_a", "city", registry.Holder{Caller: "a", Name: "sensors", Public: true}, registry.Holder{Caller: "b",
		Name: "sensors"}, registry.Holder{Caller: "c"})
	put(t, d, "q_m", "city", registry.Holder{Caller: "a", Name: "sensors\x00b"})
	expect := func(caller, name string, ids ...string) {
		t.Helper()
		list, err := d.Queries.FindName(caller, name, false, 9)
		var got []string
		for _, q := range list {
			got = append(got, q.ID)
		}
		if err != nil || cmp.Diff(ids, got) != "" {
			t.Fatalf("%q's %q are %q, %v; want %q", caller, name, got, err, ids)
		}
	}
	expect("a", "sensors", "q_a")
	expect("b", "sensors", "q_z", "q_a")
	expect("", "sensors", "q_z", "q_a") // oldest first, each once
	expect("c", "sensors")
	expect("c", "")
	expect("", "")
	expect("", "sensor")
	expect("a", "sensors\x00b", "q_m")
	if list, err := d.Queries.FindName("", "sensors", true, 9); err != nil || len(list) != 1 || list[0].ID != "q_a" {
		t.Fatalf("public: %v, %v", list, err)
	}
	if list, err := d.Queries.FindName("", "sensors", false, 1); err != nil || len(list) != 1 || list[0].ID != "q_z" {
		t.Fatalf("one: %v, %v", list, err)
	}
	put(t, d, "q_z", "city", registry.Holder{Caller: "b", Name: "departures"})
	expect("b", "sensors", "q_a")
	expect("b", "departures", "q_z")
	expect("", "sensors", "q_a")
	put(t, d, "q_a", "city", registry.Holder{Caller: "a", Name: "sensors", Public: true}, registry.Holder{Caller: "b", Name: "secret"})
	if list, err := d.Queries.FindName("", "secret", true, 9); err != nil || len(list) != 0 {
		t.Fatalf("the name of a holder who did not make it public: %v, %v", list, err)
	}
	remove(t, d, "q_a")
	expect("a", "sensors")
	expect("", "sensors")
	check(t, d)
}

// An edit of several queries is one transaction: all of it has an effect, or nothing.
func TestEditQueries(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	put(t, d, "q_1", "city", registry.Holder{Caller: "a", Name: "n"})
	put(t, d, "q_2", "city", registry.Holder{Caller: "a", Name: "n"}, registry.Holder{Caller: "b", Name: "n"})
	put(t, d, "q_3", "port", registry.Holder{Caller: "a", Name: "else"})
	put(t, d, "q_4", "city", registry.Holder{Caller: "b", Name: "n"})
	if q, err := d.Queries.EditQueries(registry.Names{Query: "q_1", Caller: "a", Name: "n"}, func(*registry.Query, []*registry.Query,
		bool) error {
		return nil
	}); err != nil || q.ID != "q_1" {
		t.Fatalf("an edit that changes nothing returns %+v, %v", q, err)
	}
	n := registry.Names{Query: "q_new", Caller: "a", Name: "n", Instead: "q_3"}
	edit := func(then error) error {
		_, err := d.Queries.EditQueries(n, func(q *registry.Query, others []*registry.Query, found bool) error {
			var ids []string
			for _, o := range others {
				ids = append(ids, o.ID)
				o.Holders = slices.DeleteFunc(o.Holders, func(h registry.Holder) bool { return h.Caller == "a" })
			}
			if found || q.ID != "q_new" || cmp.Diff([]string{"q_1", "q_2", "q_3"}, ids) != "" {
				t.Errorf("%s, found %t, with %v", q.ID, found, ids)
			}
			q.Endpoint, q.Holders = "city", []registry.Holder{{Caller: "a", Name: "n"}}
			return then
		})
		return err
	}
	refused := errors.New("refused")
	if err := edit(refused); err != refused {
		t.Fatal(err)
	}
	if list, _ := d.Queries.FindName("a", "n", false, 9); len(list) != 2 {
		t.Fatalf("a refused edit is in effect: %v", list)
	}
	if err := edit(nil); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d, dir, Options{})
	if list, err := d.Queries.FindName("a", "n", false, 9); err != nil || len(list) != 1 || list[0].ID != "q_new" {
		t.Fatalf("%v, %v", list, err)
	}
	for id, there := range map[string]bool{"q_1": false, "q_2": true, "q_3": false, "q_4": true, "q_new": true} {
		if _, err := d.Queries.Query(id); errors.Is(err, registry.ErrNotFound) == there {
			t.Errorf("%s: %v", id, err)
		}
	}
	if count, err := d.Queries.CountQueries(); err != nil || count != 3 {
		t.Errorf("%d queries, %v", count, err)
	}
	check(t, d)
}

func TestLiveHolds(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	at := start.Add(24 * time.Hour)
	put(t, d, "q_b", "port", registry.Holder{Caller: "x", Live: true})
	put(t, d, "q_a", "city", registry.Holder{Caller: "a", Live: true, ReleaseAt: &at}, registry.Holder{Caller: "b"})
	want := []registry.LiveHold{{Query: "q_a", Caller: "a", ReleaseAt: &at}, {Query: "q_b", Caller: "x"}}
	if got, err := d.Queries.LiveHolds(); err != nil || cmp.Diff(want, got) != "" {
		t.Fatalf("%v %s", err, cmp.Diff(want, got))
	}
	putEndpointURL(t, d, "port", "") // removes the endpoint
	put(t, d, "q_a", "city", registry.Holder{Caller: "a"}, registry.Holder{Caller: "b"})
	if got, err := d.Queries.LiveHolds(); err != nil || len(got) != 0 {
		t.Fatalf("still held: %+v, %v", got, err)
	}
	check(t, d)
}

func TestEndpoints(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	want := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:1/sparql", MaxBytes: 5, Headers: map[string]string{"A": "b"},
		Auth: registry.Auth{Basic: &registry.Password{Username: "u", PasswordFile: "p"}}, Pause: &registry.Pause{By: "ops",
			At: start}}.WithDefaults()
	file := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:2/sparql"}.WithDefaults()
	edit := func(f func(c *registry.Configured, found bool) error) error {
		_, err := d.Endpoints.EditEndpoint("city", f)
		return err
	}
	edits := map[string]registry.Edit{"budget": {By: "ops", At: start}}
	if err := edit(func(c *registry.Configured, found bool) error {
		if found || c.Endpoint.Name != "city" || c.File.Name != "" || c.Edits != nil {
			t.Errorf("a new endpoint is handed over as %+v, %t", c, found)
		}
		*c = registry.Configured{Endpoint: want, File: file, Edits: edits}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	putEndpointURL(t, d, "alps", "http://127.0.0.1:3/")
	d = reopen(t, d, dir, Options{})
	if err := edit(func(c *registry.Configured, found bool) error {
		if d := cmp.Diff(registry.Configured{Endpoint: want, File: file, Edits: edits}, *c); !found || d != "" {
			t.Errorf("found: %t %s", found, d)
		}
		c.Endpoint.Name = "other"
		return nil
	}); err == nil {
		t.Fatal("an endpoint was renamed")
	}
	list, err := d.Endpoints.Endpoints()
	if err != nil || len(list) != 2 || list[0].Name != "alps" || cmp.Diff(want, list[1]) != "" {
		t.Fatalf("endpoints %+v, %v", list, err)
	}
	if _, err := d.Endpoints.Endpoint("nowhere"); !errors.Is(err, registry.ErrNotFound) {
		t.Fatal(err)
	}
}

// Settings that did not exist when an endpoint was stored have their defaults.
func TestSettingsOfEarlierVersions(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	putEndpointURL(t, d, "city", "http://127.0.0.1:1/")
	if err := d.edit(func(tx *bbolt.Tx) (bool, error) {
		return false, tx.Bucket(bEndpoints).Put([]byte("city"),
			[]byte(`{"endpoint":{"name":"city","url":"http://127.0.0.1:1/"},"file":{"name":"city","url":"http://127.0.0.1:1/"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	c, err := d.Endpoints.Configured("city")
	if err != nil || c.Endpoint.Merge != registry.DefaultMerge || c.File.Merge != registry.DefaultMerge {
		t.Errorf("%+v, %v", c, err)
	}
}

// Each read of an endpoint returns what was committed last, in memory of its own.
func TestEndpointIsReadAsStored(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	urls := []string{"http://127.0.0.1:1/", "http://127.0.0.1:2/", "", "http://127.0.0.1:2/", "http://127.0.0.1:1/"}
	for _, url := range urls {
		if _, err := d.Endpoints.EditEndpoint("city", func(c *registry.Configured, _ bool) error {
			c.Endpoint.URL, c.Endpoint.Headers = url, map[string]string{"Url": url}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			e, err := d.Endpoints.Endpoint("city")
			if url == "" {
				if !errors.Is(err, registry.ErrNotFound) {
					t.Fatalf("a removed endpoint is read: %+v, %v", e, err)
				}
				continue
			}
			if err != nil || e.URL != url || e.Headers["Url"] != url {
				t.Fatalf("%+v, %v instead of %s", e, err, url)
			}
			e.Headers["Url"] = "modified"
		}
	}
}

// Editing the URL or max_rows of an endpoint drops its reported cap. Moving to another server
// drops the whole health.
func TestEditingForgetsTheCap(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	edits := map[string]func(*registry.Endpoint){
		"server":   func(e *registry.Endpoint) { e.URL = "http://127.0.0.1:2/" },
		"url":      func(e *registry.Endpoint) { e.URL = "https://127.0.0.1:1/sparql" },
		"max_rows": func(e *registry.Endpoint) { e.MaxRows = 100 },
		"slot":     func(e *registry.Endpoint) { e.Slot = "@every 1h" },
	}
	for name, edit := range edits {
		putEndpointURL(t, d, name, "http://127.0.0.1:1/")
		told := registry.Health{State: registry.HealthThrottled, Failures: 2, MaxRows: 20}
		if _, err := d.Ledger.Record(name, scheduler.Batch{Health: &told}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Endpoints.EditEndpoint(name, func(c *registry.Configured, _ bool) error { edit(&c.Endpoint); return nil }); err != nil {
			t.Fatal(err)
		}
		want := told
		switch name {
		case "server":
			want = registry.Health{}
		case "url", "max_rows":
			want.MaxRows = 0
		}
		news, err := d.Ledger.Since(name, 0)
		if err != nil || news.Health != want {
			t.Errorf("%s: %+v, %v", name, news.Health, err)
		}
	}
}

// Removing an endpoint hides everything at once and finally deletes all of it. A new endpoint
// of the same name is independent.
func TestRemoveEndpoint(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	putEndpointURL(t, d, "city", "http://127.0.0.1:1/")
	empty := drained(t, d)
	fill := func() {
		for i := range 700 { // too many for one transaction of the purge
			put(t, d, fmt.Sprintf("q_%d", i), "city", registry.Holder{Caller: "a", Name: fmt.Sprint(i), Live: true})
		}
		for i := range uint64(5) {
			step(t, d, "city", "q_7", i+1, fmt.Sprint(i))
			slot(t, d, "city", i+1)
		}
	}
	fill()
	n, err := d.Ledger.Since("city", 0)
	if err != nil || len(n.Entries) != 700 {
		t.Fatalf("%d entries, %v", len(n.Entries), err)
	}
	epoch, _ := d.Catalog.Stats("q_7")
	putEndpointURL(t, d, "city", "")
	for what, err := range map[string]error{
		"query": second(d.Queries.Query("q_7")), "stats": second(d.Catalog.Stats("q_7")),
		"endpoint": second(d.Endpoints.Endpoint("city")), "slots": second(d.History.Slots("city", 1)), "item": second(d.Catalog.Item("q_7")),
	} {
		if !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("the %s is still there: %v", what, err)
		}
	}
	if list, err := d.Queries.FindName("a", "7", false, 1); len(list) > 0 || err != nil {
		t.Errorf("the name is still there: %v, %v", list, err)
	}
	if c, err := d.Queries.CountQueries(); c != 0 || err != nil {
		t.Errorf("%d queries are counted, %v", c, err)
	}
	if gone, err := d.Ledger.Since("city", n.Revision); err != nil || !gone.Full || len(gone.Entries) != 0 {
		t.Errorf("a loop hears %+v, %v", gone, err)
	}
	if items, _, err := d.Catalog.List(registry.QueryFilter{}, "", 10); err != nil || len(items) != 0 {
		t.Errorf("%d are listed, %v", len(items), err)
	}
	check(t, d)
	putEndpointURL(t, d, "city", "http://127.0.0.1:1/")
	put(t, d, "q_7", "city")
	if s, err := d.Catalog.Stats("q_7"); err != nil || s.Position.Seq != 0 || s.Position.Epoch == epoch.Position.Epoch || s.Executions != 0 {
		t.Errorf("registered again it has %+v, %v", s, err)
	}
	if again, err := d.Ledger.Since("city", n.Revision); err != nil || !again.Full || len(again.Entries) != 1 || again.Last.Number != 0 {
		t.Errorf("a loop hears %+v, %v", again, err)
	}
	check(t, d)
	putEndpointURL(t, d, "city", "")
	if left := drained(t, d); left != empty-3 { // the endpoint itself had three entries
		t.Errorf("%d entries are left, before the endpoint there were %d", left, empty-3)
	}
	check(t, d)
}

// What a loop records for an endpoint that was removed does not reach a new endpoint of the
// same name.
func TestRecordForARemovedEndpoint(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	putEndpointURL(t, d, "city", "http://127.0.0.1:1/")
	old, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	putEndpointURL(t, d, "city", "")
	putEndpointURL(t, d, "city", "http://127.0.0.1:2/")
	put(t, d, "q_a", "city")
	late := scheduler.Batch{Space: old.Space, Slot: &scheduler.Slot{Endpoint: "city", Number: 7},
		Health: &registry.Health{State: registry.HealthFailing},
		Policy: &scheduler.PolicyState{Policy: "hybrid", State: []float64{1}}}
	if _, err := d.Ledger.Record("city", late); err != nil {
		t.Fatal(err)
	}
	now, err := d.Ledger.Since("city", 0)
	if err != nil || now.Last.Number != 0 || now.Health.State != "" || now.Policy.Policy != "" {
		t.Fatalf("the new endpoint has %+v, %+v, %+v, %v", now.Last, now.Health, now.Policy, err)
	}
	late.Space = now.Space
	if _, err := d.Ledger.Record("city", late); err != nil {
		t.Fatal(err)
	}
	if now, err = d.Ledger.Since("city", 0); err != nil || now.Last.Number != 7 || now.Health.State != registry.HealthFailing {
		t.Fatalf("its own loop recorded %+v, %+v, %v", now.Last, now.Health, err)
	}
	check(t, d)
}

func second[T any](_ T, err error) error { return err }

// An answer to a query that was removed and registered again meanwhile belongs to the old
// query.
func TestLateOutcome(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	step(t, d, "city", "q_a", 1, "x")
	changed, same := next(t, d, "q_a", 2, bag(t, "y")), next(t, d, "q_a", 2, bag(t, "x"))
	remove(t, d, "q_a")
	put(t, d, "q_a", "city")
	for _, late := range []scheduler.Outcome{changed, same} {
		c, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{late}})
		if s, _ := d.Catalog.Stats("q_a"); err != nil || len(c) != 0 || s.Executions != 0 || s.Position.Seq != 0 {
			t.Fatalf("%v: changes %+v, statistics %+v", err, c, s)
		}
	}
	if c := step(t, d, "city", "q_a", 3, "y"); len(c) != 1 || !c[0].Baseline || !c[0].Delta.Baseline {
		t.Fatalf("%+v", c)
	}
	// A change is not applied to a result that it does not follow from.
	if c, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{changed}}); err != nil || len(c) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	check(t, d)
}

// The same holds for a query without a result: the new query would otherwise count refreshes
// that the old one served.
func TestLateBaseline(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	n, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	late := next(t, d, "q_a", 1, bag(t, "x"))
	late.Stats.Position, late.Stats.Served = n.Entries[0].Stats.Position, 3
	failed := scheduler.Outcome{Query: "q_a", Stats: policy.Stats{Failures: 1, Served: 3, Position: n.Entries[0].Stats.Position}}
	remove(t, d, "q_a")
	put(t, d, "q_a", "city")
	for _, o := range []scheduler.Outcome{late, failed} {
		c, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{o}})
		if s, _ := d.Catalog.Stats("q_a"); err != nil || len(c) != 0 || s.Executions != 0 || s.Failures != 0 || s.Served != 0 {
			t.Fatalf("%v: changes %+v, statistics %+v", err, c, s)
		}
	}
	check(t, d)
}

// Full reports that removals were forgotten.
func TestSinceForgets(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_stays", "city")
	n, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.update(func(tx *bbolt.Tx) error {
		s, _ := findSpace(tx, "city")
		c := loadCounters(tx)
		for i := range maxRemovals + 5 {
			c.revision++
			if err := s.addRemoval(tx, c.revision, fmt.Sprint("q_", i)); err != nil {
				return err
			}
		}
		return errors.Join(s.save(tx), c.save(tx))
	}); err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[uint64]struct {
		full             bool
		removed, entries int
	}{
		0:              {false, 0, 1},
		n.Revision:     {true, 0, 1},
		n.Revision + 4: {true, 0, 1},
		n.Revision + 5: {false, maxRemovals, 0},
		n.Revision + 6: {false, maxRemovals - 1, 0},
	} {
		got, err := d.Ledger.Since("city", rev)
		if err != nil || got.Full != want.full || len(got.Removed) != want.removed || len(got.Entries) != want.entries {
			t.Errorf("since %d: full %t, %d removed, %d entries, %v; want %+v", rev, got.Full, len(got.Removed), len(got.Entries), err, want)
		}
	}
	check(t, d)
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	at := start.Add(time.Hour)
	ops := registry.Token{Name: "ops", Role: registry.RoleAdmin, SHA256: "ab", CreatedAt: start, ExpiresAt: &at}
	app := registry.Token{Name: "app", Role: registry.RoleApp, SHA256: "cd", CreatedAt: start}
	if err := errors.Join(d.Tokens.PutToken(ops), d.Tokens.PutToken(app)); err != nil {
		t.Fatal(err)
	}
	if err := d.Tokens.PutToken(registry.Token{Name: "ops"}); !errors.Is(err, registry.ErrExists) {
		t.Fatalf("a name taken twice: %v", err)
	}
	d = reopen(t, d, dir, Options{})
	if got, err := d.Tokens.Tokens(); err != nil || cmp.Diff([]registry.Token{app, ops}, got) != "" {
		t.Fatalf("%v %s", err, cmp.Diff([]registry.Token{app, ops}, got))
	}
	if err := d.Tokens.DeleteToken("ops", true); err != nil {
		t.Fatal(err)
	}
	if err := d.Tokens.DeleteToken("ops", true); !errors.Is(err, registry.ErrNotFound) {
		t.Fatalf("deleted twice: %v", err)
	}
}

// Of two nodes that remove the last two lasting admin tokens at the same time, one is refused.
func TestLastToken(t *testing.T) {
	c := newCluster(t, 1, 2)
	end := start.Add(time.Hour)
	for _, x := range []registry.Token{{Name: "app", Role: registry.RoleApp}, {Name: "guest", Role: registry.RoleAdmin, ExpiresAt: &end},
		{Name: "n0", Role: registry.RoleAdmin}, {Name: "n1", Role: registry.RoleAdmin}} {
		c.must(c.stores[0].Tokens.PutToken(x))
	}
	settle(t, c.stores...)
	var forms [2][]byte // decided on before either is applied
	for i, d := range c.stores {
		e := &tokenEdit{Name: fmt.Sprint("n", i), Keeps: true}
		c.must(d.view(e.check))
		form, err := encodeCommand(e)
		c.must(err)
		forms[i] = form
	}
	if _, err := c.stores[0].replica.Submit(forms[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.stores[1].replica.Submit(forms[1]); err != errMoved {
		t.Fatalf("the removal of the last token, decided on when there were two: %v", err)
	}
	for i, d := range c.stores {
		if err := d.Tokens.DeleteToken("n1", true); !errors.Is(err, registry.ErrLastToken) {
			t.Errorf("node %d: the removal of the last token: %v", i, err)
		}
	}
	c.must(c.stores[0].Tokens.DeleteToken("app", true))
	c.must(c.stores[0].Tokens.DeleteToken("n1", false)) // a node whose file has such a token
	c.must(c.stores[0].Tokens.DeleteToken("guest", true))
	settle(t, c.stores...)
	for _, d := range c.stores {
		expectSame(t, c.stores[0], d)
		if list, err := d.Tokens.Tokens(); err != nil || len(list) > 0 {
			t.Errorf("left: %v, %v", list, err)
		}
	}
}
