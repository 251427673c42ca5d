package notify

import (
	"context"
	"errors"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A Log is the committed history of all queries.
type Log = cursor.Log

// A Registrar finds the queries that subscribers name, and registers those that they send.
type Registrar interface {
	// Resolve finds a query by id, by the caller's own name for it, or by any
	// holder's, and says registry.ErrNotFound otherwise.
	Resolve(caller registry.Caller, ref string) (registry.Query, error)
	// Follow registers a query for a live subscription and returns a function
	// that ends the hold: the registration is released 24 h after the last one.
	// An error that wraps ErrRefused says what the caller has to change, one
	// that wraps ErrLimit that there are too many; their texts are shown to the
	// caller. Any other error is logged, and the client is asked to try later.
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
	// Authenticate returns the caller that a token belongs to; an empty token is
	// Anonymous where the server asks for none. It wraps ErrUnauthorized, or
	// registry.ErrGuessing where too many wrong tokens came from the address
	// (registry.ClientAddress; "" for tokens that are checked once more).
	Authenticate(from, token string) (registry.Caller, error)
}

// Captures is the committed history of profiles. Methods may be called
// concurrently; what they return is the caller's. Errors wrap
// registry.ErrNotFound when there is no such profile (any more), and are a
// *registry.GapError where the log does not continue.
type Captures interface {
	// ProfileStatus returns the position of the newest capture, and the counts.
	ProfileStatus(profile string) (registry.ProfileStatus, error)
	// EndOf finds the place of a capture among the ends of its profile's rounds,
	// captured and expired; Seq 0 is before the first.
	EndOf(profile string, p registry.Position) (end uint64, err error)
	// Ends returns the ends that follow a place, oldest first, at most limit.
	Ends(profile, epoch string, end uint64, limit int) ([]registry.RoundEnd, error)
}
