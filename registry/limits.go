package registry

import (
	"fmt"
	"math"
	"time"
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

// admissions knows the limits of registrations. Stores check the bounds in the transaction that adds to
// what they bound.
type admissions struct {
	limits Limits
	now    func() time.Time
	rates  *Rates // of callers
}

// limitRate takes one registration from the caller's rate.
func (a *admissions) limitRate(c Caller) error {
	if a.limits.TokenRate <= 0 || !isLimited(c) {
		return nil
	}
	l, now := a.rates.Of(c.Name), a.now()
	if l.AllowN(now, 1) {
		return nil
	}
	wait := (1 - l.TokensAt(now)) / a.limits.TokenRate
	return &Problem{Kind: KindRate, RetryAfter: time.Duration(math.Ceil(max(1, wait))) * time.Second,
		Detail: fmt.Sprintf("limits.token_rate allows a token %v registrations a second, and %v at once", a.limits.TokenRate, l.Burst())}
}

func overLimit() *Problem {
	return &Problem{Kind: KindLimit,
		Detail: "limits.queries are registered already: release some, or raise the limit"}
}

func overQueries(caller string, held int) *Problem {
	return overQuota("%s holds as many queries as limits.token_queries allows: %d", caller, held)
}

// bounds returns the limits that apply to a registration of a caller at an endpoint.
func (a *admissions) bounds(c Caller, endpoint string) Bounds {
	b := Bounds{Endpoint: endpoint, Queries: a.limits.Queries, Caller: c.Name}
	if isLimited(c) {
		b.TokenQueries, b.TokenBytes = a.limits.TokenQueries, a.limits.TokenBytes
	}
	return b
}

// profileBounds returns the limits that apply to a new profile of a caller at an endpoint.
func (a *admissions) profileBounds(c Caller, endpoint string) Bounds {
	if !isLimited(c) || a.limits.TokenProfiles <= 0 && a.limits.TokenBytes <= 0 {
		return Bounds{Endpoint: endpoint}
	}
	return Bounds{Endpoint: endpoint, Caller: c.Name, TokenProfiles: a.limits.TokenProfiles, TokenBytes: a.limits.TokenBytes}
}

func overQuota(format string, a ...any) *Problem {
	return &Problem{Kind: KindQuota,
		Detail: fmt.Sprintf(format, a...) + ": release some, or ask the operator to raise the limit"}
}
