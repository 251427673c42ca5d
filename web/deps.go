// Package web serves the JSON API for applications and the pages for admins.
package web

import (
	"context"
	"io"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// Queries finds registered queries with what is known of their results.
type Queries interface {
	// List returns a page in id order after cursor, at most limit, and the next
	// cursor, "" at the end. A page of long texts may be shorter.
	List(f registry.QueryFilter, cursor string, limit int) ([]registry.ListedQuery, string, error)
	// Item returns one query; it wraps registry.ErrNotFound.
	Item(id string) (registry.ListedQuery, error)
	// Stats returns what the scheduler recorded of one query.
	Stats(id string) (scheduler.Stats, error)
}

// History reads results, changes and slots.
type History interface {
	After(query string, p registry.Position, limit int) ([]registry.Change, error)
	All(o registry.Offset, limit int) ([]registry.Change, error)
	Current(query string, withResult bool) (registry.Status, *diff.Result, error)
	// Latest returns the newest change of a query, ErrNotFound when there is none.
	Latest(query string) (registry.Change, error)
	// Head is the offset of the newest change of all.
	Head() (registry.Offset, error)
	// Slots returns an endpoint's last slots, newest first.
	Slots(endpoint string, limit int) ([]scheduler.Slot, error)
}

// Daemon is the running half: the slot loops of all endpoints. Errors that a
// client can act on are *registry.Problem or wrap one of scheduler's; an endpoint
// or query that is not there wraps registry.ErrNotFound.
type Daemon interface {
	// Tick runs the endpoint's next slot now and returns its summary when it is
	// over and committed.
	Tick(ctx context.Context, endpoint string) (scheduler.Slot, error)
	// Explain reports the place of a query in the plan of its endpoint.
	Explain(endpoint, query string) (scheduler.Explanation, error)
	// Due predicts when queries of one endpoint run next, in the order asked; zero
	// if unknown.
	Due(endpoint string, queries []string) ([]time.Time, error)
	// State tells how an endpoint's loop is doing.
	State(endpoint string) (scheduler.LoopState, error)
	// Trial executes a text once inside the endpoint's limits, charged to its
	// next slot, and stores nothing.
	Trial(ctx context.Context, q *registry.Query) (scheduler.Answer, error)
}

// Store is the maintenance side of the store.
type Store interface {
	Backup(w io.Writer) (int64, error)
	Tokens() ([]registry.Token, error)
	PutToken(t registry.Token) error // registry.ErrExists when the name is taken
	DeleteToken(name string) error   // registry.ErrNotFound
}

// A Clock tells the time; tests hand in their own.
type Clock func() time.Time
