// Package endpoint asks SPARQL 1.1 Protocol services politely and decides
// whether an answer is complete.
//
// What counts as what:
//
//   - unchanged: the body is the one remembered, or 304 to our validators;
//   - changed: a complete results document, to be compared;
//   - partial: there is an answer, but its completeness is in doubt: 203 and
//     206, a Virtuoso warning in X-SQL-State or X-SQL-Message, as many rows as
//     the endpoint's cap, a body that was cut off, and every body that is not
//     one whole results document of the query's form (trailing text, an error
//     document or a page of HTML with status 200, a type that no results have);
//   - rejected: the endpoint will not answer this query (400, 413, 414, 422,
//     Virtuoso's cost estimates);
//   - throttled: 429 or 503, and our own refusal to ask before the time they said;
//   - timeout: the time limit for one execution ran out, here or there;
//   - cut: the caller's limit or context ended the execution first;
//   - error: everything else.
//
// Only unchanged and changed carry a Memory.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A Memory is what a Client keeps of a query's last complete answer to see
// cheaply that the next one is the same. Its contents mean something to the
// Client alone: the validators are bound to the request they were given for.
type Memory struct {
	Body         [2]uint64 `json:"body,omitzero"` // 128-bit fingerprint of the raw body, zero = unknown
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	Vars         []string  `json:"vars,omitempty"` // order of the head, which means nothing and is kept
}

// An Answer is what one execution brought.
type Answer struct {
	// Outcome is Unchanged when the body is known to be the one remembered
	// (Result is nil then), Changed when a complete result is there that has to
	// be compared, otherwise what went wrong.
	Outcome registry.Outcome
	Result  *diff.Result
	Memory  Memory        // of this answer, when it is complete
	Elapsed time.Duration // from sending until the answer was read and understood; 0 when nothing was sent
	Age     time.Duration // how old the answer was on arrival
	Error   string        // what went wrong, in words for people
}

// Options are what a Client needs beside the endpoint's settings.
type Options struct {
	Contact string           // mail or web address for the User-Agent, see ErrNoContact
	Version string           // of this program, for the User-Agent
	Seed    uint64           // secret of the installation, for fingerprints; the same in every run
	Logger  *slog.Logger     // nil is silent
	Health  registry.Health  // as it was kept; the zero value is healthy
	Asked   time.Time        // when the last request ended, of whoever made it; zero when there was none
	Before  *Client          // whose place this one takes: both share their health and their last request
	Now     func() time.Time // for health and Retry-After; nil is time.Now
}

// ErrNoContact is returned by New for an endpoint that is not on a private
// network when there is no contact: operators of public endpoints expect one.
var ErrNoContact = errors.New("a contact is required for endpoints that are not on a private network")

// A Client asks one endpoint. It is safe for concurrent use.
type Client struct {
	settings     registry.Endpoint
	base         string // URL without fragment
	agent        string
	seed         uint64
	log          *slog.Logger
	http         *http.Client
	gate         *requestLimiter
	health       *health
	auth         authenticator
	resendWithin time.Duration // after that no request is sent again
	buffers      sync.Pool     // of *bytes.Buffer: bodies are not kept
}

// New prepares a client. It opens no connection and reads no secret yet. Its
// errors wrap a *registry.SettingError.
func New(e registry.Endpoint, o Options) (*Client, error) {
	e = e.WithDefaults()
	bad := func(setting string, err error) (*Client, error) {
		return nil, fmt.Errorf("endpoint %s: %w", e.Name, &registry.SettingError{Setting: setting, Err: err})
	}
	base, err := checkURL(e.URL, o.Contact)
	if err != nil {
		return bad("url", err)
	}
	auth, err := newAuthenticator(e.Auth)
	if err != nil {
		return bad("auth", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		settings:     e,
		base:         base,
		agent:        userAgent(o.Version, o.Contact),
		seed:         o.Seed,
		log:          o.Logger.With("endpoint", e.Name),
		http:         newHTTPClient(e.Concurrency),
		gate:         newRequestLimiter(e.Concurrency, time.Duration(e.MinGap)),
		health:       newHealth(o.Health, o.Now),
		auth:         auth,
		resendWithin: resendWithin,
	}
	c.gate.last.ended = o.Asked
	if b := o.Before; b != nil {
		c.health, c.gate.last = b.health.afterEdit(b.settings, e), b.gate.last
	}
	return c, nil
}

// Health tells whether requests may be sent now. It is to be kept and handed
// to the next New, so that a restart does not forget a Retry-After.
func (c *Client) Health() registry.Health { return c.health.snapshot() }

// Close drops idle connections. Executions under way are not disturbed.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Execute asks q once. limit bounds the time from sending until the answer is read
// and understood, beside the endpoint's own timeout; when limit or ctx ends the
// execution, the outcome is Cut. Our own work on an answer counts as the endpoint's
// time because the place among its executions is taken as long: a budget that
// did not see it would not hold. Waiting for a free place or for min_gap is bounded by ctx
// alone and counts as no time. Whatever the endpoint does is in the Answer.
func (c *Client) Execute(ctx context.Context, q *registry.Query, m Memory, limit time.Duration) Answer {
	if limit <= 0 || ctx.Err() != nil {
		return Answer{Outcome: registry.Cut, Error: "no time was left to ask"}
	}
	if why := c.health.refuses(); why != "" {
		return Answer{Outcome: registry.Throttled, Error: why}
	}
	if err := c.gate.acquire(ctx); err != nil {
		return Answer{Outcome: registry.Cut, Error: "time ended while waiting for a turn"}
	}
	// Asked again: while we waited, another answer may have said to stop.
	pass, why := c.health.begin()
	if why != "" {
		c.gate.release(false)
		return Answer{Outcome: registry.Throttled, Error: why}
	}
	v := c.ask(ctx, q, m, limit)
	c.gate.release(v.sent)
	c.health.end(pass, v)
	c.log.Debug("executed", "query", q.ID, "outcome", string(v.Outcome), "elapsed", v.Elapsed,
		"status", v.status, "error", v.Error)
	return v.Answer
}

// A verdict is an Answer with what politeness has to know besides.
type verdict struct {
	Answer
	status int           // 0: no answer came
	sent   bool          // a request left us
	down   bool          // the endpoint itself is in trouble, whatever the query
	first  bool          // the query has never been answered as far as is known
	wait   time.Duration // what it asked us to wait, 0 = it did not say
}

// ask is one execution without the politeness around it.
func (c *Client) ask(ctx context.Context, q *registry.Query, m Memory, limit time.Duration) verdict {
	t := clockIn(ctx, limit, time.Duration(c.settings.Timeout))
	defer t.cancel()
	r, err := c.newRequest(q, t.length)
	if err != nil {
		return verdict{Answer: Answer{Outcome: registry.Failed, Error: "the request could not be built: " + err.Error()}}
	}
	x, err := c.exchange(t.ctx, r, m.boundTo(r.identity))
	defer c.release(x)
	v := c.judge(x, err, q, r, m.boundTo(r.identity), t)
	v.first = m.Body == [2]uint64{}
	if v.sent = !errors.Is(err, errSecret); v.sent {
		v.status, v.Age, v.Elapsed = x.status, age(x.header), time.Since(x.start)
	}
	return v
}

// A timer is the time that one execution has, and whose time it is.
type timer struct {
	ctx     context.Context
	cancel  context.CancelFunc
	parent  context.Context
	length  time.Duration
	foreign bool // the caller's limit is shorter than the endpoint's timeout
}

func clockIn(parent context.Context, limit, own time.Duration) *timer {
	t := &timer{parent: parent, length: min(limit, own), foreign: limit < own}
	t.ctx, t.cancel = context.WithTimeout(parent, t.length)
	return t
}

// stop ends work on an answer when its time is over.
func (t *timer) stop() error {
	if t.ctx.Err() != nil {
		return errStopped
	}
	return nil
}

// unread is an answer that arrived in time but could not be read to its end.
func (t *timer) unread() verdict {
	o, why, _ := t.over()
	if o == registry.Timeout {
		why = "the answer could not be read within the timeout of " + t.length.String()
	}
	return result(o, why)
}

// over tells how the execution ended if its time is what ended it.
func (t *timer) over() (registry.Outcome, string, bool) {
	switch {
	case t.ctx.Err() == nil:
		return "", "", false
	case t.parent.Err() != nil || t.foreign:
		return registry.Cut, "the time given for it ended first", true
	}
	return registry.Timeout, "no complete answer within the timeout of " + t.length.String(), true
}
