package web

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/registry"
)

// Limits on wrong tokens. Generated tokens have 256 bits and need none; the limits
// protect secrets chosen by people.
const (
	guessRate  = rate.Limit(5) // wrong tokens a second from one address,
	guessBurst = 100           // after as many at once
)

// guesses limits the wrong tokens of each address. After too many, further tokens from
// the address are not checked. Tokens that were valid from that address before are
// exempt, so that a guesser does not lock out others who share its address, as behind
// a proxy. The zero value is ready for use.
type guesses struct {
	mu    sync.Mutex
	wrong registry.Recent[string, *rate.Limiter]
	right registry.Recent[proof, struct{}]
	asked map[string]int // by address: tokens about which other nodes are asked now
}

// A proof is the hash of a token that was valid from an address.
type proof struct{ from, digest string }

// admits reports whether a token from an address is checked.
func (g *guesses) admits(p proof, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, _ := g.wrong.Get(p.from)
	if l == nil || l.TokensAt(now) >= 1 {
		return true
	}
	_, known := g.right.Get(p)
	return known
}

// ask reports whether other nodes may be asked about a token from an address. done is called after that.
func (g *guesses) ask(from string, now time.Time) (done func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := float64(guessBurst)
	if l, _ := g.wrong.Get(from); l != nil {
		left = l.TokensAt(now)
	}
	if left-float64(g.asked[from]) < 1 && from != "" {
		return nil, false
	}
	if g.asked == nil {
		g.asked = map[string]int{}
	}
	g.asked[from]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.asked[from]--; g.asked[from] == 0 {
			delete(g.asked, from)
		}
	}, true
}

// failed counts a wrong token.
func (g *guesses) failed(from string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.wrong.Get(from)
	if !ok {
		l = rate.NewLimiter(guessRate, guessBurst)
		g.wrong.Put(from, l)
	}
	l.AllowN(now, 1)
}

// succeeded records a valid token of an address.
func (g *guesses) succeeded(p proof) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.right.Get(p); !known {
		g.right.Put(p, struct{}{})
	}
}
