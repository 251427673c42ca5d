package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	if _, err := d.Profiles.EditProfile("p_a", registry.Bounds{}, func(p *registry.Profile, _ bool) error {
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

// The bounds of profiles hold on all nodes together, also for profiles that are made at the same
// time at several nodes.
func TestProfilesWithin(t *testing.T) {
	const most, each = 5, 6
	c := newCluster(t, 1, 3)
	add := func(d *DB, owner, id string, b registry.Bounds) error {
		_, err := d.Profiles.EditProfile(id, b, func(p *registry.Profile, _ bool) error {
			*p = registry.Profile{ID: id, Endpoint: "e", Owner: owner, Name: p.Name + "x", Items: []registry.Item{{Query: "q", When: registry.When{Changed: "q",
				Where: []registry.Condition{{Var: "12345678", Op: "=", Value: "12"}}}}}}
			return nil
		})
		return err
	}
	size := (&registry.Profile{Items: []registry.Item{{When: registry.When{Where: []registry.Condition{{Var: "12345678", Op: "=", Value: "12"}}}}}}).Size()
	if size == 0 {
		t.Fatal("the profiles have no size")
	}
	refused := func(err error, setting string) bool {
		p, ok := errors.AsType[*registry.Problem](err)
		return ok && p.Kind == registry.KindQuota && strings.Contains(p.Detail, setting)
	}
	for setting, bounds := range map[string]registry.Bounds{"limits.token_profiles": {TokenProfiles: most}, "limits.token_bytes": {TokenBytes: most*size + 1}} {
		bounds.Caller = setting
		var made atomic.Int64
		var group sync.WaitGroup
		for i, d := range c.stores {
			for n := range each {
				group.Go(func() {
					switch err := add(d, setting, fmt.Sprint("p_", setting, i, n), bounds); {
					case err == nil:
						made.Add(1)
					case !refused(err, setting):
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		settle(t, c.stores...)
		for _, d := range c.stores {
			h, err := d.Queries.Holdings(setting)
			if err != nil || made.Load() != most || h != (registry.Holdings{Profiles: most, Bytes: most * size}) {
				t.Errorf("%s: %d were made, %+v, %v", setting, made.Load(), h, err)
			}
		}
		list := map[string]bool{}
		c.must(c.stores[0].view(func(tx *bbolt.Tx) error {
			return eachProfile(tx, 0, "", func(n *storedProfile) (bool, error) { list[n.ID] = n.Owner == setting; return true, nil })
		}))
		for id, own := range list { // one that is there may be edited
			if own {
				c.must(add(c.stores[1], setting, id, bounds))
			}
		}
		c.must(add(c.stores[2], setting, "p_free"+setting, registry.Bounds{}))
	}
	settle(t, c.stores...)
	for _, d := range c.stores {
		expectSame(t, c.stores[0], d)
		check(t, d)
	}
}

// A profile that was decided on before another one was made is applied only within its bounds.
func TestProfileDecidedBefore(t *testing.T) {
	c := newCluster(t, 1, 2)
	var forms [2][]byte
	for i, d := range c.stores {
		c.must(d.view(func(tx *bbolt.Tx) error {
			e := &profileEdit{bounded: true, bounds: registry.Bounds{TokenProfiles: 1}}
			err := e.prepare(tx, fmt.Sprint("p_", i), func(p *registry.Profile, _ bool) error {
				p.Endpoint, p.Owner, p.Items = "e", "app", []registry.Item{{Query: "q"}}
				return nil
			})
			c.must(errors.Join(err, e.within(tx)))
			forms[i], err = encodeCommand(e)
			return err
		}))
	}
	_, err := c.stores[0].replica.submit(forms[0])
	c.must(err)
	if _, err := c.stores[1].replica.submit(forms[1]); err != errMoved {
		t.Fatalf("the second profile of one: %v", err)
	}
}
