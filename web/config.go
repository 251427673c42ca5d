package web

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler/shadow"
)

// Limits bound requests. Zero means the default.
type Limits struct {
	Body     registry.Size // bytes of a request body, default 1 MiB
	BodyTime time.Duration // how long a client may take to send one, default 30 s
	Recheck  time.Duration // how often the token of a follower of events is checked again, default 25 s
	Tries    int           // trial runs at a time, default 4
}

const (
	defaultBody     = 1 << 20
	defaultBodyTime = 30 * time.Second
	defaultRecheck  = 25 * time.Second // as often as the token of a WebSocket is checked
	defaultTries    = 4
)

// Config is what the API is made of. Registry, Gate, Data, Loops.Daemon,
// Publishing.ChangeJSON and Site.PublicURL are required. Any other part may be
// left out: then its routes are absent, its event streams are answered with 406,
// or a default takes its place.
type Config struct {
	// Registry registers and edits queries, profiles and endpoints.
	Registry *registry.Registry
	// Gate lets callers in.
	Gate *TokenGate
	// Data reads the store.
	Data
	// Loops run the slots of the endpoints.
	Loops
	// Profiling reads profiles and their rounds.
	Profiling
	// Publishing writes changes for followers.
	Publishing
	// Protocols serve the protocols that have code of their own.
	Protocols
	// Outbox manages subscriptions and counts deliveries.
	Outbox
	// Pages serve every path that does not belong to the API.
	Pages Pages
	// Labels names what watches are about; the default asks through Loops.Daemon.
	Labels *watch.Labels
	// Check tries an endpoint that is not stored; without it the route is absent.
	Check func(context.Context, registry.Endpoint) (registry.Report, error)
	// Documents share the bodies of large answers; the default gives each answer its own.
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
	// Health reports whether the server can work; the default is always well.
	Health Health
	// Metrics count requests and slots.
	Metrics *Metrics
	// Logger takes the log; the default drops it.
	Logger *slog.Logger
	// Now is the clock; the default is time.Now.
	Now Clock
}

// Data is what the API reads of the store. All of it is required.
type Data struct {
	Queries Queries
	History History
	Backup  func(w io.Writer) (int64, error) // writes a copy of the store
}

// Loops are the running half. Only Daemon is required.
type Loops struct {
	Daemon Daemon
	Hints  Hints
	// ChangeFeeds says what change feeds tell; nil: no routes.
	ChangeFeeds ChangeFeeds
	// Shadows compares an endpoint's policy with those in its shadow, over what is recorded; nil: no routes.
	Shadows func(ctx context.Context, endpoint string) (shadow.Comparison, error)
	Merging Merging
	// Local reports whether the loop of an endpoint runs in this process. Metrics count only
	// those; nil means all.
	Local func(endpoint string) bool
}

// Profiling is what the API reads of profiles. The functions may be left out.
type Profiling struct {
	Profiles Profiles
	// NextRound returns when the schedule opens a profile's next round, zero if unknown.
	NextRound func(p registry.Profile) time.Time
	// Following counts the connections that follow a profile.
	Following func(profile string) int
}

// Publishing is how changes reach those who read them here. Only ChangeJSON is
// required.
type Publishing struct {
	Followers Followers
	Rechecks  Rechecks
	// Feed writes changes as Atom: those of a query, those of a watch in words, or those of all queries
	// without either. It reads the parameters archive, tag and endpoint; nil: no routes of feeds.
	Feed func(q *registry.Query, w *watch.Watch, names watch.Namer, params url.Values) (Feed, error)
	// ChangeJSON writes a change as the schema Change of openapi.yaml defines it.
	ChangeJSON func(registry.Change) ([]byte, error)
}

// Protocols are handlers that sign callers in themselves.
type Protocols struct {
	Live http.Handler // GET /v1/live
	SEPA http.Handler // GET /sepa/subscribe
	Hub  http.Handler // POST /v1/hub
}

// Outbox is what the API knows of subscriptions. The routes of subscriptions
// need both Subscriptions and Webhooks.
type Outbox struct {
	Subscriptions Subscriptions
	Webhooks      Webhooks
	Receivers     Receivers   // nil: no routes of receivers
	DeadLetters   DeadLetters // nil: no routes of dead letters
	// Deliveries counts deliveries, one entry for each way out; nil: no metrics of deliveries.
	Deliveries func() []Deliveries
	// AllSubscriptions goes through all subscriptions in any order.
	AllSubscriptions iter.Seq2[registry.Subscription, error]
	Rules            Rules // nil: no routes of alert rules
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
	if l.Body <= 0 {
		l.Body = defaultBody
	}
	if l.BodyTime <= 0 {
		l.BodyTime = defaultBodyTime
	}
	if l.Recheck <= 0 {
		l.Recheck = defaultRecheck
	}
	if l.Tries <= 0 {
		l.Tries = defaultTries
	}
}

// Complete sets what may be left out. It returns an error if anything else is missing.
func (c *Config) Complete() error {
	switch {
	case c.Registry == nil, c.Queries == nil, c.History == nil, c.Daemon == nil, c.Backup == nil, c.Gate == nil, c.ChangeJSON == nil:
		return errors.New("web: a part of the configuration is missing")
	}
	c.ShowHalted()
	if c.Documents == nil {
		c.Documents = Unshared{}
	}
	if c.Rechecks == nil {
		c.Rechecks = NoRechecks{}
	}
	c.Limits.complete()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Health == nil {
		c.Health = alwaysWell{}
	}
	if c.Labels == nil {
		c.Labels = NewLabels(c.Registry, c.Daemon, c.Now)
	}
	return nil
}
