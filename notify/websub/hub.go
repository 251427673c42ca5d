// Package websub is a hub after the W3C Recommendation WebSub (23 January 2018)
// for topics of this server only: every representation of a result, the newest
// change as a document, and feeds of changes.
//
// What the Recommendation leaves open is decided like this:
//
//   - Topics. A topic is the URL that rel=self names; any other address of the
//     same thing is refused with 404, and the answer says so. A topic that is
//     not ours is refused at once (4xx), never fetched. Percent-encoded
//     characters that need no encoding are decoded before anything is compared.
//   - Leases. 10 days unless hub.lease_seconds says otherwise, never less than a
//     minute nor more than 30 days. There is no other end to renewing.
//   - Verification is asked once for each request, right after the 202. What is
//     not confirmed leaves everything as it was. The state that a later request
//     asks for replaces one that is still unconfirmed.
//   - Ownership. A subscription that was made with a token is renewed and ended
//     with a token of the same name or an admin's; others get 403. One made
//     without a token has no owner: who knows its callback may renew it with
//     another secret and lease, or claim it with a token. Such callbacks should be
//     impossible to guess. What was agreed stays in force until the callback has
//     confirmed the request.
//   - To unsubscribe from what is not subscribed to is answered with 404.
//   - Deliveries begin with what changes after the request was accepted, are the
//     full content, byte for byte what GET answers, and carry one Link header
//     with hub and self. Atom feeds are delivered in full, too.
//   - When. Parameters that are not the Recommendation's say what is worth a
//     delivery: freshet.min_jaccard, freshet.min_rows and freshet.rate, as those
//     of an event stream (see cursor.ParseParams). They decide about the net change
//     since the last delivery; the content is always the whole topic, which is
//     why there is nothing to choose of its rows. A renewal says them again.
//   - Signatures are sha256, in lower-case hexadecimal digits.
//   - 410 ends a subscription. After any other failure the newest version is
//     tried again, 9 times within about 16 hours by default. Then this version is
//     given up; the next one is tried, but not more often than every 10 minutes
//     as long as the callback fails.
//   - A subscription ends early, with a denial (hub.mode=denied), when its query
//     ends, when its subscriber's token is withdrawn or the query is not public
//     any more, and when an operator drops it.
//   - hub.mode=publish is not part of the Recommendation: the hub is built into
//     the publisher and knows of changes when they are committed.
//   - Requests are never redirected to another hub; only one is advertised.
package websub

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Options are what a Hub is made of. All but the last four are needed.
type Options struct {
	Log      notify.Log
	Contents *deliver.Contents // by the path of a topic
	// Find names the query that the path of a topic is about. It wraps
	// registry.ErrNotFound for what is no topic.
	Find func(path string) (registry.Query, error)
	// Caller returns the present caller of a name, without a role if it has no
	// token any more.
	Caller    func(name string) (registry.Caller, error)
	Query     func(id string) (registry.Query, error)
	PublicURL string // what topics begin with, without a slash at the end

	Lease    Lease
	Schedule []time.Duration  // pauses after failures
	Patience time.Duration    // time for which one version is tried at most
	Now      func() time.Time // nil: time.Now
}

// Lease bounds leases. Zero fields get the default.
type Lease struct{ Least, Usual, Most time.Duration }

// Schedule is the default one.
var Schedule = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}

// calm is the least time between attempts at a callback that has made the hub
// give up a version.
const calm = 10 * time.Minute

// A Hub sends subscribers what the Recommendation wants. It is a deliver.Sender.
type Hub struct {
	opts   Options
	link   string
	asking asking
}

// asking knows the subscriptions whose callbacks wait to be asked. Those of
// before a restart come in when they are.
type asking struct {
	mu sync.Mutex
	m  map[string]struct{}
}

func (a *asking) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = make(map[string]struct{})
	}
	a.m[id] = struct{}{}
}

func (a *asking) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.m, id)
}

func (a *asking) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.m)
}

var _ deliver.Sender = (*Hub)(nil)

// New makes a hub.
func New(o Options) *Hub {
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	const day = 24 * time.Hour
	o.Lease = Lease{cmp.Or(o.Lease.Least, time.Minute), cmp.Or(o.Lease.Usual, 10*day), cmp.Or(o.Lease.Most, 30*day)}
	o.Patience = cmp.Or(o.Patience, day)
	if len(o.Schedule) == 0 {
		o.Schedule = Schedule
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Hub{opts: o, link: "<" + o.PublicURL + `/v1/hub>; rel="hub", <`}
}

// identity names the subscription of a topic by a callback: there is one.
func identity(topic, callback string) string {
	sum := sha256.Sum256([]byte(topic + "\x00" + callback))
	return "ws_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26])
}

// path is a topic's without our address; ok is false for what is not ours.
func (h *Hub) path(topic string) (path string, ok bool) {
	path, ok = strings.CutPrefix(decode(topic), h.opts.PublicURL)
	strange := strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`<>"\`, r) })
	return path, ok && !strange && strings.HasPrefix(path, "/")
}

// Next is deliver.Sender's.
func (h *Hub) Next(ctx context.Context, s *registry.Subscription) (deliver.Step, error) {
	now := h.opts.Now()
	switch {
	case s.Intent != nil:
		return h.ask(s), nil
	case s.State == registry.Pending, s.ExpiresAt != nil && !now.Before(*s.ExpiresAt):
		return end, nil
	}
	q, err := h.opts.Query(s.Query)
	if errors.Is(err, registry.ErrNotFound) {
		return h.deny("the query has ended"), nil
	} else if err != nil {
		return deliver.Step{}, err
	}
	if who, err := h.opts.Caller(s.Caller); err != nil {
		return deliver.Step{}, err
	} else if !who.MayRead(&q) {
		return h.deny("the subscriber may not read the topic any more"), nil
	}
	idle := deliver.Step{}
	if s.ExpiresAt != nil {
		idle.At = *s.ExpiresAt
	}
	if s.State != registry.Active {
		return idle, nil
	}
	if deliver.BackingOff(s, now) {
		idle.Hold = *s.NextTry
		return idle, nil
	}
	st, _, err := h.opts.Log.Current(s.Query, false)
	if errors.Is(err, registry.ErrNotFound) {
		return h.deny("the query has ended"), nil
	}
	if err != nil || st.Position == s.Cursor {
		return idle, err
	}
	switch ev, err := h.next(ctx, s, st.Position, now); {
	case err != nil:
		return idle, err
	case ev.Kind == cursor.Moved:
		return deliver.Step{Edit: moved(s.Cursor, ev.At, "")}, nil
	case ev.Kind == cursor.Wait:
		idle.Hold = ev.Until
		return idle, nil
	}
	return h.distribute(ctx, s, st.Position)
}

// rules bound the net change that is looked at; more is worth a delivery.
var rules = cursor.Rules{Limit: 8 << 20}

// next says what waits for a subscription: Change or Snapshot when it is worth a
// delivery, Moved when it came to nothing.
func (h *Hub) next(ctx context.Context, s *registry.Subscription, newest registry.Position, now time.Time) (cursor.Event, error) {
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return cursor.Event{}, fmt.Errorf("%w: its filter: %w", deliver.ErrUnsupported, err)
	}
	c := cursor.Cursor{Query: s.Query, Filter: filter, Rate: time.Duration(s.Rate), Rules: &rules}
	c.Jump(s.Cursor)
	if s.LastDelivery != nil {
		c.Sent(*s.LastDelivery)
	}
	if due := c.Due(now); filter.All() && due.IsZero() { // whatever it is
		return cursor.Event{Kind: cursor.Snapshot}, nil
	}
	ev, err := c.Next(ctx, &cursor.Reader{Log: h.opts.Log}, newest, now)
	if settled, empty := c.Settle(); empty {
		ev = settled
	}
	return ev, err
}

// moved notes that there is nothing to deliver up to a position, or that a
// version was.
func moved(from, to registry.Position, version string) func(s *registry.Subscription) error {
	return func(s *registry.Subscription) error {
		if s.Cursor == from {
			s.Cursor = to
			if version != "" {
				s.Version = version
			}
		}
		return nil
	}
}

var end = deliver.Step{Edit: func(s *registry.Subscription) error {
	if s.Intent == nil { // unless it was asked for again meanwhile
		s.State = registry.Ended
	}
	return nil
}}

// deny ends a subscription and says so to the subscriber.
func (h *Hub) deny(reason string) deliver.Step {
	return deliver.Step{Edit: func(s *registry.Subscription) error {
		h.Deny(s, reason)
		return nil
	}}
}

// Deny has a subscriber informed that its subscription is over. A request
// that still waits for its verification is void and waits no more. It is to be
// called within the edit that stores s.
func (h *Hub) Deny(s *registry.Subscription, reason string) {
	h.asking.remove(s.ID)
	s.State, s.Reason = registry.Disabled, reason
	s.Intent = &registry.Intent{Mode: "denied", Reason: reason, Topic: s.Topic}
}

// distribute sends the present content of the topic.
func (h *Hub) distribute(ctx context.Context, s *registry.Subscription, at registry.Position) (deliver.Step, error) {
	path, ok := h.path(s.Topic)
	if !ok {
		return h.deny("the topic has moved"), nil
	}
	from := s.Cursor
	c, release, err := h.opts.Contents.Get(ctx, path, at)
	if errors.Is(err, deliver.ErrNoContent) {
		return deliver.Step{Edit: moved(from, at, "")}, nil
	} else if err != nil {
		return deliver.Step{}, err
	}
	if c.At.Epoch == at.Epoch && c.At.Seq > at.Seq {
		at = c.At // what comes next is held against what the callback has, not against what woke us
	}
	if c.Version == s.Version {
		release()
		return deliver.Step{Edit: moved(from, at, c.Version)}, nil
	}
	header := http.Header{"Content-Type": {c.Type}, "Link": {h.link + h.opts.PublicURL + path + `>; rel="self"`}}
	if len(s.Secrets) > 0 {
		header.Set("X-Hub-Signature", Sign(s.Secrets[0].Key, c.Body))
	}
	version := c.Version
	return deliver.Step{Call: &deliver.Call{
		Method: http.MethodPost, URL: s.Callback, Header: header, Body: c.Body, Release: release, Last: true,
		Done: func(s *registry.Subscription, r deliver.Reply) error {
			if h.delivered(s, r) {
				return moved(from, at, version)(s)
			}
			return nil
		},
	}}, nil
}

// delivered enters the outcome of a delivery and says whether this version is
// done with.
func (h *Hub) delivered(s *registry.Subscription, r deliver.Reply) bool {
	switch {
	case r.OK():
		deliver.Delivered(s, r)
		return true
	case r.Status == http.StatusGone:
		if s.Intent == nil { // one who subscribes again is asked
			s.State = registry.Ended
		}
		return false
	}
	deliver.Refused(s, r, h.opts.Schedule)
	if s.Failures <= len(h.opts.Schedule) && r.At.Sub(*s.FailingSince) < h.opts.Patience {
		return false
	}
	s.GaveUp++
	next := r.At.Add(min(calm, h.opts.Schedule[len(h.opts.Schedule)-1])).UTC()
	s.NextTry = &next
	return true
}

// Sign is the value of X-Hub-Signature for a body.
func Sign(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// ask sends a verification of intent, or a denial, which asks nothing.
func (h *Hub) ask(s *registry.Subscription) deliver.Step {
	in := *s.Intent
	if in.Mode != "denied" {
		h.asking.add(s.ID)
	}
	params := "hub.mode=" + url.QueryEscape(in.Mode) + "&hub.topic=" + url.QueryEscape(in.Topic)
	challenge := ""
	if in.Mode == "denied" {
		params += "&hub.reason=" + url.QueryEscape(in.Reason)
	} else {
		challenge = rand.Text()
		params += "&hub.challenge=" + challenge
	}
	if in.Mode == "subscribe" {
		params += "&hub.lease_seconds=" + strconv.FormatInt(int64(time.Duration(in.Lease)/time.Second), 10)
	}
	return deliver.Step{Call: &deliver.Call{
		Method: http.MethodGet, URL: appendQuery(s.Callback, params), Read: len(challenge), Asks: true,
		Done: func(s *registry.Subscription, r deliver.Reply) error {
			if s.Intent == nil || s.Intent.Mode != in.Mode || !s.Intent.At.Equal(in.At) {
				return nil // another request came meanwhile and is to be verified itself
			}
			h.answered(s, r, in.Mode == "denied" || r.OK() && subtle.ConstantTimeCompare(r.Body, []byte(challenge)) == 1)
			return nil
		},
	}}
}

// answered brings what was asked for in force, or leaves everything as it was.
func (h *Hub) answered(s *registry.Subscription, r deliver.Reply, yes bool) {
	in := *s.Intent
	s.Intent = nil
	h.asking.remove(s.ID)
	switch {
	case !yes && s.State == registry.Pending, yes && in.Mode != "subscribe":
		s.State = registry.Ended
	case !yes:
	default:
		s.Secrets = nil
		if in.Secret != "" {
			s.Secrets = []registry.Secret{{Key: in.Secret}}
		}
		until := r.Sent.Add(time.Duration(in.Lease)).UTC()
		s.Lease, s.ExpiresAt, s.Caller, s.Topic = in.Lease, &until, in.Caller, in.Topic
		s.Filter, s.Rate = in.Filter, in.Rate
		s.Failures, s.FailingSince, s.LastError, s.NextTry, s.Reason = 0, nil, "", nil, ""
		if s.State != registry.SubscriptionPaused {
			s.State = registry.Active
		}
	}
}

// appendQuery keeps a URL as it is and adds parameters behind those it has.
func appendQuery(u, params string) string {
	switch {
	case !strings.Contains(u, "?"):
		return u + "?" + params
	case strings.HasSuffix(u, "?"), strings.HasSuffix(u, "&"):
		return u + params
	}
	return u + "&" + params
}

// decode undoes the percent-encoding of characters that need none (RFC 3986,
// section 2.3), so that addresses that mean the same are the same.
func decode(u string) string {
	const free = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	var b strings.Builder
	for {
		i := strings.IndexByte(u, '%')
		if i < 0 || i+2 >= len(u) {
			b.WriteString(u)
			return b.String()
		}
		b.WriteString(u[:i])
		c, err := strconv.ParseUint(u[i+1:i+3], 16, 8)
		if err == nil && strings.IndexByte(free, byte(c)) >= 0 {
			b.WriteByte(byte(c))
		} else {
			b.WriteString(strings.ToUpper(u[i : i+3]))
		}
		u = u[i+3:]
	}
}
