// Package websub is a hub according to the W3C Recommendation WebSub (23 January 2018).
// It serves topics of this server only: every representation of a result, the newest change
// as a document, and feeds of changes.
//
// What the Recommendation leaves open for subscribers is in web/docs/openapi.yaml at /v1/hub. Besides:
//
//   - A topic of another server is refused at once and never fetched.
//   - The callback is asked once for each request, right after the 202. A later request replaces one that is not
//     confirmed yet.
//   - Deliveries start with the first change after the request was accepted. Each has the full content, byte for byte
//     what GET answers.
//   - 410 ends a subscription. After any other failure the newest version is tried again, and given up after the
//     patience of deliver.Schedule. The next version is tried then.
//   - A subscription ends early, with hub.mode=denied, if its query is deleted, if its subscriber's token is withdrawn,
//     if the query is no longer public, or if an operator drops it.
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
	"maps"
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

// Options are the dependencies and settings of a Hub. All but Lease are required.
type Options struct {
	Log      notify.Log
	Contents *deliver.Contents // by the path of a topic
	// Find returns the query of a topic by the topic's path. The error wraps
	// registry.ErrNotFound if the path is not a topic.
	Find func(path string, stranger bool) (registry.Query, error)
	// Caller returns the caller with a name, without a role if its token no longer
	// exists.
	Caller    func(name string) (registry.Caller, error)
	Query     func(id string) (registry.Query, error)
	PublicURL string // prefix of all topics, without a slash at the end
	// Nodes returns the prefixes of the topics of all nodes of the cluster, which have the same
	// content.
	Nodes func() []string
	// Calls reports whether this process calls the callbacks of a host.
	Calls func(host string) bool

	Lease Lease
	Now   func() time.Time
}

// Lease bounds the lengths of leases. Zero fields get their defaults.
type Lease struct{ Min, Default, Max time.Duration }

// A Hub delivers topics to subscribers. It implements deliver.Target.
type Hub struct {
	opts          Options
	reader        cursor.Reader
	verifications verifications
}

// verifications tracks the subscriptions whose callbacks still have to be asked by this process.
// After a restart, earlier ones are added when they are asked.
type verifications struct {
	mu sync.Mutex
	m  map[string]string // host of the callback, by subscription
}

func (a *verifications) add(id, host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = make(map[string]string)
	}
	a.m[id] = host
}

func (a *verifications) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.m, id)
}

// reach reports whether there are as many as most, without those that another process has taken
// over.
func (a *verifications) reach(most int, calls func(host string) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.m) >= most {
		maps.DeleteFunc(a.m, func(_, host string) bool { return !calls(host) })
	}
	return len(a.m) >= most
}

var _ deliver.Target = (*Hub)(nil)

// New returns a Hub.
func New(o Options) *Hub {
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	const day = 24 * time.Hour
	o.Lease = Lease{cmp.Or(o.Lease.Min, time.Minute), cmp.Or(o.Lease.Default, 10*day), cmp.Or(o.Lease.Max, 30*day)}
	return &Hub{opts: o, reader: cursor.Reader{Log: o.Log, Memory: cursor.NewMemory()}}
}

// Pending returns the number of requests whose callbacks this process still has to ask.
func (h *Hub) Pending() int {
	h.verifications.mu.Lock()
	defer h.verifications.mu.Unlock()
	return len(h.verifications.m)
}

// identity returns the id of the only subscription of a callback to a topic.
func identity(topic, callback string) string {
	sum := sha256.Sum256([]byte(topic + "\x00" + callback))
	return "ws_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26])
}

// topic splits the URL of a topic into the public URL of this server, or of another node of its
// cluster, and the path. ok is false for any other URL.
func (h *Hub) topic(topic string) (base, path string, ok bool) {
	topic = decode(topic)
	if path, ok = below(h.opts.PublicURL, topic); ok {
		return h.opts.PublicURL, path, true
	}
	for _, base := range h.opts.Nodes() {
		base = strings.TrimRight(base, "/")
		if path, ok = below(base, topic); ok && base != "" {
			return base, path, true
		}
	}
	return "", path, false
}

// below returns the path of a URL below a base.
func below(base, topic string) (path string, ok bool) {
	path, ok = strings.CutPrefix(topic, base)
	strange := strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`<>"\`, r) })
	return path, ok && !strange && strings.HasPrefix(path, "/")
}

// Next implements deliver.Target.
func (h *Hub) Next(ctx context.Context, s *registry.Subscription, now time.Time) (deliver.Step, error) {
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
	return h.distribute(ctx, s, st)
}

// next returns what waits for a subscription: Change or Snapshot if it is worth a delivery,
// Moved if it cancelled out.
func (h *Hub) next(ctx context.Context, s *registry.Subscription, newest registry.Position, now time.Time) (cursor.Event, error) {
	filter, err := cursor.ParseFilter(s.Filter)
	if err != nil {
		return cursor.Event{}, fmt.Errorf("%w: its filter: %w", deliver.ErrUnsupported, err)
	}
	c := cursor.Cursor{Query: s.Query, Filter: filter, Rate: time.Duration(s.Rate), Rules: new(cursor.Rules)}
	c.Jump(s.Cursor)
	c.Sent(deliver.LastDelivery(s, now))
	if due := c.Due(now); filter.All() && due.IsZero() { // every change is worth a delivery
		return cursor.Event{Kind: cursor.Snapshot}, nil
	}
	ev, err := c.Next(ctx, &h.reader, newest, now)
	if settled, empty := c.Settle(); empty {
		ev = settled
	}
	return ev, err
}

// moved returns an edit that records that there is nothing more to deliver up to a position,
// or that a version was delivered.
func moved(from, to registry.Position, version string) func(s *registry.Subscription) {
	return func(s *registry.Subscription) {
		if s.Cursor == from {
			s.Cursor = to
			if version != "" {
				s.Version = version
			}
		}
	}
}

var end = deliver.Step{Edit: func(s *registry.Subscription) {
	if s.Intent == nil { // unless there is a new request
		s.State = registry.Ended
	}
}}

func (h *Hub) deny(reason string) deliver.Step {
	return deliver.Step{Edit: func(s *registry.Subscription) { h.Deny(s, reason) }}
}

// Deny marks a subscription as ended, so that its subscriber is informed. A request that
// waits for its verification becomes void. Call Deny within the edit that stores s.
func (h *Hub) Deny(s *registry.Subscription, reason string) {
	h.verifications.remove(s.ID)
	s.State, s.Reason = registry.Disabled, reason
	s.Intent = &registry.Intent{Mode: "denied", Reason: reason, Topic: s.Topic}
}

// distribute sends the current content of the topic.
func (h *Hub) distribute(ctx context.Context, s *registry.Subscription, st registry.Status) (deliver.Step, error) {
	base, path, ok := h.topic(s.Topic)
	if !ok {
		return h.deny("the topic has moved"), nil
	}
	from, at := s.Cursor, st.Position
	c, release, err := h.opts.Contents.Get(ctx, path, at)
	if errors.Is(err, deliver.ErrNoContent) {
		return deliver.Step{Edit: moved(from, at, "")}, nil
	} else if err != nil {
		return deliver.Step{}, err
	}
	if c.At.Epoch == at.Epoch && c.At.Seq > at.Seq {
		at = c.At // later changes are compared with what the callback has, not with what woke the hub
	}
	if c.Version == s.Version {
		release()
		return deliver.Step{Edit: moved(from, at, c.Version)}, nil
	}
	header := http.Header{"Content-Type": {c.Type}, "Link": {"<" + base + `/v1/hub>; rel="hub", <` + base + path + `>; rel="self"`}}
	if len(s.Secrets) > 0 {
		header.Set("X-Hub-Signature", Sign(s.Secrets[0].Key, c.Body))
	}
	version := c.Version
	return deliver.Step{Call: &deliver.Call{
		Send: deliver.HTTP(http.MethodPost, s.Callback, header, c.Body, 0), Since: st.ChangedAt, Insist: true, Release: release, Last: true,
		Done: func(s *registry.Subscription, r deliver.Reply) {
			switch r.Verdict {
			case deliver.Taken:
				moved(from, at, version)(s)
			case deliver.GiveUp:
				s.GaveUp++
				moved(from, at, version)(s)
			case deliver.Gone:
				end.Edit(s)
			}
		},
	}}, nil
}

// Sign returns the value of X-Hub-Signature for a body.
func Sign(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// ask sends a verification of intent, or a denial, which needs no answer.
func (h *Hub) ask(s *registry.Subscription) deliver.Step {
	in := *s.Intent
	if in.Mode != "denied" {
		h.verifications.add(s.ID, deliver.Host(s.Callback))
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
		Send: deliver.HTTP(http.MethodGet, appendQuery(s.Callback, params), nil, nil, len(challenge)), Asks: true,
		Done: func(s *registry.Subscription, r deliver.Reply) {
			if s.Intent == nil || s.Intent.Mode != in.Mode || !s.Intent.At.Equal(in.At) {
				return // a later request replaced it and is verified on its own
			}
			h.applyIntent(s, r, in.Mode == "denied" || r.OK() && subtle.ConstantTimeCompare(r.Body, []byte(challenge)) == 1)
		},
	}}
}

// applyIntent applies the requested change if the callback confirmed it, else nothing.
func (h *Hub) applyIntent(s *registry.Subscription, r deliver.Reply, yes bool) {
	in := *s.Intent
	s.Intent = nil
	h.verifications.remove(s.ID)
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

// appendQuery adds parameters to a URL without changing the rest of it.
func appendQuery(u, params string) string {
	switch {
	case !strings.Contains(u, "?"):
		return u + "?" + params
	case strings.HasSuffix(u, "?"), strings.HasSuffix(u, "&"):
		return u + params
	}
	return u + "&" + params
}

// decode decodes percent-encoded characters that need no encoding (RFC 3986, section 2.3),
// so that equivalent addresses are equal.
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
