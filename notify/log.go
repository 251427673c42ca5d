// Package notify tells subscribers what changed. A subscriber is a cursor over
// the durable change log: the hub carries wake-ups and never data, so following
// live and resuming after a gap are one loop.
package notify

import (
	"context"
	"errors"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A Log is the committed history of all queries. Methods may be called
// concurrently; what they return is the caller's.
type Log interface {
	// After returns the changes of one query that follow p, oldest first, at
	// most limit of them and a few MiB, and none when p is the newest. The error
	// is a *registry.GapError when the log does not continue from p, and wraps
	// registry.ErrNotFound when nobody holds the query (any more).
	After(query string, p registry.Position, limit int) ([]registry.Change, error)

	// All returns the changes of all queries that follow o, oldest first, at
	// most limit of them, and a *registry.GapError when o's epoch is another or
	// the log has been trimmed beyond it. A zero Offset stands for the oldest
	// change kept.
	All(o registry.Offset, limit int) ([]registry.Change, error)

	// Current returns a query's status and, when withResult is true, its last
	// complete result (nil before the first), both of one moment.
	Current(query string, withResult bool) (registry.Status, *diff.Result, error)
}

// A Registrar resolves and registers what subscribers name.
type Registrar interface {
	// Resolve finds a query by id, by the caller's own name for it, or by any
	// holder's, and says registry.ErrNotFound otherwise.
	Resolve(caller registry.Caller, ref string) (registry.Query, error)
	// Follow registers a query for a live subscription and returns a function
	// that ends the hold: the registration is released 24 h after the last one.
	// An error that wraps ErrRefused says what the caller has to change, one
	// that wraps ErrLimit that there are too many; their texts are shown to the
	// caller. Any other error is logged, and the caller told to try later.
	Follow(ctx context.Context, caller registry.Caller, endpoint, sparql string) (registry.Query, func(), error)
}

// Errors that Registrar and Gate return, wrapped.
var (
	ErrUnauthorized = registry.ErrUnauthorized
	ErrRefused      = errors.New("refused")
	ErrLimit        = errors.New("too many")
)

// A Gate lets callers in.
type Gate interface {
	// Authenticate returns the caller that a token stands for; an empty token is
	// Anonymous where the server asks for none. It wraps ErrUnauthorized.
	Authenticate(token string) (registry.Caller, error)
}
