package web

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/shadow"
)

// A Gate lets callers in. An empty token is registry.Anonymous with the role
// admin on a server that asks for no tokens; everywhere else, and for a token
// that is not valid (any more), the error wraps ErrUnauthorized. Wrong tokens
// are counted for the address that they come from (registry.ClientAddress, or ""
// for what is no guess); too many are answered with ErrGuessing. Any other
// error is the server's fault. *TokenGate is one.
type Gate interface {
	Authenticate(from, token string) (registry.Caller, error)
}

// Pages are the window for people. A browser that signed in there may read the
// API as well: links from the pages to results need no other way in.
type Pages interface {
	http.Handler
	// Token is what the browser signed in with, "" when it did not.
	Token(r *http.Request) string
}

// Limits of the API. Zero values stand for the defaults.
type Limits struct {
	Body     registry.Size // bytes of a request body, default 1 MiB
	BodyTime time.Duration // how long a client may take to send one, default 30 s
	Recheck  time.Duration // how often the token of a follower of events is checked again, default 25 s
}

const (
	defaultBody     = 1 << 20
	defaultBodyTime = 30 * time.Second
	defaultRecheck  = 25 * time.Second // as often as a WebSocket's token is looked at
)

// Config is what the API is made of. Only Live, SEPA, ChangesSSE, AllSSE,
// Rechecked, QueryFeed, AllFeed, Hint, Pages, Hub, Subscriptions, Webhooks, Standing, Deliveries, Documents, Ready,
// Metrics, Logger and Now may be left out; a part that is left out is answered with 404, 406 (the
// SSE forms) or its obvious default.
type Config struct {
	Registry *registry.Registry
	Queries  Queries
	History  History
	Daemon   Daemon
	Store    Store
	Gate     Gate

	// Live serves GET /v1/live. It signs callers in itself.
	Live http.Handler
	// SEPA serves GET /sepa/subscribe, and signs callers in itself, too.
	SEPA http.Handler
	// ChangesSSE follows one query. Whether the caller may has been settled.
	ChangesSSE func(w http.ResponseWriter, r *http.Request, caller string, query registry.Query)
	// AllSSE follows all queries, sending the changes that keep admits.
	AllSSE func(w http.ResponseWriter, r *http.Request, caller string, keep func(registry.Change) bool)
	// Rechecked is closed when the tokens have changed: the tokens of followers
	// are checked again then. Without it that happens every Limits.Recheck only.
	Rechecked func() <-chan struct{}
	// Profiles keeps what has come of profiles; without it there are no routes for
	// them. CapturesSSE follows one; NextRound tells when time opens its next
	// round, zero if unknown, and Following how many connections wait for it.
	Profiles    Profiles
	CapturesSSE func(w http.ResponseWriter, r *http.Request, caller string, p registry.Profile)
	NextRound   func(p registry.Profile) time.Time
	Following   func(profile string) int
	// QueryFeed and AllFeed write changes as Atom; parameters they know are
	// archive and, of all, tag and endpoint. Without them there are no feeds.
	QueryFeed func(q *registry.Query, params url.Values) (Feed, error)
	AllFeed   func(params url.Values) (Feed, error)
	// Hint marks the queries that a hint says may be affected. Without it the
	// call is not there.
	Hint func(endpoint string, h registry.Hint) (scheduler.Hinted, error)
	// Shadows compares an endpoint's policy with those in its shadow, over what is
	// recorded. Without it the calls are not there.
	Shadows func(ctx context.Context, endpoint string) (shadow.Comparison, error)
	// Pages serve people: every path that is none of the API's. Without them such
	// paths are not there.
	Pages Pages
	// Hub serves POST /v1/hub. It signs callers in itself.
	Hub http.Handler
	// Subscriptions and Webhooks come together or not at all.
	Subscriptions Subscriptions
	Webhooks      Webhooks
	// Standing goes through all subscriptions in any order, for the metrics. Without
	// it they are read page by page.
	Standing iter.Seq2[registry.Subscription, error]
	// Deliveries counts for the metrics, one entry for each way out.
	Deliveries func() []Deliveries
	// Documents share the bodies of large answers; without it each has its own.
	Documents Documents
	// ChangeJSON writes a change as section "A change" of the protocol shows it.
	ChangeJSON func(registry.Change) ([]byte, error)

	PublicURL string   // absolute, what links are built from
	Listen    string   // host:port; its host is accepted in Host
	Origins   []string // browsers' origins from elsewhere that are let in
	Insecure  bool     // on a server without tokens, take requests that a proxy forwarded
	Limits    Limits
	Version   string

	Ready func() error // nil error: ready to serve
	// Disk tells how the disk is doing that holds the store; nil: well.
	Disk    func() registry.Storage
	Metrics *Metrics
	Logger  *slog.Logger
	Now     Clock
}

func (c *Config) complete() error {
	switch {
	case c.Registry == nil, c.Queries == nil, c.History == nil, c.Daemon == nil, c.Store == nil, c.Gate == nil, c.ChangeJSON == nil:
		return errors.New("web: a part of the configuration is missing")
	}
	if c.Standing == nil {
		own := *c
		c.Standing = own.pages
	}
	if c.Documents == nil {
		c.Documents = Unshared{}
	}
	if c.Rechecked == nil {
		c.Rechecked = func() <-chan struct{} { return nil }
	}
	if c.Limits.Body <= 0 {
		c.Limits.Body = defaultBody
	}
	if c.Limits.BodyTime <= 0 {
		c.Limits.BodyTime = defaultBodyTime
	}
	if c.Limits.Recheck <= 0 {
		c.Limits.Recheck = defaultRecheck
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Disk == nil {
		c.Disk = func() registry.Storage { return registry.Storage{Free: -1} }
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	return nil
}

// pages goes through all subscriptions page by page.
func (c *Config) pages(yield func(registry.Subscription, error) bool) {
	for after := ""; c.Subscriptions != nil; {
		page, err := c.Subscriptions.Subscriptions(after, 500)
		if err != nil {
			yield(registry.Subscription{}, err)
		}
		if err != nil || len(page) == 0 {
			return
		}
		for _, x := range page {
			if !yield(x, nil) {
				return
			}
		}
		after = page[len(page)-1].ID
	}
}
