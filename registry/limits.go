package registry

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of registration; 0 means none. Those of a token do not bind admins,
// who can lift them, nor callers on a server without tokens.
type Limits struct {
	Queries int // registered queries of all endpoints

	TokenQueries  int     // that one token holds
	TokenBytes    int64   // of these queries, as Query.Size counts them
	TokenProfiles int     // that one token owns
	TokenRate     float64 // registrations of one token, of queries and profiles, in a second
}

// burst is how many seconds of TokenRate a token may use at once, as an
// application does when it starts.
const burst = 20

// Holdings are what one caller holds.
type Holdings struct {
	Queries, Profiles int
	Bytes             int64 // sum of the queries' sizes
}

// Size is what a query takes of its holders' limits.token_bytes: its text, its
// normal form and its constants.
func (q *Query) Size() int64 {
	n := len(q.Text) + len(q.Normal)
	for _, c := range q.Constants {
		n += len(c)
	}
	return int64(n)
}

// bound reports whether the limits of a token hold for a caller.
func bound(c Caller) bool { return !c.Role.Includes(RoleAdmin) }

// paces limits how often each caller registers.
type paces struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter // by caller; there are no more than tokens
}

// pace takes one registration of the caller's rate.
func (r *Registry) pace(c Caller) error {
	if r.limits.TokenRate <= 0 || !bound(c) {
		return nil
	}
	r.paces.mu.Lock()
	defer r.paces.mu.Unlock()
	l := r.paces.limiters[c.Name]
	if l == nil {
		if r.paces.limiters == nil {
			r.paces.limiters = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Limit(r.limits.TokenRate), max(1, int(burst*r.limits.TokenRate)))
		r.paces.limiters[c.Name] = l
	}
	now := r.now()
	if l.AllowN(now, 1) {
		return nil
	}
	wait := (1 - l.TokensAt(now)) / r.limits.TokenRate
	return &Problem{Type: "rate", Status: 429, Title: titles["rate"], RetryAfter: time.Duration(math.Ceil(max(1, wait))) * time.Second,
		Detail: fmt.Sprintf("limits.token_rate lets a token register %v a second, and %v at once", r.limits.TokenRate, l.Burst())}
}

// admit reports why the caller may not hold a query. It holds for as long as
// nobody else is admitted.
func (r *Registry) admit(c Caller, fresh *Query) error {
	known, err := r.store.Query(fresh.ID)
	if _, holds := known.Holder(c.Name); err == nil && holds {
		return nil
	}
	if found := err == nil; !found && r.limits.Queries > 0 {
		n, err := r.store.CountQueries("")
		if err != nil {
			return err
		}
		if n >= r.limits.Queries {
			return &Problem{Type: "limit", Status: 429, Title: titles["limit"],
				Detail: "limits.queries are registered already: release some, or raise the limit"}
		}
	}
	if !bound(c) || r.limits.TokenQueries <= 0 && r.limits.TokenBytes <= 0 {
		return nil
	}
	h, err := r.store.Holdings(c.Name)
	if err != nil {
		return err
	}
	if most := r.limits.TokenQueries; most > 0 && h.Queries >= most {
		return overQuota("%s holds %d queries, as many as limits.token_queries allows", c.Name, h.Queries)
	}
	if most := r.limits.TokenBytes; most > 0 && h.Bytes+fresh.Size() > most {
		return overQuota("with this query of %d bytes (text, normal form and constants) the queries of %s would have %d bytes, and limits.token_bytes allows %d", fresh.Size(), c.Name, h.Bytes+fresh.Size(), most)
	}
	return nil
}

// admitProfile is admit for a profile.
func (r *Registry) admitProfile(c Caller, id string) error {
	if !bound(c) || r.limits.TokenProfiles <= 0 {
		return nil
	}
	if _, err := r.profiles.Profile(id); err == nil {
		return nil
	}
	h, err := r.store.Holdings(c.Name)
	if err == nil && h.Profiles >= r.limits.TokenProfiles {
		return overQuota("%s has %d profiles, as many as limits.token_profiles allows", c.Name, h.Profiles)
	}
	return err
}

func overQuota(format string, a ...any) *Problem {
	return &Problem{Type: "quota", Status: 403, Title: titles["quota"],
		Detail: fmt.Sprintf(format, a...) + ": release some, or let the operator raise the limit"}
}
