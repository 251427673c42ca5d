package registry

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates limit how often something is done by key, such as the address of a client. At least the last mostRates/2 keys
// that were used are remembered, and at most twice as many.
type Rates struct {
	limit rate.Limit
	burst int

	mu         sync.Mutex
	young, old map[string]*rate.Limiter
}

const mostRates = 10_000

// NewRates returns limits of a number of events a second, after as many as burst at once.
func NewRates(limit rate.Limit, burst int) *Rates { return &Rates{limit: limit, burst: burst} }

// Of returns the limit of a key.
func (r *Rates) Of(key string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.young[key]; l != nil {
		return l
	}
	l := r.old[key]
	if l == nil {
		l = rate.NewLimiter(r.limit, r.burst)
	}
	if r.young == nil || len(r.young) >= mostRates/2 {
		r.young, r.old = map[string]*rate.Limiter{}, r.young
	}
	r.young[key] = l
	return l
}

// Allow counts an event of a key, and reports whether it is within the limit.
func (r *Rates) Allow(key string, now time.Time) bool { return r.Of(key).AllowN(now, 1) }
