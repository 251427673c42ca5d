package registry

import "time"

// A QueryStore stores queries. Its methods may be called concurrently.
// Each is one transaction, and the caller may modify what it returns.
type QueryStore interface {
	// Query returns one query. The error wraps ErrNotFound if there is none.
	Query(id string) (Query, error)
	// PublicQuery is Query for callers who may read public queries only, and does not find others.
	PublicQuery(id string) (Query, error)

	// EditQueries calls edit to change queries in one transaction. It may call edit again
	// with queries that have changed, so edit has no effect but on its arguments. q is the stored
	// query that n names; if found is false it has only its ID. others are the
	// other queries that n names. A query that edit leaves without Holders is
	// deleted with its results and history. An error of edit aborts the
	// transaction and is returned unchanged.
	EditQueries(n Names, edit func(q *Query, others []*Query, found bool) error) (Query, error)

	// FindName lists the queries to which the caller gave the name, oldest first and
	// at most most of them. If caller is "", the name of any holder counts. If public
	// is true, only public queries are listed, by the names of holders who made them public.
	FindName(caller, name string, public bool, most int) ([]Query, error)

	// LiveHolds lists the holds made by live subscriptions.
	LiveHolds() ([]LiveHold, error)
}

// An EndpointStore stores endpoints.
type EndpointStore interface {
	Endpoint(name string) (Endpoint, error)
	Endpoints() ([]Endpoint, error) // sorted by name

	// Configured returns an endpoint with the sources of its settings. The caller
	// may modify it.
	Configured(name string) (Configured, error)

	// EditEndpoint is EditQueries for endpoints. An endpoint that edit leaves
	// without a URL is deleted with its queries and everything that belongs to
	// them.
	EditEndpoint(name string, edit func(c *Configured, found bool) error) (Endpoint, error)
}

// Names says which queries an edit concerns.
type Names struct {
	Query string
	// The other queries are those that Caller calls Name, oldest first, and the
	// query Instead if Caller holds it. Query is never one of them.
	Caller, Name, Instead string
	// Bounds must hold after an edit that adds to what they bound.
	Bounds Bounds
}

// Bounds are the limits that apply to one registration; 0 means no limit.
type Bounds struct {
	Endpoint string // which must be stored, unless it is ""
	Queries  int    // at all endpoints

	Caller        string // whose holdings the others bound
	TokenQueries  int
	TokenBytes    int64
	TokenProfiles int // of the registration of a profile
}

// Check returns a problem if an edit adds more than the bounds allow to the queries of all
// callers, or to the holdings of the caller.
func (b *Bounds) Check(queriesBefore, queries int, before, after Holdings) error {
	switch {
	case b.Queries > 0 && queries > max(b.Queries, queriesBefore):
		return overLimit()
	case b.TokenQueries > 0 && after.Queries > max(b.TokenQueries, before.Queries):
		return overQueries(b.Caller, before.Queries)
	case b.TokenProfiles > 0 && after.Profiles > max(b.TokenProfiles, before.Profiles):
		return overQuota("%s has %d profiles, as many as limits.token_profiles allows", b.Caller, before.Profiles)
	case b.TokenBytes > 0 && after.Bytes > max(b.TokenBytes, before.Bytes):
		return overQuota("%s would hold %d bytes, and limits.token_bytes allows %d", b.Caller, after.Bytes, b.TokenBytes)
	}
	return nil
}

// A LiveHold is a hold made by a live subscription.
type LiveHold struct {
	Query, Caller string
	ReleaseAt     *time.Time // nil while connected
	Node          string     // see Holder
}

// Holdings are the number and size of what one caller holds.
type Holdings struct {
	Queries, Profiles int
	Bytes             int64 // sum of the sizes
}
