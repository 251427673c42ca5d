package web

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds on wrong tokens. A made token has 256 bits and needs none of this; the
// bounds are for secrets that people thought up.
const (
	guessRate     = rate.Limit(5) // wrong tokens a second from one address,
	guessBurst    = 100           // after as many at once
	mostAddresses = 10_000        // that are remembered
)

// guesses bounds the wrong tokens of each address. An address that has sent too
// many is not answered about further ones. Tokens that it was right with before
// are exempt, so that a guesser does not lock out those who share its address,
// as behind a proxy. The zero value is ready for use.
type guesses struct {
	mu    sync.Mutex
	wrong recent[string, *rate.Limiter]
	right recent[proof, struct{}]
}

// A proof is a token, by its hash, that was right from an address.
type proof struct{ from, digest string }

// admits reports whether a token from an address is looked at.
func (g *guesses) admits(p proof, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, _ := g.wrong.get(p.from)
	if l == nil || l.TokensAt(now) >= 1 {
		return true
	}
	_, known := g.right.get(p)
	return known
}

// failed counts a wrong token.
func (g *guesses) failed(from string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.wrong.get(from)
	if !ok {
		l = rate.NewLimiter(guessRate, guessBurst)
		g.wrong.put(from, l)
	}
	l.AllowN(now, 1)
}

// succeeded remembers a right token of an address.
func (g *guesses) succeeded(p proof) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.right.get(p); !known {
		g.right.put(p, struct{}{})
	}
}

// A recent map remembers the last mostAddresses/2 keys that were asked for, and
// at most twice as many. The older half goes as a whole, which makes forgetting
// cheap.
type recent[K comparable, V any] struct{ young, old map[K]V }

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.young[k]
	if !ok {
		if v, ok = r.old[k]; ok {
			r.put(k, v)
		}
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if r.young == nil || len(r.young) >= mostAddresses/2 {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[k] = v
}

func (r *recent[K, V]) len() int { return len(r.young) + len(r.old) }
