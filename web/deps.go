// Package web serves the JSON API for applications and the pages for admins.
package web

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/shadow"
)

// Queries finds registered queries with what is known of their results.
type Queries interface {
	// List returns a page in id order after cursor, at most limit, and the next
	// cursor, "" at the end. A page of long texts may be shorter.
	List(f registry.QueryFilter, cursor string, limit int) ([]registry.ListedQuery, string, error)
	// Item returns one query; it wraps registry.ErrNotFound.
	Item(id string) (registry.ListedQuery, error)
	// Stats returns what the scheduler recorded of one query.
	Stats(id string) (policy.Stats, error)
}

// History reads results, changes and slots.
type History interface {
	ChangeLog
	Results
	// Slots returns an endpoint's last slots, newest first.
	Slots(endpoint string, limit int) ([]scheduler.Slot, error)
}

// ChangeLog reads the log of changes.
type ChangeLog interface {
	// After returns changes of one query that follow a position, oldest first.
	After(query string, p registry.Position, limit int) ([]registry.Change, error)
	// All returns changes of all queries that follow an offset, oldest first.
	All(o registry.Offset, limit int) ([]registry.Change, error)
	// Head is the offset of the newest change of all.
	Head() (registry.Offset, error)
}

// Results reads where queries are now.
type Results interface {
	// Current returns a query's status, and its result if asked for.
	Current(query string, withResult bool) (registry.Status, *diff.Result, error)
	// Latest returns the newest change of a query, ErrNotFound when there is none.
	Latest(query string) (registry.Change, error)
}

// Daemon is the running half: the slot loops of all endpoints. Errors that a
// client can act on are *registry.Problem or wrap one of scheduler's; an endpoint
// or query that is not there wraps registry.ErrNotFound.
type Daemon interface {
	Executor
	Planner
}

// Executor executes queries within the limits of their endpoint.
type Executor interface {
	// Tick runs the endpoint's next slot now and returns its summary when it is
	// over and committed.
	Tick(ctx context.Context, endpoint string) (scheduler.Slot, error)
	// Trial executes a text once inside the endpoint's limits, charged to its
	// next slot, and stores nothing.
	Trial(ctx context.Context, q *registry.Query) (scheduler.Answer, error)
}

// Planner shows what the loops do and plan.
type Planner interface {
	// Explain reports the place of a query in the plan of its endpoint.
	Explain(endpoint, query string) (scheduler.Explanation, error)
	// Due predicts when queries of one endpoint run next, in the order of ids; zero
	// if unknown.
	Due(endpoint string, queries []string) ([]time.Time, error)
	// State reports how an endpoint's loop is doing.
	State(endpoint string) (scheduler.LoopState, error)
}

// Hints takes hints about what changed at an endpoint.
type Hints interface {
	// Hint marks the queries that a hint says may be affected.
	Hint(endpoint string, h registry.Hint) (plan.Hinted, error)
}

// Shadows estimates what other policies would do.
type Shadows interface {
	// Compare compares an endpoint's policy with those in its shadow, over what is
	// recorded.
	Compare(ctx context.Context, endpoint string) (shadow.Comparison, error)
}

// RoundClock predicts the rounds of profiles.
type RoundClock interface {
	// NextRound returns when the schedule opens a profile's next round, zero if unknown.
	NextRound(p registry.Profile) time.Time
	// Following counts the connections that follow a profile.
	Following(profile string) int
}

// Followers serves event streams. The caller's right to follow has been checked.
type Followers interface {
	// Changes follows one query.
	Changes(w http.ResponseWriter, r *http.Request, caller string, q registry.Query)
	// All follows all queries and sends the changes that keep admits.
	All(w http.ResponseWriter, r *http.Request, caller string, keep func(*registry.Change) bool)
	// ProfileCaptures follows the captures of one profile.
	ProfileCaptures(w http.ResponseWriter, r *http.Request, caller string, p registry.Profile)
}

// Rechecks reports changes of tokens.
type Rechecks interface {
	// Rechecked returns a channel that is closed when the tokens of followers have to
	// be checked again. They are also checked every Limits.Recheck.
	Rechecked() <-chan struct{}
}

// NoRechecks never reports a change.
type NoRechecks struct{}

// Rechecked implements Rechecks.
func (NoRechecks) Rechecked() <-chan struct{} { return nil }

// Feeds writes changes as Atom.
type Feeds interface {
	// QueryFeed writes the changes of one query. It reads the parameter archive.
	QueryFeed(q *registry.Query, params url.Values) (Feed, error)
	// AllFeed writes all changes. It reads the parameters archive, tag and endpoint.
	AllFeed(params url.Values) (Feed, error)
}

// Health reports whether the server can work.
type Health interface {
	// Ready returns nil when the server is ready to serve.
	Ready() error
	// Starting counts the endpoints whose queries have not been read yet. They answer
	// no questions about what runs and when.
	Starting() int
	// Disk reports the state of the disk that holds the store.
	Disk() registry.Storage
}

// alwaysWell is the default Health.
type alwaysWell struct{}

func (alwaysWell) Ready() error           { return nil }
func (alwaysWell) Starting() int          { return 0 }
func (alwaysWell) Disk() registry.Storage { return registry.Storage{Free: -1} }

// Store is the maintenance side of the store.
type Store interface {
	TokenStore
	Backup(w io.Writer) (int64, error)
}

// TokenStore keeps tokens.
type TokenStore interface {
	Tokens() ([]registry.Token, error)
	PutToken(t registry.Token) error // registry.ErrExists when the name is taken
	DeleteToken(name string) error   // registry.ErrNotFound
}

// A Clock returns the current time.
type Clock func() time.Time
