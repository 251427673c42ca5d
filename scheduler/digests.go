package scheduler

import (
	"maps"
	"sync"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/merge"
)

// digests holds the digests of results.
type digests struct {
	mu      sync.Mutex
	byQuery map[string]digested
}

// digested is the digest of the result with a hash.
type digested struct {
	hash   string
	digest merge.Digest
	ok     bool
}

const maxDigests = 1 << 20

// drop forgets the digests of queries that were removed, and those of queries that are
// not in held if that is not nil.
func (t *digests) drop(removed []string, held map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, query := range removed {
		delete(t.byQuery, query)
	}
	if held != nil {
		maps.DeleteFunc(t.byQuery, func(query string, _ digested) bool { return !held[query] })
	}
}

// of computes what a probe returns if a result is still the one with the hash.
func (t *digests) of(x *merge.Template, query, hash string, result func() (*diff.Result, error)) (merge.Digest, bool, error) {
	t.mu.Lock()
	d, found := t.byQuery[query]
	t.mu.Unlock()
	if found && d.hash == hash {
		return d.digest, d.ok, nil
	}
	r, err := result()
	if err != nil || r == nil { // removed meanwhile
		return merge.Digest{}, false, err
	}
	d = digested{hash: hash}
	d.digest, d.ok = x.Digest(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byQuery == nil || len(t.byQuery) >= maxDigests {
		t.byQuery = map[string]digested{}
	}
	t.byQuery[query] = d
	return d.digest, d.ok, nil
}
