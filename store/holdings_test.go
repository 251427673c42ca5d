package store

import (
	"errors"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// A file of schema 5 does not count what callers hold; opening it does.
func TestHoldingsOfAnOlderFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	put(t, d, "q_a", "city", registry.Holder{Caller: "app", Since: start}, registry.Holder{Caller: "bot", Since: start})
	q := put(t, d, "q_b", "city", registry.Holder{Caller: "app", Since: start})
	if _, err := d.EditProfile("p_a", func(p *registry.Profile, _ bool) error {
		p.Endpoint, p.Owner, p.Items = "city", "app", []registry.Item{{Query: "q_a"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket(bHoldings), tx.Bucket(bMeta).Put(kSchema, key8(5)))
	}); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d, dir, Options{})
	for caller, want := range map[string]registry.Holdings{
		"app": {Queries: 2, Bytes: 2 * q.Size(), Profiles: 1}, "bot": {Queries: 1, Bytes: q.Size()}, "none": {},
	} {
		if got, err := d.Holdings(caller); err != nil || got != want {
			t.Errorf("%s holds %+v, want %+v (%v)", caller, got, want, err)
		}
	}
	check(t, d)
}
