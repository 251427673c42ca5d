package registry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound registration; 0 means no limit. The limits of a token do not
// apply to admins, who can change them, nor to callers on a server without
// tokens.
type Limits struct {
	Queries int // registered queries at all endpoints

	TokenQueries  int     // held by one token
	TokenBytes    int64   // total size held and owned by one token, see Query.Size and Profile.Size
	TokenProfiles int     // owned by one token
	TokenRate     float64 // registrations of queries and profiles by one token in a second
}

// burst is how many seconds' worth of TokenRate a token may use at once, as an
// application does when it starts.
const burst = 20

// Size is what a query counts towards its holders' limits.token_bytes: the
// length of its text, its normal form, its constants and the names of its
// graphs.
func (q *Query) Size() int64 {
	n := len(q.Text) + len(q.Normal)
	for _, list := range [][]string{q.Constants, q.DefaultGraphs, q.NamedGraphs} {
		for _, s := range list {
			n += len(s)
		}
	}
	return int64(n)
}

// Size is what a profile counts towards its owner's limits.token_bytes: the
// length of its conditions.
func (p *Profile) Size() (n int64) {
	for _, item := range p.Items {
		for _, c := range item.When.Where {
			text, _ := c.text()
			n += int64(len(c.Var) + len(text))
		}
	}
	return n
}

// isLimited reports whether the limits of a token apply to a caller.
func isLimited(c Caller) bool { return !c.Role.Includes(RoleAdmin) }

// admissions decides whether registrations are within the limits. It counts the queries that are
// admitted but not yet stored, so that several can be registered concurrently.
// Registrations that could together exceed a limit run one at a time.
type admissions struct {
	store  QueryStore
	limits Limits
	now    func() time.Time

	alone    sync.RWMutex // read-locked by registrations that are counted in pending
	mu       sync.Mutex   // guards what follows
	pending  map[string]Holdings
	limiters map[string]*rate.Limiter // by caller: at most one for each token
}

// limitRate takes one registration from the caller's rate.
func (a *admissions) limitRate(c Caller) error {
	if a.limits.TokenRate <= 0 || !isLimited(c) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.limiters[c.Name]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(a.limits.TokenRate), max(1, int(burst*a.limits.TokenRate)))
		a.limiters[c.Name] = l
	}
	now := a.now()
	if l.AllowN(now, 1) {
		return nil
	}
	wait := (1 - l.TokensAt(now)) / a.limits.TokenRate
	return &Problem{Kind: KindRate, RetryAfter: time.Duration(math.Ceil(max(1, wait))) * time.Second,
		Detail: fmt.Sprintf("limits.token_rate allows a token %v registrations a second, and %v at once", a.limits.TokenRate, l.Burst())}
}

// everyone is the key of pending for all callers together. No caller has this name.
const everyone = ""

// add adds to the caller's pending holdings. It returns the holdings that were
// pending before, for the caller and for all callers.
func (a *admissions) add(caller string, queries int, bytes int64) (own, all Holdings) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own, all = a.pending[caller], a.pending[everyone]
	for _, k := range []string{caller, everyone} {
		h := a.pending[k]
		h.Queries, h.Bytes = h.Queries+queries, h.Bytes+bytes
		if a.pending[k] = h; h == (Holdings{}) {
			delete(a.pending, k)
		}
	}
	return own, all
}

// admit returns a problem if the limits do not allow the caller to hold a query. It
// takes into account what the same transaction releases. The caller must call done
// once the query is stored.
func (a *admissions) admit(own takeover, c Caller, fresh *Query) (done func(), err error) {
	if a.unbounded(c) {
		return func() {}, nil
	}
	a.alone.RLock()
	mine, all := a.add(c.Name, 1, fresh.Size())
	done = func() {
		a.add(c.Name, -1, -fresh.Size())
		a.alone.RUnlock()
	}
	if err = a.fits(own, c, fresh, mine, all); err == nil {
		return done, nil
	}
	done()
	if p, ok := errors.AsType[*Problem](err); !ok || p.Kind != KindLimit && p.Kind != KindQuota {
		return nil, err
	}
	a.alone.Lock() // now nothing is pending
	if err := a.fits(own, c, fresh, Holdings{}, Holdings{}); err != nil {
		a.alone.Unlock()
		return nil, err
	}
	return a.alone.Unlock, nil
}

// unbounded reports whether no limit applies to the queries of a caller.
func (a *admissions) unbounded(c Caller) bool {
	b := a.bounds(c)
	return b.Queries <= 0 && b.TokenQueries <= 0 && b.TokenBytes <= 0
}

// fits is admit with the pending queries of the caller (mine) and of all callers.
func (a *admissions) fits(own takeover, c Caller, fresh *Query, mine, all Holdings) error {
	known, err := a.store.Query(fresh.ID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	found := err == nil
	if _, holds := known.Holder(c.Name); found && holds {
		return nil
	}
	if err := a.fitsTotal(own, found, all.Queries); err != nil || !isLimited(c) || a.limits.TokenQueries <= 0 && a.limits.TokenBytes <= 0 {
		return err
	}
	h, err := a.store.Holdings(c.Name)
	if err != nil {
		return err
	}
	h.Queries, h.Bytes = h.Queries+mine.Queries, h.Bytes+mine.Bytes
	freed, err := a.released(own)
	if err != nil {
		return err
	}
	for i := range freed {
		h.Queries, h.Bytes = h.Queries-1, h.Bytes-freed[i].Size()
	}
	if most := a.limits.TokenQueries; most > 0 && h.Queries >= most {
		return overQueries(c.Name, h.Queries)
	}
	if size, most := fresh.Size(), a.limits.TokenBytes; most > 0 && h.Bytes+size > most {
		return overQuota("with this query of %d bytes (text, normal form, constants and graphs) %s would hold %d bytes, and limits.token_bytes allows %d", size, c.Name, h.Bytes+size, most)
	}
	return nil
}

// fitsTotal is fits for the limit of all callers together.
func (a *admissions) fitsTotal(own takeover, found bool, pending int) error {
	if found || a.limits.Queries <= 0 {
		return nil
	}
	n, err := a.store.CountQueries("")
	if n += pending; err != nil || n < a.limits.Queries {
		return err
	}
	freed, err := a.released(own)
	if err != nil {
		return err
	}
	for i := range freed {
		if len(freed[i].Holders) == 1 { // deleted by its release
			n--
		}
	}
	if n < a.limits.Queries {
		return nil
	}
	return overLimit()
}

func overLimit() *Problem {
	return &Problem{Kind: KindLimit,
		Detail: "limits.queries are registered already: release some, or raise the limit"}
}

func overQueries(caller string, held int) *Problem {
	return overQuota("%s holds as many queries as limits.token_queries allows: %d", caller, held)
}

// bounds returns the limits that apply to a registration of a caller.
func (a *admissions) bounds(c Caller) Bounds {
	b := Bounds{Queries: a.limits.Queries, Caller: c.Name}
	if isLimited(c) {
		b.TokenQueries, b.TokenBytes = a.limits.TokenQueries, a.limits.TokenBytes
	}
	return b
}

// profileBounds returns the limits that apply to a new profile of a caller.
func (a *admissions) profileBounds(c Caller) Bounds {
	if !isLimited(c) || a.limits.TokenProfiles <= 0 && a.limits.TokenBytes <= 0 {
		return Bounds{}
	}
	return Bounds{Caller: c.Name, TokenProfiles: a.limits.TokenProfiles, TokenBytes: a.limits.TokenBytes}
}

// released lists the queries that the takeover releases.
func (a *admissions) released(own takeover) (list []Query, err error) {
	if own.replace && own.name != "" {
		if list, err = a.store.FindName(own.caller, own.name, false, math.MaxInt); err != nil {
			return nil, err
		}
	}
	if own.instead == "" || slices.ContainsFunc(list, func(q Query) bool { return q.ID == own.instead }) {
		return list, nil
	}
	q, err := a.store.Query(own.instead)
	if _, holds := q.Holder(own.caller); err == nil && holds {
		list = append(list, q)
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return list, err
}

func overQuota(format string, a ...any) *Problem {
	return &Problem{Kind: KindQuota,
		Detail: fmt.Sprintf(format, a...) + ": release some, or ask the operator to raise the limit"}
}
