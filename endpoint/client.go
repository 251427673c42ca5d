// Package endpoint sends queries to SPARQL 1.1 Protocol services within their
// limits, and decides whether an answer is complete.
//
// Outcomes:
//
//   - unchanged: the body is the remembered one, or the status is 304 for our
//     validators;
//   - changed: a complete results document, to be compared;
//   - partial: an answer that may be incomplete: 203 and 206, a Virtuoso
//     warning in X-SQL-State or X-SQL-Message, as many rows as the endpoint's
//     cap, a body that was cut off, and any body that is not one complete
//     results document of the query's form (trailing text, an error document or
//     an HTML page with status 200, a media type that no results have), such as
//     one that reports an error beside its rows, has columns that the query does
//     not ask for, or uses RDF 1.2;
//   - rejected: the endpoint refuses this query (400, 413, 414, 422, Virtuoso's
//     cost estimates);
//   - throttled: 429 or 503, or not asked because the time that they requested
//     has not passed;
//   - timeout: the time limit of one execution passed, at the endpoint or here;
//   - cut: the caller's limit or context ended the execution first;
//   - error: everything else.
//
// Only unchanged and changed answers have a Memory.
//
// An unchanged answer is recognised by a digest that is computed while the body
// is read, and is not decoded. BenchmarkUnchanged compares Execute with net/http
// draining the same body; web/docs/sizing.md has its figures.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
)

// Memory and Answer are what Execute takes and returns besides the query.
type (
	Memory = registry.AnswerMemory
	Answer = registry.Answer
)

// Options holds what a Client needs in addition to the endpoint's settings.
type Options struct {
	Contact     string           // mail or web address for the User-Agent; see ErrNoContact
	Version     string           // of this program, for the User-Agent
	Seed        uint64           // secret of the installation for fingerprints; the same in every run
	Logger      *slog.Logger     // nil: silent
	Health      registry.Health  // as stored; the zero value is healthy
	LastRequest time.Time        // when the last request to the endpoint ended; zero: never
	Predecessor *Client          // the client that this one replaces: both share health and last request
	Allowed     func() bool      // asked right before each request is sent; nil: always
	Now         func() time.Time // for health and Retry-After; nil: time.Now
}

// ErrNoContact is returned by New for an endpoint outside private networks if
// there is no contact. Operators of public endpoints expect one.
var ErrNoContact = errors.New("a contact is required for endpoints that are not on a private network")

// A Client sends queries to one endpoint. It is safe for concurrent use.
type Client struct {
	settings     registry.Endpoint
	base         string   // URL without fragment
	agent        []string // the User-Agent, as requests share it
	caller       string   // see identity
	seed         uint64
	log          *slog.Logger
	http         *http.Client
	gate         *requestLimiter
	health       *health
	auth         *auth
	allowed      func() bool
	resendWithin time.Duration // no request is sent again after this time
	buffers      sync.Pool     // of *body
}

// New returns a client. It opens no connection and reads no secret. Its errors
// wrap a *registry.SettingError.
func New(e registry.Endpoint, o Options) (*Client, error) {
	e = e.WithDefaults()
	bad := func(setting string, err error) (*Client, error) {
		return nil, fmt.Errorf("endpoint %s: %w", e.Name, &registry.SettingError{Setting: setting, Err: err})
	}
	base, err := CheckURL(e.URL, o.Contact)
	if err != nil {
		return bad("url", err)
	}
	auth, err := newAuth(e.Auth)
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
		agent:        []string{UserAgent(o.Version, o.Contact)},
		caller:       callerOf(&e),
		seed:         o.Seed,
		log:          o.Logger.With("endpoint", e.Name),
		http:         newHTTPClient(e.Concurrency),
		gate:         newRequestLimiter(e.Concurrency, time.Duration(e.MinGap)),
		health:       newHealth(o.Health, o.Now),
		auth:         auth,
		allowed:      o.Allowed,
		resendWithin: resendWithin,
	}
	c.gate.last.ended = o.LastRequest
	if b := o.Predecessor; b != nil {
		c.health, c.gate.last = b.health.afterEdit(b.settings, e), b.gate.last
	}
	return c, nil
}

// Health says whether requests may be sent now. Store it and pass it to the
// next New, so that a Retry-After survives a restart.
func (c *Client) Health() registry.Health { return c.health.snapshot() }

// Close closes idle connections. Running executions continue.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Execute sends q once. limit bounds the time from sending the request until
// the answer is decoded, in addition to the endpoint's own timeout. If limit or
// ctx ends the execution, the outcome is Cut. Decoding counts as the endpoint's
// time because it occupies one of the endpoint's executions: otherwise the
// budget would not bound it. Waiting for a free execution or for min_gap counts
// as no time, and only ctx bounds it. Every failure of the endpoint is reported
// in the Answer.
func (c *Client) Execute(ctx context.Context, q *registry.Query, m Memory, limit time.Duration) Answer {
	if limit <= 0 || ctx.Err() != nil {
		return Answer{Outcome: registry.Cut, Error: "no time was left for a request"}
	}
	if why := c.health.refuses(); why != "" {
		return Answer{Outcome: registry.Throttled, Error: why}
	}
	if err := c.gate.acquire(ctx); err != nil {
		return Answer{Outcome: registry.Cut, Error: "the time ended while waiting for a free execution"}
	}
	// Ask again: another answer may have changed the health while this execution
	// waited.
	pass, why := c.health.begin()
	if why != "" {
		c.gate.release(false)
		return Answer{Outcome: registry.Throttled, Error: why}
	}
	v := c.ask(ctx, q, m, limit)
	c.gate.release(v.sent)
	judged := v
	answered := v.status != 0 || v.Outcome == registry.Timeout
	if q.Merged && v.down && answered || q.Beside && v.Outcome != registry.Throttled && answered {
		judged.sent = false // the request may be the cause: queries alone tell
	}
	c.health.end(pass, judged)
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.Debug("executed", "query", q.ID, "outcome", string(v.Outcome), "elapsed", v.Elapsed,
			"status", v.status, "error", v.Error)
	}
	return v.Answer
}

// A verdict is an Answer together with its meaning for the endpoint's health.
type verdict struct {
	Answer
	status int           // 0: no answer
	sent   bool          // a request was sent
	down   bool          // the endpoint itself is in trouble, regardless of the query
	first  bool          // the query has never been answered, as far as is known
	wait   time.Duration // how long the endpoint asked to wait; 0: unknown
}

// ask is one execution without limits and health.
func (c *Client) ask(ctx context.Context, q *registry.Query, m Memory, limit time.Duration) verdict {
	t := clockIn(ctx, limit, time.Duration(c.settings.Timeout))
	defer t.cancel()
	r, err := c.newRequest(q, t.length)
	if err != nil {
		return verdict{Answer: Answer{Outcome: registry.Failed, Error: "the request could not be built: " + err.Error()}}
	}
	m = r.recall(m)
	x, err := c.exchange(t, r, m)
	defer c.release(x)
	if err == errNotAllowed {
		return result(registry.Cut, err.Error())
	}
	if err == errRests {
		return verdict{Answer: Answer{Outcome: registry.Cut, Error: err.Error(), Elapsed: t.elapsed()}, sent: true}
	}
	v := c.judge(x, err, q, r, m, t)
	v.first = m.Body == [2]uint64{}
	if v.sent = !errors.Is(err, errSecret); v.sent {
		v.status, v.Age, v.Elapsed = x.status, age(x.header), t.elapsed()
	}
	return v
}

// A timer is the time limit of one execution and who set it. The waits for the gap do not count.
type timer struct {
	ctx     context.Context
	cancel  context.CancelFunc
	parent  context.Context
	length  time.Duration
	foreign bool // the caller's limit is shorter than the endpoint's timeout
	began   time.Time
	end     *time.Timer
	waits   *clock.Waits
}

func clockIn(parent context.Context, limit, own time.Duration) *timer {
	t := &timer{parent: parent, length: min(limit, own), foreign: limit < own, waits: clock.WaitsOf(parent)}
	ctx, cancel := context.WithCancel(parent)
	t.began = time.Now() // before its end, so that what it ends has taken the whole limit
	t.ctx, t.end = ctx, time.AfterFunc(t.length, cancel)
	t.cancel = func() {
		cancel()
		t.end.Stop()
	}
	return t
}

// elapsed is what the execution has taken so far.
func (t *timer) elapsed() time.Duration { return time.Since(t.began) - t.waits.Total() }

// pause stops the timer while wait lasts, which ctx alone bounds.
func (t *timer) pause(ctx context.Context, wait func(context.Context) error) error {
	if !t.end.Stop() {
		return context.DeadlineExceeded
	}
	err := t.waits.During(func() error { return wait(ctx) })
	t.end.Reset(t.length - t.elapsed())
	return err
}

// stop returns an error when the time is over.
func (t *timer) stop() error {
	if t.ctx.Err() != nil {
		return formats.ErrStopped
	}
	return nil
}

// unread is the verdict on an answer that arrived in time but was not decoded
// in time.
func (t *timer) unread() verdict {
	o, why, _ := t.expired()
	if o == registry.Timeout {
		why = "the answer could not be read within the timeout of " + t.length.String()
	}
	return result(o, why)
}

// expired returns how the execution ended if its time limit ended it.
func (t *timer) expired() (registry.Outcome, string, bool) {
	switch {
	case t.ctx.Err() == nil:
		return "", "", false
	case t.parent.Err() != nil || t.foreign:
		return registry.Cut, "the time given for it ended first", true
	}
	return registry.Timeout, "no complete answer within the timeout of " + t.length.String(), true
}
