package registry_test

import (
	"errors"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A fullStore takes no edits while full is set.
type fullStore struct {
	registry.QueryStore
	full *bool
}

func (s fullStore) EditQueries(n registry.Names, edit func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	if *s.full {
		return registry.Query{}, registry.ErrReadOnly
	}
	return s.QueryStore.EditQueries(n, edit)
}

// A fullEndpoints stores no endpoint.
type fullEndpoints struct{ registry.EndpointStore }

func (fullEndpoints) EditEndpoint(string, func(*registry.Configured, bool) error) (registry.Endpoint, error) {
	return registry.Endpoint{}, registry.ErrReadOnly
}

// An endpoint of the file that could not be stored is not said to be unknown.
func TestEndpointThatCannotBeStored(t *testing.T) {
	r := newRig(t, registry.Limits{})
	file := []registry.Endpoint{{Name: "later", URL: "http://later.example/sparql"}}
	r.conf.Endpoints = fullEndpoints{r.store.Endpoints}
	r.reopen(t)
	if err := r.ApplyFile(file, nil); !errors.Is(err, registry.ErrReadOnly) {
		t.Fatal(err)
	}
	var p *registry.Problem
	if _, err := r.Find("later"); !errors.As(err, &p) || p.Kind != registry.KindUnavailable {
		t.Errorf("before it is stored: %v", err)
	}
	if _, err := r.Find("other"); !errors.As(err, &p) || p.Kind != registry.KindUnknownEndpoint {
		t.Errorf("another one: %v", err)
	}
	r.conf.Endpoints = r.store.Endpoints
	r.reopen(t)
	if err := r.ApplyFile(file, nil); err != nil {
		t.Fatal(err)
	}
	if e, err := r.Find("later"); err != nil || e.Name != "later" {
		t.Errorf("once it is stored: %v", err)
	}
	if err := r.DeleteEndpoint("later", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find("later"); !errors.As(err, &p) || p.Kind != registry.KindUnknownEndpoint {
		t.Errorf("once it is deleted: %v", err)
	}
}

// A cutStore does not know whether there are further queries, as a node without a majority, and
// waits before it says so.
type cutStore struct {
	registry.QueryStore
	waits *int
}

func (s cutStore) Query(string) (registry.Query, error) {
	*s.waits++
	return registry.Query{}, registry.ErrReadOnly
}

func (s cutStore) EditQueries(registry.Names, func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	*s.waits++
	return registry.Query{}, registry.ErrReadOnly
}

// A registration waits once for a store that cannot say what it has.
func TestRegistrationWithoutMajority(t *testing.T) {
	for _, l := range []registry.Limits{{}, {Queries: 10, TokenQueries: 5}} {
		r := newRig(t, l)
		waits := 0
		r.conf.Queries = cutStore{r.store.Queries, &waits}
		r.reopen(t)
		if _, _, err := r.Register(alice, ask(1)); !errors.Is(err, registry.ErrReadOnly) || waits != 1 {
			t.Errorf("with the limits %+v: %v, after %d waits", l, err, waits)
		}
	}
}

// The end of a live subscription that could not be stored is stored later, even
// after a restart. Otherwise its registration would never be released.
func TestLiveHoldsOfAReadOnlyStore(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newRig(t, registry.Limits{})
		full := false
		r.conf.Queries = fullStore{r.store.Queries, &full}
		r.reopen(t)
		q, unfollow, err := r.Follow(t.Context(), alice, "city", "ASK { ?s ?p 1 }")
		if err != nil {
			t.Fatal(err)
		}
		full = true
		unfollow()
		if restart {
			r.reopen(t)
		}
		full = false
		if err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
		got, err := r.Query(q.ID)
		if err != nil || got.Holders[0].ReleaseAt == nil || !got.Holders[0].ReleaseAt.Equal(r.now.Add(24*time.Hour)) {
			t.Errorf("restart %t: %+v, %v", restart, got.Holders, err)
		}
	}
}
