package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/registry"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// fullQuery returns a query in which every field is set that JSON would store.
func fullQuery() registry.Query {
	q, n := registry.Query{}, 0
	v := reflect.ValueOf(&q).Elem()
	fill(v, &n)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == "-" {
			v.Field(i).SetZero()
		}
	}
	q.Normal = "SELECT <" + q.Constants[0] + "> <" + q.Constants[2] + ">"
	return q
}

func decoded(t interface{ Fatalf(string, ...any) }, q *registry.Query) registry.Query {
	got := registry.Query{ID: q.ID}
	if err := decodeRegistration(appendRegistration(nil, q), &got); err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return got
}

// A registration keeps every field of a query and of its holders, including those that are
// not set.
func TestRegistrationKeepsEveryField(t *testing.T) {
	empty, sparse := registry.Query{ID: "q_a"}, fullQuery()
	sparse.Holders = append(sparse.Holders, registry.Holder{}, registry.Holder{Caller: "b", Live: true})
	sparse.Pause, sparse.Holders[1].Until, sparse.Constants = nil, nil, []string{"", "not in the normal form"}
	distant := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	sparse.Holders[0].Until, sparse.Holders[2].From = &distant, &time.Time{}
	for _, q := range []registry.Query{fullQuery(), sparse, empty} {
		if d := cmp.Diff(q, decoded(t, &q)); d != "" {
			t.Errorf("-stored +read\n%s", d)
		}
	}
}

// A registration is stored as JSON would store it, whatever its texts contain, and a damaged
// one is an error.
func TestRegistrationsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, -1)
		q := fullQuery()
		q.Text, q.Normal, q.Constants = text.Draw(t, "text"), text.Draw(t, "normal"), rapid.SliceOfN(text, 1, 4).Draw(t, "constants")
		if n := len(q.Normal); n > 0 {
			from := rapid.IntRange(0, n).Draw(t, "from")
			q.Constants = append(q.Constants, q.Normal[from:rapid.IntRange(from, n).Draw(t, "to")])
		}
		q.Holders[0].Tags, q.Holders[1].Weight = rapid.SliceOfN(text, 1, 3).Draw(t, "tags"), rapid.Float64().Draw(t, "weight")
		if d := cmp.Diff(q, decoded(t, &q)); d != "" {
			t.Fatalf("-stored +read\n%s", d)
		}
		b := appendRegistration(nil, &q)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if err := decodeRegistration(b[:at], new(registry.Query)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v", at, len(b), err)
		}
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		_ = decodeRegistration(b, new(registry.Query)) // may be another registration, but must not panic
		if h, err := readRegistrationHead(b); err == nil {
			newTextSearch("it").finds([]byte("q_a"), &h)
		}
	})
}

// Storing a registration costs in proportion to its size: a query has as many constants
// as fit into its text, and they are in another order there.
func TestLongManyConstants(t *testing.T) {
	growth.Check(t, growth.Sizes(1000, func(n int) growth.Input {
		q := registry.Query{}
		var normal strings.Builder
		for i := range n {
			fmt.Fprintf(&normal, " <http://example.org/resource/entity_of_%06d>", i*7919%n)
			q.Constants = append(q.Constants, fmt.Sprintf("http://example.org/resource/entity_of_%06d", i))
		}
		q.Normal = normal.String()
		if b := appendRegistration(nil, &q); len(b) > len(q.Normal)+8*n {
			t.Errorf("%d constants take %d bytes beside the normal form", n, len(b)-len(q.Normal))
		}
		return growth.Input{Size: n, Work: func() { appendRegistration(nil, &q) }}
	})...)
}

// In a file of schema 7 registrations are JSON. Opening it makes them compact, once, and
// changes nothing else.
func TestRegistrationsOfAnOlderFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	const n = 2500
	before := map[string]registry.Query{}
	registerAll(t, d, n, func(i int) registry.Query {
		return registry.Query{ID: fmt.Sprintf("q_%04d", i), Endpoint: "city", Text: fmt.Sprintf("SELECT * { ?s <http://x/%d> \"\\\\\" }", i),
			Normal: fmt.Sprintf("SELECT * { ?s <http://x/%d> ?o }", i), Constants: []string{fmt.Sprintf("http://x/%d", i)}, CreatedAt: start,
			Holders: []registry.Holder{{Caller: "app", Name: fmt.Sprint("name ", i), Tags: []string{"t"}, Since: start, Pause: &registry.Pause{By: "app", At: start}}}}
	})
	since, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	err = d.update(func(tx *bbolt.Tx) error {
		for i := range n {
			s, err := findQuery(tx, fmt.Sprintf("q_%04d", i))
			if err != nil {
				return err
			}
			if i == 7 {
				id, endpoint := s.ID, s.Endpoint
				s.Query = fullQuery()
				s.ID, s.Endpoint, s.Holders = id, endpoint, []registry.Holder{{Caller: "app", Name: "name 7", Since: start}}
			}
			before[s.ID] = s.Query
			if s.body, err = json.Marshal(&s.Query); err != nil {
				return err
			}
			if err := s.save(tx); err != nil {
				return err
			}
		}
		if err := addHoldings(tx); err != nil { // one registration has another size
			return err
		}
		return tx.Bucket(bMeta).Put(kSchema, key8(7))
	})
	if err != nil {
		t.Fatal(err)
	}
	epoch := d.Epoch()
	for range 2 {
		d = reopen(t, d, dir, Options{})
		for id, want := range before {
			got, err := d.Queries.Query(id)
			if err != nil || cmp.Diff(want, got) != "" {
				t.Fatalf("%v %s", err, cmp.Diff(want, got))
			}
		}
		after, err := d.Ledger.Since("city", 0)
		if err != nil || len(after.Entries) != n || after.Revision != since.Revision || d.Epoch() != epoch {
			t.Fatalf("%d queries, revision %d (before %d), epoch %s (before %s), %v", len(after.Entries), after.Revision, since.Revision, d.Epoch(), epoch, err)
		}
		for _, f := range []registry.QueryFilter{{Text: "X/2499>"}, {Text: "name 2499"}} {
			if items, _, err := d.Catalog.List(f, "", 10); err != nil || len(items) != 1 || items[0].Query.ID != "q_2499" {
				t.Errorf("%+v finds %d queries, %v", f, len(items), err)
			}
		}
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		err = d.view(func(tx *bbolt.Tx) error {
			return tx.Bucket(bQueries).ForEach(func(id, v []byte) error {
				_, err := readRegistrationHead(v[queryHead:])
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A registration of an older file that cannot be read is set aside and reported. The other
// queries stay, and the query can be registered again.
func TestUnreadableRegistrationOfAnOlderFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	for _, id := range []string{"q_a", "q_b", "q_c"} {
		put(t, d, id, "city", registry.Holder{Caller: "app", Name: "name of " + id, Live: true, Since: start})
	}
	raw := `{"id":"q_b","text":`
	if err := d.update(func(tx *bbolt.Tx) error {
		for _, id := range []string{"q_a", "q_b", "q_c"} {
			s, err := findQuery(tx, id)
			if err != nil {
				return err
			}
			if s.body, err = json.Marshal(&s.Query); id == "q_b" {
				s.body = []byte(raw)
			}
			if err := errors.Join(err, s.save(tx)); err != nil {
				return err
			}
		}
		return tx.Bucket(bMeta).Put(kSchema, key8(7))
	}); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	d = reopen(t, d, dir, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if !strings.Contains(logged.String(), "query=q_b") || strings.Contains(logged.String(), "query=q_a") {
		t.Errorf("the log says\n%s", logged.String())
	}
	if news, err := d.Ledger.Since("city", 0); err != nil || len(news.Entries) != 2 {
		t.Errorf("%d queries, %v", len(news.Entries), err)
	}
	check(t, d)
	if err := d.view(func(tx *bbolt.Tx) error {
		if v := tx.Bucket(bUnreadable).Get([]byte("q_b")); !bytes.HasSuffix(v, []byte(raw)) {
			t.Errorf("set aside is %q", v)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	put(t, d, "q_b", "city", registry.Holder{Caller: "app"})
	logged.Reset()
	d = reopen(t, d, dir, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if logged.Len() > 0 {
		t.Errorf("a query that was registered again is reported\n%s", logged.String())
	}
	check(t, d)
}
