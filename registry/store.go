package registry

import "time"

// A Store keeps queries and endpoints. Methods may be called concurrently;
// each is one transaction, and what it returns is the caller's to keep.
type Store interface {
	// Query returns one query; it wraps ErrNotFound.
	Query(id string) (Query, error)

	// EditQuery lets edit change one query in one transaction. edit gets the
	// stored query, or one with only its ID set when found is false. A query that
	// edit leaves without Holders is deleted with its results and history. What
	// edit returns as an error undoes everything and is returned as it is.
	EditQuery(id string, edit func(q *Query, found bool) error) (Query, error)

	// FindName finds a query by the name that a caller gave it, or that any
	// holder gave it (the oldest registration first) when caller is "".
	FindName(caller, name string) (Query, error)

	// CountQueries counts an endpoint's queries, of all endpoints for "".
	CountQueries(endpoint string) (int, error)

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

	// EditEndpoint is EditQuery for endpoints. An endpoint left without URL is
	// deleted together with its queries and all that belongs to them.
	EditEndpoint(name string, edit func(c *Configured, found bool) error) (Endpoint, error)
}

// A LiveHold is a hold made by a live subscription.
type LiveHold struct {
	Query, Caller string
	ReleaseAt     *time.Time // nil while connected
}
