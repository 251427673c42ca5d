// Tests of registries of several nodes that share a journal.

package registry_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/registrytest"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal/memory"
)

// TestLimitsAmongNodes registers a query at each of two nodes. Both find room for one more
// query, and then both edits begin. One registration is refused.
func TestLimitsAmongNodes(t *testing.T) {
	for name, x := range map[string]struct {
		limits registry.Limits
		want   registry.Kind
	}{
		"all queries":         {registry.Limits{Queries: 1}, registry.KindLimit},
		"queries of a token":  {registry.Limits{TokenQueries: 1}, registry.KindQuota},
		"bytes of a token":    {registry.Limits{TokenBytes: 2 * 50}, registry.KindQuota},
		"room for both":       {registry.Limits{Queries: 2, TokenQueries: 2}, ""},
		"nothing is bounded":  {registry.Limits{}, ""},
		"a bound of more":     {registry.Limits{Queries: 20, TokenQueries: 20, TokenBytes: 1 << 20}, ""},
		"the same limit both": {registry.Limits{Queries: 1, TokenQueries: 1}, registry.KindLimit},
	} {
		t.Run(name, func(t *testing.T) {
			log := memory.New("test")
			barrier := &barrierStore{all: make(chan struct{})}
			barrier.left.Store(2)
			var nodes []*registry.Registry
			for i := range 2 {
				j := log.Open()
				db, err := store.Open(t.TempDir(), store.Options{Journal: j})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := db.Close(); err != nil {
						t.Error(err)
					}
					j.Close()
				})
				r, err := registry.Open(registry.Config{Queries: atOnce{db.Queries, barrier}, Endpoints: db.Endpoints, Limits: x.limits})
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					if err := r.ApplyFile([]registry.Endpoint{{Name: "city", URL: "http://127.0.0.1:3030/sparql"}}, nil); err != nil {
						t.Fatal(err)
					}
				}
				nodes = append(nodes, r)
			}
			if q, err := nodes[0].Analyse(ask(0)); err != nil || x.limits.TokenBytes == 100 && (q.Size() > 100 || 2*q.Size() <= 100) {
				t.Fatalf("a query of %d bytes does not fit the test: %v", q.Size(), err)
			}
			var refused [2]error
			var all sync.WaitGroup
			for i, r := range nodes {
				all.Go(func() { _, _, refused[i] = r.Register(alice, ask(i)) })
			}
			all.Wait()
			n := 0
			for _, err := range refused {
				var p *registry.Problem
				if errors.As(err, &p) && p.Kind == x.want {
					n++
				} else if err != nil {
					t.Error(err)
				}
			}
			if (n == 1) != (x.want != "") {
				t.Errorf("%d of two registrations were refused", n)
			}
		})
	}
}

// TestLiveHoldsAmongNodes follows a query at two nodes. A node that starts leaves the live holds of
// nodes that live alone, and begins the grace of its own; a sweep begins that of a node that is gone.
func TestLiveHoldsAmongNodes(t *testing.T) {
	r := newRig(t, registry.Limits{})
	gone := map[string]bool{}
	start := func(node string) *registry.Registry {
		t.Helper()
		c := r.conf
		c.Node, c.Lives = node, func(node string) bool { return !gone[node] }
		x, err := registry.Open(registrytest.Twice(c))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	expect := func(what, node string, ends bool) {
		t.Helper()
		holds, err := r.store.Queries.LiveHolds()
		if err != nil || len(holds) != 1 || holds[0].Node != node || (holds[0].ReleaseAt != nil) != ends {
			t.Fatalf("%s: the holds are %+v, %v; want one of %s, ends: %t", what, holds, err, node, ends)
		}
	}
	sweep := func(x *registry.Registry) {
		t.Helper()
		if err := x.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(x *registry.Registry) func() {
		t.Helper()
		_, end, err := x.Follow(t.Context(), alice, "city", asks(0))
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	n1 := start("n1")
	follow(n1)
	expect("a follower of n1", "n1", false)
	n2 := start("n2")
	sweep(n2)
	expect("n2 starts", "n1", false)
	gone["n1"] = true
	sweep(n2)
	expect("n1 is gone", "n1", true)
	gone["n1"] = false
	sweep(n1)
	expect("n1 is back with its follower", "n1", false)
	end := follow(n2)
	expect("the caller also follows at n2", "n2", false)
	end()
	expect("and no longer", "n2", true)
	sweep(n1)
	expect("n1 takes the hold", "n1", false)
	start("n1")
	expect("n1 starts again, without its follower", "n1", true)
}

// atOnce is a store whose edits begin together with those of another one.
type atOnce struct {
	registry.QueryStore
	barrier *barrierStore
}

func (s atOnce) EditQueries(n registry.Names, edit func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	if err := s.barrier.wait(); err != nil {
		return registry.Query{}, err
	}
	return s.QueryStore.EditQueries(n, edit)
}
