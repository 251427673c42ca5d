package store

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// A file of schema 5 has no counts of what callers hold, and one of schema 6 counts neither
// graphs nor conditions. Opening the file computes them.
func TestHoldingsOfAnOlderFile(t *testing.T) {
	for schema, old := range map[uint64]func(tx *bbolt.Tx) error{
		5: func(tx *bbolt.Tx) error { return tx.DeleteBucket(bHoldings) },
		6: func(tx *bbolt.Tx) error {
			return tx.Bucket(bHoldings).Put(holdingsKey("app"), appendHoldings(registry.Holdings{Queries: 1}))
		},
	} {
		t.Run(fmt.Sprint(schema), func(t *testing.T) { holdingsOfOlder(t, schema, old) })
	}
}

func holdingsOfOlder(t *testing.T, schema uint64, old func(tx *bbolt.Tx) error) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	put(t, d, "q_a", "city", registry.Holder{Caller: "app", Since: start}, registry.Holder{Caller: "bot", Since: start})
	q := put(t, d, "q_b", "city", registry.Holder{Caller: "app", Since: start})
	if _, err := d.Profiles.EditProfile("p_a", func(p *registry.Profile, _ bool) error {
		p.Endpoint, p.Owner, p.Items = "city", "app", []registry.Item{{Query: "q_a"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.update(func(tx *bbolt.Tx) error {
		return errors.Join(old(tx), tx.Bucket(bMeta).Put(kSchema, key8(schema)))
	}); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d, dir, Options{})
	for caller, want := range map[string]registry.Holdings{
		"app": {Queries: 2, Bytes: 2 * q.Size(), Profiles: 1}, "bot": {Queries: 1, Bytes: q.Size()}, "none": {},
	} {
		if got, err := d.Queries.Holdings(caller); err != nil || got != want {
			t.Errorf("%s holds %+v, want %+v (%v)", caller, got, want, err)
		}
	}
	check(t, d)
}
