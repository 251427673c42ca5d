package registry

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Recent is a map that keeps at least the last mostRecent/2 keys that were used and at most twice as many. It drops
// the older half at once, which is cheap. The zero value is empty.
type Recent[K comparable, V any] struct{ young, old map[K]V }

const mostRecent = 10_000

// Get returns the value of a key.
func (r *Recent[K, V]) Get(k K) (V, bool) {
	v, ok := r.young[k]
	if !ok {
		if v, ok = r.old[k]; ok {
			r.Put(k, v)
		}
	}
	return v, ok
}

// Put sets the value of a key.
func (r *Recent[K, V]) Put(k K, v V) {
	if r.young == nil || len(r.young) >= mostRecent/2 {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[k] = v
}

// Rates limit how often something is done by key, such as the address of a client, as far as they are Recent.
type Rates struct {
	limit rate.Limit
	burst int

	mu  sync.Mutex
	all Recent[string, *rate.Limiter]
}

// NewRates returns limits of a number of events a second, after as many as burst at once.
func NewRates(limit rate.Limit, burst int) *Rates { return &Rates{limit: limit, burst: burst} }

// Of returns the limit of a key.
func (r *Rates) Of(key string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.all.Get(key)
	if !known {
		l = rate.NewLimiter(r.limit, r.burst)
		r.all.Put(key, l)
	}
	return l
}

// Allow counts an event of a key, and reports whether it is within the limit.
func (r *Rates) Allow(key string, now time.Time) bool { return r.Of(key).AllowN(now, 1) }
