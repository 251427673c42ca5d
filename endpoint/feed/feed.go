// Package feed reads change feeds, one file for each kind. A source says what changed and never more than it
// knows: what a message leaves open is Loose, what cannot be read may have changed anything, and missing events
// are a gap. So a bad feed costs requests and time, and no change.
package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// Options holds what sources need besides their definitions.
type Options struct {
	Contact string        // in the User-Agent, unless the definition has one
	Version string        // of this program, for the User-Agent
	Pause   time.Duration // before a part of a feed is read once more, 0 for a second; turns have 60, and a missing page 300
	// Now is the clock by which answers are dated that the feed is compared with, nil for time.Now.
	Now    func() time.Time
	Logger *slog.Logger // nil: silent
}

// Limits that bound the memory of a source.
const (
	mostBytes   = 10 << 20 // of a page, or of an event in chunks
	mostMessage = 4 << 20  // bytes of a message; a longer one may have changed anything
	largeMost   = 1 << 20  // bytes of a message or page that is read beside others
	mostTriples = 50_000   // of an event; one with more is Loose
	mostPage    = 100_000  // triples of a page
	mostFast    = 5000     // messages in a second whose triples are read; the others are Loose
	mostEvents  = 256      // of a batch
	mostBatch   = 50_000   // triples of a batch
)

// Open returns the source of a definition. Its errors wrap a *registry.SettingError. What the source says of its
// address is masked.
func Open(d feed.Definition, o Options) (feed.Source, error) {
	s, err := open(d, o)
	if err != nil || d.Masked().URL == d.URL && len(d.Headers) == 0 {
		return s, err
	}
	var pairs []string
	for _, value := range d.Headers { // a server may repeat them in an error
		if len(value) >= shortestSecret {
			pairs = append(pairs, value, "…")
		}
	}
	_, query, _ := strings.Cut(d.URL, "?")
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		hidden := name + "=…"
		if value == "" || value == "{version}" {
			continue
		}
		pairs = append(pairs, pair, hidden)
		if v, err := url.ParseQuery(pair); err == nil {
			pairs = append(pairs, v.Encode(), hidden)
		}
	}
	return discreet{s, strings.NewReplacer(pairs...)}, nil
}

// shortestSecret is the length of values of headers that are masked in texts.
const shortestSecret = 6

// A discreet is a source whose address holds secrets.
type discreet struct {
	feed.Source
	mask *strings.Replacer
}

func (s discreet) Follow(ctx context.Context, cursor string, take func(feed.Batch) error) error {
	err := s.Source.Follow(ctx, cursor, func(b feed.Batch) error {
		b.Gap = s.mask.Replace(b.Gap)
		return take(b)
	})
	if err != nil {
		if text := s.mask.Replace(err.Error()); text != err.Error() {
			return &discreetError{err, text}
		}
	}
	return err
}

type discreetError struct {
	err  error
	text string
}

func (e *discreetError) Error() string { return e.text }

func (e *discreetError) Unwrap() error { return e.err }

func open(d feed.Definition, o Options) (feed.Source, error) {
	bad := func(setting string, err error) (feed.Source, error) {
		return nil, fmt.Errorf("feed %s: %w", d.Name, &registry.SettingError{Setting: setting, Err: err})
	}
	o.Contact, o.Pause = cmp.Or(d.Contact, o.Contact), cmp.Or(o.Pause, time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if d.Kind == feed.Deltas {
		return bad("kind", errors.New("deltas are sent to POST /v1/feeds/{name}, so nothing is read"))
	}
	at, err := d.URL, error(nil)
	if d.Kind != feed.Changesets || strings.Contains(at, "://") {
		at, err = endpoint.CheckURL(at, o.Contact)
	}
	if err != nil {
		return bad("url", err)
	}
	c := newClient(o)
	c.headers = d.Headers
	switch d.Kind {
	case feed.Changesets:
		p, err := OpenPublication(at, o)
		if p != nil {
			p.client.headers = d.Headers
		}
		if err != nil {
			return bad("url", err)
		}
		return &changesets{Definition: d, publication: p, log: o.Logger, now: o.Now}, nil
	case feed.LDES:
		return &ldes{Definition: d, client: c, pause: o.Pause, url: at, now: o.Now}, nil
	case feed.RDFPatch:
		return &patchLog{Definition: d, client: c, url: at, now: o.Now}, nil
	case feed.Wikimedia:
		return &wikimedia{Definition: d, client: c, pause: o.Pause, url: at, log: o.Logger, leaps: map[string]leaps{}}, nil
	}
	return bad("kind", fmt.Errorf("%q is none of wikimedia, ldes, rdf-patch, changesets, deltas", d.Kind))
}

// largeOnes holds a token for the message or page of more than largeMost bytes that is read. One of them at a time needs
// much memory, whatever feeds send.
var largeOnes = make(chan struct{}, 1)

// alone calls read while no other long text is read. What that needed is free when it returns.
func alone(size int, read func()) {
	if size > largeMost {
		largeOnes <- struct{}{}
		defer func() {
			debug.FreeOSMemory()
			<-largeOnes
		}()
	}
	read()
}

// A client sends the requests of one source.
type client struct {
	http    http.Client
	agent   string
	headers map[string]string
	age     time.Duration // of the last answer, or a redirect to it, which may come from a cache
}

func newClient(o Options) client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout, transport.HTTP2 = time.Minute, endpoint.Pings()
	return client{agent: endpoint.UserAgent(o.Version, o.Contact), http: http.Client{Transport: transport, CheckRedirect: sameServer}}
}

// sameServer follows redirects to the same server only: another one is a matter of the configuration.
func sameServer(r *http.Request, via []*http.Request) error {
	switch from := via[0].URL; {
	case len(via) > 5:
		return errors.New("more than 5 redirects")
	case r.URL.Host != from.Host || r.URL.Scheme != from.Scheme:
		return fmt.Errorf("it is redirected to %s: set this address in the definition of the feed, if you trust it", r.URL.Redacted())
	}
	return nil
}

// errStatus is the answer of a server that has no such resource, or no longer.
type errStatus struct {
	code int
	text string
}

func (e *errStatus) Error() string { return e.text }

// get sends a request with the given header fields. Other answers than 200 and 304 are errors.
func (c *client) get(ctx context.Context, at string, fields ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("User-Agent", c.agent)
	r.Header.Set("Cache-Control", "no-cache") // what a cache holds may lack the last events
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := c.http.Do(r)
	c.age = 0
	for hop := resp; hop != nil; hop = hop.Request.Response { // not every cache obeys, and one may have kept a redirect
		n, _ := strconv.Atoi(hop.Header.Get("Age"))
		c.age = max(c.age, time.Duration(n)*time.Second)
	}
	if err != nil || resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotModified {
		return resp, err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	err = &errStatus{resp.StatusCode, resp.Status}
	if text := formats.ErrorText(resp.Header.Get("Content-Type"), body); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		err = fmt.Errorf("%w: check url", err)
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%w: check url and contact, or ask the operators of the server for access", err)
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable ||
		resp.Header.Get("Retry-After") != "" {
		wait := cmp.Or(endpoint.RetryAfter(resp.Header, time.Now()), time.Minute)
		return nil, &feed.Wait{For: min(wait, 24*time.Hour), Err: err}
	}
	return nil, err
}

// gone reports whether an error says that a resource does not exist.
func gone(err error) bool {
	var status *errStatus
	return errors.As(err, &status) && (status.code == http.StatusNotFound || status.code == http.StatusGone)
}

// forGood reports whether an error says that a resource will never exist again.
func forGood(err error) bool {
	var status *errStatus
	return errors.As(err, &status) && status.code == http.StatusGone
}

var errLong = fmt.Errorf("the answer has more than %d bytes", mostBytes)

// body reads an answer of at most mostBytes.
func body(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
	if err == nil && len(b) > mostBytes {
		err = errLong
	}
	return b, err
}

// poll calls step now and every so often, until it fails or ctx ends.
func poll(ctx context.Context, every time.Duration, step func() error) error {
	for {
		if err := step(); err != nil {
			return err
		}
		if err := endpoint.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// field returns a term as a field of a pattern.
func field(t diff.Term) string {
	switch t.Kind {
	case diff.IRI:
		return "<" + t.Value + ">"
	case diff.Literal:
		return `"` + t.Value
	}
	return "_"
}

// triples reads a document of RDF with at most mostTriples triples.
func triples(f formats.Format, body []byte, base string) (list []sparql.Pattern, err error) {
	err = formats.Triples(f, body, base, mostBytes, func(s, p, o diff.Term) error {
		if len(list) == mostTriples {
			return diff.ErrRowLimit
		}
		list = append(list, sparql.Pattern{Subject: field(s), Predicate: field(p), Object: field(o)})
		return nil
	})
	return list, err
}
