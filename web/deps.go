// Package web serves the JSON API for applications and the pages for admins.
package web

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
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
	// Digests returns the digests of all queries in id order, or of those that contain a text. Lists of queries are
	// sorted, filtered and counted by them.
	Digests(text string) ([]registry.QueryDigest, error)
	// Recent reports the changes after an offset that were committed at or after since, without baselines, oldest
	// first. It returns the offset up to which it read. The zero Offset precedes all changes.
	Recent(after registry.Offset, since time.Time, f func(query string, at time.Time)) (registry.Offset, error)
}

// History reads results, changes and slots. Errors about past states are *registry.Problem or
// *registry.GapError if a state is not kept or never was.
type History interface {
	// After returns changes of one query that follow a position, oldest first.
	After(query string, p registry.Position, limit int) ([]registry.Change, error)
	// All returns changes of all queries that follow an offset, oldest first.
	All(o registry.Offset, limit int) ([]registry.Change, error)
	// Head is the offset of the newest change of all.
	Head() (registry.Offset, error)
	// Latest returns the newest change of a query, ErrNotFound when there is none.
	Latest(query string) (registry.Change, error)

	// Current returns a query's status, and its result if asked for.
	Current(query string, withResult bool) (registry.Status, *diff.Result, error)
	// Place finds a past state and its neighbours.
	Place(query string, m registry.Moment) (registry.Place, error)
	// StateAt returns the result at a position.
	StateAt(ctx context.Context, query string, at registry.Position) (*diff.Result, error)
	// Versions lists at most limit states after a seq, oldest first.
	Versions(query string, after uint64, limit int) ([]registry.Version, error)
	// Origins finds the changes that last added rows of a state, and the oldest version
	// that was examined. The zero Version is for a row that was there before.
	Origins(ctx context.Context, query string, at registry.Position, rows diff.Rows) (origins []registry.Version,
		oldest registry.Version, err error)

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
	// Trial executes a text once inside the endpoint's limits, charged to its
	// next slot, and stores nothing.
	Trial(ctx context.Context, q *registry.Query) (scheduler.Answer, error)
	// Explain reports the place of a query in the plan of its endpoint.
	Explain(endpoint, query string) (scheduler.Explanation, error)
	// Due predicts when queries of one endpoint run next, in the order of ids; zero
	// if unknown.
	Due(endpoint string, queries []string) ([]time.Time, error)
	// State reports how an endpoint's loop is doing.
	State(endpoint string) (scheduler.LoopState, error)
}

// ChangeFeeds says what change feeds tell about endpoints and results.
type ChangeFeeds interface {
	// Feeds lists the feeds that are defined or that endpoints use, by name.
	Feeds() ([]feed.Status, error)
	// Deltas takes the events of a message to a feed of the kind deltas. The queries are marked when it returns, and
	// that is stored.
	Deltas(name string, events []feed.Event) error
	// Proofs returns a function that says what is proved about a query, nil if its endpoint has no feed. It is for one answer.
	Proofs() func(q *registry.Query) (*feed.Proof, error)
}

// Merging describes how the queries of an endpoint are asked together.
type Merging interface {
	// Templates describes the templates of the endpoint's queries, those with most
	// queries first.
	Templates(endpoint string) ([]cohort.Snapshot, error)
	// Asked counts the requests of the endpoint since the start.
	Asked(endpoint string) (scheduler.Asked, error)
}

// Followers serves event streams. The caller's right to follow has been checked.
type Followers interface {
	// Changes follows one query.
	Changes(w http.ResponseWriter, r *http.Request, caller string, q registry.Query)
	// All follows all queries and sends the changes that keep admits.
	All(w http.ResponseWriter, r *http.Request, caller string, keep func(*registry.Change) bool)
	// ProfileCaptures follows the captures of one profile.
	ProfileCaptures(w http.ResponseWriter, r *http.Request, caller string, p registry.Profile)
	// Updates says when the results of queries move on from positions, without saying what changed.
	Updates(w http.ResponseWriter, r *http.Request, caller string, u registry.Updates)
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

// Cluster manages the nodes that share the data of this server.
type Cluster interface {
	// Status describes the cluster as this node sees it.
	Status() (registry.ClusterStatus, error)
	// Drain makes a node give away what it owns, until it is restarted. An unknown node is a
	// *registry.Problem.
	Drain(node string) error
	// Owner names the node that asks an endpoint, "" if none does now.
	Owner(endpoint string) string
}

// TokenStore keeps tokens.
type TokenStore interface {
	Tokens() ([]registry.Token, error)
	// Newest is like Tokens, and includes what other nodes of the cluster have written until now. A stranger has
	// shown no token yet, and may wait longer.
	Newest(stranger bool) ([]registry.Token, error)
	PutToken(t registry.Token) error // registry.ErrExists when the name is taken
	// DeleteToken removes a token, or returns registry.ErrNotFound. With keeps, it returns
	// registry.ErrLastToken for the last one that lasts, also if other nodes remove tokens at the
	// same time.
	DeleteToken(name string, keeps bool) error
}

// A Clock returns the current time.
type Clock func() time.Time

// A Feed is an Atom document.
type Feed struct {
	Body     []byte
	Type     string
	ETag     string
	Modified time.Time
	Self     string // path and query of its own URL
	Topic    bool   // the hub accepts subscriptions to it
}

// Documents share the bodies of responses, so that slow clients do not hold copies.
type Documents interface {
	// Open returns the document that write produces for a key, and what write says about
	// it. write may be called again; it must then write the same bytes or return an
	// error, which ends the transfer. The number of concurrent writes per class is
	// limited.
	Open(class, key string, write func(io.Writer) (about any, err error)) (d Document, about any, err error)
}

// A Document is the body of one response. WriteTo sends it in pieces at the reader's
// pace; Close releases it.
type Document interface {
	io.WriterTo
	Size() int
	Close()
}

// Profiles reads profiles with their progress and their rounds.
type Profiles interface {
	// ListProfiles returns a page in id order after cursor, at most limit, and
	// the next cursor, "" at the end.
	ListProfiles(f registry.ProfileFilter, cursor string, limit int) ([]registry.ListedProfile, string, error)
	// ProfileItem returns one profile; it wraps registry.ErrNotFound.
	ProfileItem(id string) (registry.ListedProfile, error)
	// Rounds returns at most limit of a profile's rounds below a number (0: all) with
	// a state ("": any), newest first. next is the number for the next page, 0 at the
	// end. A page may be shorter than limit before the end.
	Rounds(id string, state registry.RoundState, before uint64, limit int) (list []registry.Round, next uint64, err error)
	// Captured returns the captures after p, oldest first. The error is a
	// *registry.GapError if the log does not continue from p.
	Captured(id string, p registry.Position, limit int) ([]registry.RoundEnd, error)
}

// Subscriptions manages the subscriptions of all followers, by every protocol.
type Subscriptions interface {
	// Subscriptions returns at most limit subscriptions after an id, in id order.
	Subscriptions(after string, limit int) ([]registry.Subscription, error)
	// Subscription returns one subscription. It wraps registry.ErrNotFound.
	Subscription(id string) (registry.Subscription, error)
	// Act performs a verb: pause, resume or drop.
	Act(id, verb string) (registry.Subscription, error)
}

// DeadLetters manages the messages that were given up, of all ways. The id "" of a letter means all
// of a subscription. Errors wrap registry.ErrNotFound if there is none.
type DeadLetters interface {
	Resend(subscription, letter string) (registry.Subscription, error)
	DropLetter(subscription, letter string) (registry.Subscription, error)
}

// Webhooks registers and edits webhooks. Errors that a client can correct are
// *registry.Problem.
type Webhooks interface {
	// Replay sends the missed changes of a webhook again.
	Replay(id string, r registry.Replay) (registry.Subscription, error)
	Create(c registry.Caller, r registry.WebhookRequest) (registry.Subscription, error)
	Update(c registry.Caller, id string, e registry.WebhookEdit) (registry.Subscription, error)
	// Rotate sets a new secret, a generated one for "". The old secret also signs
	// during the grace period.
	Rotate(id, secret string, grace time.Duration) (registry.Subscription, error)
}

// Receivers tells people the changes of queries, by services such as ntfy and Slack. Errors that a client can
// correct are *registry.Problem.
type Receivers interface {
	// Create tells a receiver the changes of a query from now on, or gives it other settings.
	Create(c registry.Caller, r registry.ReceiverRequest) (registry.Subscription, error)
	// Test sends a test message at once, and returns the kind of the service.
	Test(ctx context.Context, c registry.Caller, address string) (kind string, err error)
	// PushKey returns the key that browsers subscribe with to be told, "" if they cannot be told.
	PushKey() (string, error)
}

// Deliveries holds the counters of one delivery type since the start of the process.
type Deliveries struct {
	Way         registry.Way
	Kind        string // of receivers of alerts and of people, "" for all of the way
	Connections int64  // currently open; 0 for types without connections
	Delivered   uint64 // messages with changes or results: written, or taken by the callback
	Failed      uint64 // attempts rejected by a callback, connections closed because the reader was too slow
	Retried     uint64 // attempts after a failed one
	Dropped     uint64 // messages given up
}

// Pages serve the pages for people. A browser that is signed in there may also read the
// API, so links from the pages to results work.
type Pages interface {
	http.Handler
	// Token returns the token that the browser signed in with, "" if it did not.
	Token(r *http.Request) string
}

// Rules makes, tries and finds alert rules. Errors that a client can correct are
// *registry.Problem.
type Rules interface {
	// Rules returns at most limit rules after an id, in id order.
	Rules(after string, limit int) ([]registry.ListedRule, error)
	// Rule returns one rule by its id or by the caller's name for it, or for an admin by another
	// caller's; it wraps registry.ErrNotFound.
	Rule(c registry.Caller, ref string) (registry.ListedRule, error)
	// Alerts returns at most limit alerts of a rule after one, ordered by their ids, and only those in
	// a state unless it is "".
	Alerts(rule string, state registry.AlertState, after string, limit int) ([]registry.ListedAlert, error)
	// Totals sums up all rules.
	Totals() (registry.RuleTotals, error)
	// Try evaluates a rule over the history of its query and stores nothing.
	Try(ctx context.Context, c registry.Caller, r registry.RuleSettings) (registry.RuleTrial, error)

	Create(ctx context.Context, c registry.Caller, r registry.RuleSettings) (registry.ListedRule, error)
	// Replace gives the rule with an id other settings.
	Replace(ctx context.Context, c registry.Caller, id string, r registry.RuleSettings) (registry.ListedRule, error)
	// SetPaused pauses or resumes the rule with an id.
	SetPaused(ctx context.Context, id string, paused bool) (registry.ListedRule, error)
	// Remove deletes a rule by its id.
	Remove(id string) error
}
