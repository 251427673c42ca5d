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

// The bounds of profiles hold on all nodes together, also for profiles that are made at the same
// time at several nodes.
func TestProfilesWithin(t *testing.T) {
	const most, each = 5, 6
	c := newCluster(t, 1, 3)
	add := func(d *DB, owner, id string, b registry.Bounds) error {
		_, err := d.Profiles.EditProfile(id, b, func(p *registry.Profile, _ bool) error {
			*p = registry.Profile{ID: id, Endpoint: "e", Owner: owner, Name: p.Name + "x",
				Items: []registry.Item{{Query: "q", When: registry.When{Changed: "q",
					Where: []registry.Condition{{Var: "12345678", Op: "=", Value: "12"}}}}}}
			return nil
		})
		return err
	}
	size := (&registry.Profile{Items: []registry.Item{{When: registry.When{Where: []registry.Condition{{Var: "12345678", Op: "=",
		Value: "12"}}}}}}).Size()
	if size == 0 {
		t.Fatal("the profiles have no size")
	}
	refused := func(err error, setting string) bool {
		p, ok := errors.AsType[*registry.Problem](err)
		return ok && p.Kind == registry.KindQuota && strings.Contains(p.Detail, setting)
	}
	for setting, bounds := range map[string]registry.Bounds{"limits.token_profiles": {TokenProfiles: most},
		"limits.token_bytes": {TokenBytes: most*size + 1}} {
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
			e := &profileEdit{ID: fmt.Sprint("p_", i), Bounds: registry.Bounds{TokenProfiles: 1}}
			err := e.prepare(tx, func(p *registry.Profile, _ bool) error {
				p.Endpoint, p.Owner, p.Items = "e", "app", []registry.Item{{Query: "q"}}
				return nil
			})
			c.must(errors.Join(err, e.within(tx)))
			forms[i], err = encodeCommand(e)
			return err
		}))
	}
	_, err := c.stores[0].replica.Submit(forms[0])
	c.must(err)
	if _, err := c.stores[1].replica.Submit(forms[1]); err != errMoved {
		t.Fatalf("the second profile of one: %v", err)
	}
}

// What was decided on before another node removed its endpoint is not applied, and makes no endpoint.
func TestRegisteredAtRemovedEndpoint(t *testing.T) {
	c := newCluster(t, 1, 2)
	edit := func(url string) {
		t.Helper()
		_, err := c.stores[0].Endpoints.EditEndpoint("e", func(x *registry.Configured, _ bool) error {
			x.Endpoint.URL = url
			return nil
		})
		c.must(err)
	}
	edit("http://127.0.0.1/sparql")
	settle(t, c.stores...)
	q := &queryEdit{Names: registry.Names{Query: "q", Bounds: registry.Bounds{Endpoint: "e"}},
		edit: func(q *registry.Query, _ []*registry.Query, _ bool) error {
			q.Endpoint, q.Form, q.Holders = "e", "ASK", []registry.Holder{{Caller: "app", Since: start}}
			return nil
		}}
	p := &profileEdit{ID: "p", Bounds: registry.Bounds{Endpoint: "e"}}
	var forms [2][]byte
	c.must(c.stores[1].view(func(tx *bbolt.Tx) (err error) {
		c.must(errors.Join(q.prepare(tx, c.stores[1].disk.room), q.within(newTotals(tx))))
		c.must(p.prepare(tx, func(p *registry.Profile, _ bool) error {
			p.Endpoint, p.Owner, p.Items = "e", "app", []registry.Item{{Query: "q"}}
			return nil
		}))
		c.must(p.within(tx))
		var err2 error
		forms[0], err = encodeCommand(q)
		forms[1], err2 = encodeCommand(p)
		return errors.Join(err, err2)
	}))
	edit("")
	for i, form := range forms {
		if _, err := c.stores[1].replica.Submit(form); err != errMoved {
			t.Errorf("command %d: %v", i, err)
		}
	}
	settle(t, c.stores...)
	for _, d := range c.stores {
		c.must(d.view(func(tx *bbolt.Tx) error {
			if _, there := findSpace(tx, "e"); there {
				t.Error("the removed endpoint has entries")
			}
			return nil
		}))
		check(t, d)
	}
}
