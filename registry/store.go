package registry

import "time"

// A Store keeps queries and endpoints. Methods may be called concurrently;
// each is one transaction, and what it returns is the caller's to keep.
type Store interface {
	// Query returns one query; it wraps ErrNotFound.
	Query(id string) (Query, error)

	// EditQueries lets edit change queries in one transaction. q is the stored query
	// that n names, or one with only its ID set when found is false; others are
	// those that n names besides. A query that edit leaves without Holders is
	// deleted with its results and history. What edit returns as an error undoes
	// everything and is returned as it is.
	EditQueries(n Names, edit func(q *Query, others []*Query, found bool) error) (Query, error)

	// FindName lists the queries that a caller gave a name, or that any holder did
	// when caller is "": at most some, the oldest first, and only public ones when
	// public is true.
	FindName(caller, name string, public bool, most int) ([]Query, error)

	// CountQueries counts an endpoint's queries, of all endpoints for "".
	CountQueries(endpoint string) (int, error)

	// Holdings are what a caller holds. What a deleted endpoint leaves may count
	// for a while yet.
	Holdings(caller string) (Holdings, error)

	// LiveHolds lists the holds made by live subscriptions.
	LiveHolds() ([]LiveHold, error)

	EndpointStore
}

// An EndpointStore keeps endpoints.
type EndpointStore interface {
	Endpoint(name string) (Endpoint, error)
	Endpoints() ([]Endpoint, error) // sorted by name

	// Configured is Endpoint with what says where the settings come from. The
	// caller may change what it holds.
	Configured(name string) (Configured, error)

	// EditEndpoint is EditQueries for endpoints. An endpoint left without URL is
	// deleted together with its queries and all that belongs to them.
	EditEndpoint(name string, edit func(c *Configured, found bool) error) (Endpoint, error)
}

// Names says which queries an edit is about.
type Names struct {
	Query string
	// The others are the queries that Caller calls Name, the oldest first, and the
	// query Instead, if Caller holds it; never Query.
	Caller, Name, Instead string
}

// A LiveHold is a hold made by a live subscription.
type LiveHold struct {
	Query, Caller string
	ReleaseAt     *time.Time // nil while connected
}
