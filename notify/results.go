package notify

import (
	"hash/maphash"
	"sync"
	"weak"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// results lets readers of the same result share one copy while any of them
// uses it, so that a thousand slow snapshots of a query hold one result. It
// keeps nothing alive by itself.
type results struct {
	log Log

	seed    maphash.Seed
	loading [16]sync.Mutex // by query: a reader that finds nothing to share reads alone

	mu      sync.Mutex
	shared  map[string]sharedResult
	sweepAt int // number of entries at which dead ones are looked for
}

func newResults(log Log) *results { return &results{log: log, seed: maphash.MakeSeed()} }

type sharedResult struct {
	at     registry.Position
	result weak.Pointer[diff.Result]
}

// sweepAbove is the least of sweepAt. It is twice what a sweep has left, so that
// entries cost the same however many there are.
const sweepAbove = 256

// current returns a query's status and last complete result, nil before the
// first, both of one moment.
func (r *results) current(query string) (registry.Status, *diff.Result, error) {
	if st, res, err := r.have(query); err != nil || res != nil {
		return st, res, err
	}
	alone := &r.loading[maphash.String(r.seed, query)%uint64(len(r.loading))]
	alone.Lock()
	defer alone.Unlock()
	if st, res, err := r.have(query); err != nil || res != nil { // another has read it meanwhile
		return st, res, err
	}
	st, res, err := r.log.Current(query, true)
	if err == nil && res != nil {
		r.share(query, sharedResult{st.Position, weak.Make(res)})
	}
	return st, res, err
}

// have returns a query's status, and the result at that moment if it is in use.
func (r *results) have(query string) (registry.Status, *diff.Result, error) {
	st, _, err := r.log.Current(query, false)
	if err != nil {
		return st, nil, err
	}
	r.mu.Lock()
	e, ok := r.shared[query]
	r.mu.Unlock()
	if !ok || e.at != st.Position {
		return st, nil, nil
	}
	return st, e.result.Value(), nil
}

func (r *results) share(query string, e sharedResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.shared) >= max(sweepAbove, r.sweepAt) {
		for q, old := range r.shared {
			if old.result.Value() == nil {
				delete(r.shared, q)
			}
		}
		r.sweepAt = 2 * len(r.shared)
	}
	if r.shared == nil {
		r.shared = make(map[string]sharedResult)
	}
	r.shared[query] = e
}
