package web

import (
	"cmp"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/shadow"
)

// Limits bound requests. Zero means the default.
type Limits struct {
	Body     registry.Size // bytes of a request body, default 1 MiB
	BodyTime time.Duration // how long a client may take to send one, default 30 s
	Recheck  time.Duration // how often the token of a follower of events is checked again, default 25 s
	Tries    int           // trial runs at a time, default 4
}

const defaultTries = 4

// Config is what the API is made of. All of it is required, but what says that it may be left out.
type Config struct {
	// Registry registers and edits queries, profiles and endpoints.
	Registry *registry.Registry
	// Gate lets callers in.
	Gate *TokenGate

	// What is read of the store.
	Queries Queries
	History History
	Backup  func(w io.Writer) (int64, error) // writes a copy of the store

	// The loops that run the slots of the endpoints.
	Daemon      Daemon
	ChangeFeeds ChangeFeeds
	Merging     Merging
	// Hint marks the queries that a hint says may be affected by what changed at an endpoint.
	Hint func(endpoint string, h registry.Hint) (plan.Hinted, error)
	// Shadows compares an endpoint's policy with those in its shadow, over what is recorded.
	Shadows func(ctx context.Context, endpoint string) (shadow.Comparison, error)
	// Local reports whether the loop of an endpoint runs in this process. Metrics count only those.
	Local func(endpoint string) bool

	Profiles Profiles
	// NextRound returns when the schedule opens a profile's next round, zero if unknown.
	NextRound func(p registry.Profile) time.Time
	// Following counts the connections that follow a profile.
	Following func(profile string) int

	// How changes reach those who read them here.
	Followers Followers
	// Rechecked returns a channel that is closed when the tokens of followers have to be checked again. They are also
	// checked every Limits.Recheck.
	Rechecked func() <-chan struct{}
	// Feed writes changes as Atom: those of a query, those of a watch in words, or those of all queries
	// without either. It reads the parameters archive, tag and endpoint.
	Feed func(q *registry.Query, w *watch.Watch, names watch.Namer, params url.Values) (Feed, error)
	// ChangeJSON writes a change as the schema Change of openapi.yaml defines it.
	ChangeJSON func(registry.Change) ([]byte, error)

	// Protocols that sign callers in themselves. Each may be left out.
	Live http.Handler // GET /v1/live
	SEPA http.Handler // GET /sepa/subscribe
	Hub  http.Handler // POST /v1/hub

	Subscriptions Subscriptions
	Webhooks      Webhooks
	Receivers     Receivers
	DeadLetters   DeadLetters
	// Deliveries counts deliveries, one entry for each way out.
	Deliveries func() []Deliveries
	// AllSubscriptions goes through all subscriptions in any order.
	AllSubscriptions iter.Seq2[registry.Subscription, error]
	// Quiet returns when the settings of a receiver let a message go about what has waited since a time: later
	// than now, or since when they did.
	Quiet func(s *registry.Subscription, since, now time.Time) time.Time
	Rules Rules

	// Pages serve every path that does not belong to the API; they may be left out.
	Pages Pages
	// Labels names what watches are about.
	Labels *watch.Labels
	// Check tries an endpoint that is not stored.
	Check func(context.Context, registry.Endpoint) (registry.Report, error)
	// Documents share the bodies of large answers.
	Documents Documents
	// Site describes the server as clients see it.
	Site
	// Limits bound what one client may use.
	Limits Limits
	// CatchUp, of a node of a cluster, waits until the node knows everything that the others have stored, or
	// says why it does not; nil: there are no others.
	CatchUp func() error
	// Cluster manages the nodes of which this server is one; without it the routes are absent.
	Cluster Cluster
	// Health reports whether the server can work.
	Health Health
	// Metrics count requests and slots; they may be left out.
	Metrics *Metrics
	Logger  *slog.Logger
	Now     Clock
}

// Site describes the server as clients see it.
type Site struct {
	PublicURL string   // absolute; links are built from it
	Listen    string   // host:port; its host is accepted in the header Host
	NodeURL   string   // where other nodes reach this one, if not at PublicURL; its host is accepted, too
	Origins   []string // origins of other sites whose browsers are let in
	Insecure  bool     // without tokens, accept requests that a proxy forwarded
	Version   string   // of the program
}

func (l *Limits) complete() {
	l.Body = cmp.Or(max(l.Body, 0), 1<<20)
	l.BodyTime = cmp.Or(max(l.BodyTime, 0), 30*time.Second)
	l.Recheck = cmp.Or(max(l.Recheck, 0), 25*time.Second) // as often as the token of a WebSocket is checked
	l.Tries = cmp.Or(max(l.Tries, 0), defaultTries)
}

// Complete sets the limits that are left out, and makes states show which endpoints fail or run no slot.
func (c *Config) Complete() {
	c.Limits.complete()
	c.Queries = haltedQueries{c.Queries, Halts{c.Registry, c.Daemon}}
	c.Daemon = haltedDaemon{c.Daemon}
}
