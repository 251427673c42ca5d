package registry_test

import (
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
