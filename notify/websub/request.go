package websub

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Caps limit what unknown clients can make the hub do. Zero fields get their defaults.
type Caps struct {
	Pending       int     // requests with a pending verification, default 10,000
	Subscriptions int     // of all protocols together, default 1,000,000
	PerHost       int     // of one callback host, default 10,000
	ClientRate    float64 // requests per second of one client address, default 10
	ClientBurst   int     // default 100
	HostRate      float64 // requests per second that name one callback host, default 5
	HostBurst     int     // default 50
}

// A Handler answers subscription requests at the hub's URL. Its errors are plain text, as
// the Recommendation requires. The rates and caps per client and host do not apply to
// networks that the operator listed.
type Handler struct {
	hub     *Hub
	engine  *deliver.Engine
	guard   *deliver.Guard
	gate    notify.Gate
	log     *slog.Logger
	caps    Caps
	clients *registry.Rates
	hosts   *registry.Rates
}

// NewHandler returns the handler of a hub whose subscriptions the engine delivers.
func NewHandler(h *Hub, e *deliver.Engine, g *deliver.Guard, gate notify.Gate, c Caps, log *slog.Logger) *Handler {
	c.Pending = cmp.Or(c.Pending, 10_000)
	c.Subscriptions = cmp.Or(c.Subscriptions, 1_000_000)
	c.PerHost = cmp.Or(c.PerHost, 10_000)
	c.ClientRate, c.ClientBurst = cmp.Or(c.ClientRate, 10), cmp.Or(c.ClientBurst, 100)
	c.HostRate, c.HostBurst = cmp.Or(c.HostRate, 5), cmp.Or(c.HostBurst, 50)
	return &Handler{hub: h, engine: e, guard: g, gate: gate, log: log, caps: c,
		clients: registry.NewRates(rate.Limit(c.ClientRate), c.ClientBurst), hosts: registry.NewRates(rate.Limit(c.HostRate), c.HostBurst)}
}

// A refusal is an answer other than 202.
type refusal struct {
	status     int
	text       string
	retryAfter int // seconds
}

func (r *refusal) Error() string { return r.text }

func bad(text string) error { return &refusal{status: http.StatusBadRequest, text: text} }

// maxBody is the maximum size of a request.
const maxBody = 64 << 10

// ServeHTTP answers 202 to a valid request. It does not wait for the verification.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.accept(r)
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, "accepted; the callback is asked next\n")
		return
	}
	var no *refusal
	if p := (*registry.Problem)(nil); errors.As(err, &p) && p.Kind == registry.KindUnavailable { // the store logs it once
		no = &refusal{http.StatusServiceUnavailable, p.Detail, cmp.Or(int(p.RetryAfter/time.Second), 5)}
	} else if !errors.As(err, &no) {
		h.log.Error("a request to the hub failed", "error", err)
		no = &refusal{http.StatusServiceUnavailable, "not now; try again later", 5}
	}
	if no.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(no.retryAfter))
	}
	if no.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="freshet"`)
	}
	w.WriteHeader(no.status)
	io.WriteString(w, no.text+"\n")
}

func (h *Handler) accept(r *http.Request) error {
	client, free := h.client(r)
	if !free && !h.clients.Allow(client, h.hub.opts.Now()) {
		return &refusal{http.StatusTooManyRequests, "too many requests from this address", 10}
	}
	form, err := readForm(r)
	if err != nil {
		return err
	}
	req, err := h.parse(form)
	if err != nil {
		return err
	}
	if err := h.admit(r, &req); err != nil {
		return err
	}
	return h.enter(req)
}

// client returns the address that a request came from. free says that it is in a listed network, and that no proxy
// forwarded the request.
func (h *Handler) client(r *http.Request) (name string, free bool) {
	forwarded := r.Header["X-Forwarded-For"]
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return registry.ClientAddress(r.RemoteAddr, forwarded), err == nil && len(forwarded) == 0 && h.guard.Allowed(peer.Addr())
}

// readForm reads a form in UTF-8. Parameters of the URL do not count.
func readForm(r *http.Request) (url.Values, error) {
	typ, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || typ != "application/x-www-form-urlencoded" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, text: "send the parameters as application/x-www-form-urlencoded, in UTF-8"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &refusal{status: http.StatusRequestTimeout, text: "the body did not arrive in time"}
	}
	if err != nil {
		return nil, bad("the body could not be read")
	}
	if len(body) > maxBody {
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, text: "a request has at most 64 KiB"}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, bad("the body is not a form")
	}
	for name, values := range form {
		if !strings.HasPrefix(name, "hub.") {
			continue
		}
		if len(values) > 1 {
			return nil, bad("a hub parameter is given twice")
		}
		if !utf8.ValidString(values[0]) {
			return nil, bad("a hub parameter is not UTF-8")
		}
	}
	return form, nil
}

// A request is a request to subscribe or unsubscribe.
type request struct {
	intent   registry.Intent
	callback string
	host     string
	path     string // of the topic
	admin    bool   // its caller may change the subscriptions of others
}

func (h *Handler) parse(form url.Values) (request, error) {
	var q request
	q.intent.Mode, q.intent.Topic, q.callback = form.Get("hub.mode"), form.Get("hub.topic"), form.Get("hub.callback")
	switch {
	case q.intent.Mode == "publish":
		return q, bad("hub.mode=publish is not taken: this hub knows of changes by itself")
	case q.intent.Mode != "subscribe" && q.intent.Mode != "unsubscribe":
		return q, bad("hub.mode must be subscribe or unsubscribe")
	case q.intent.Topic == "" || q.callback == "":
		return q, bad("hub.topic and hub.callback are needed")
	}
	var err error
	if q.host, err = h.guard.Check(q.callback); err != nil {
		return q, bad("hub.callback cannot be called: " + err.Error())
	}
	var ours bool
	if _, q.path, ours = h.hub.topic(q.intent.Topic); !ours || len(q.intent.Topic) > 2048 {
		return q, &refusal{status: http.StatusNotFound, text: "hub.topic is not a topic of this hub"}
	}
	if q.intent.Mode == "unsubscribe" { // all other parameters must be ignored
		return q, nil
	}
	if q.intent.Lease, err = h.lease(form); err != nil {
		return q, err
	}
	if q.intent.Filter, q.intent.Rate, err = deliveryOptions(form); err != nil {
		return q, err
	}
	q.intent.Secret = form.Get("hub.secret")
	if len(q.intent.Secret) >= 200 {
		return q, bad("hub.secret must be less than 200 bytes")
	}
	return q, nil
}

func deliveryOptions(form url.Values) (json.RawMessage, registry.Duration, error) {
	own := url.Values{}
	for name, values := range form {
		if name, ok := strings.CutPrefix(name, "freshet."); ok {
			own[name] = values
		}
	}
	filter, rate, err := cursor.ParseParams(own)
	if err != nil {
		return nil, 0, bad("freshet." + err.Error())
	}
	if filter.ByRow() {
		return nil, 0, bad("freshet.vars and freshet.where are not taken: topics are delivered as a whole")
	}
	return filter.JSON(), registry.Duration(rate), nil
}

func (h *Handler) lease(form url.Values) (registry.Duration, error) {
	l := h.hub.opts.Lease
	text, asked := form.Get("hub.lease_seconds"), form.Has("hub.lease_seconds")
	if !asked || text == "" {
		return registry.Duration(l.Default), nil
	}
	if strings.Trim(text, "0123456789") != "" || strings.Trim(text, "0") == "" {
		return 0, bad("hub.lease_seconds must be a positive decimal number")
	}
	n, err := strconv.ParseUint(text, 10, 31)
	wanted := time.Duration(n) * time.Second
	if err != nil { // the number is too large
		wanted = l.Max
	}
	return registry.Duration(min(max(wanted, l.Min), l.Max)), nil
}

// admit authenticates the caller and checks that it may read the topic.
func (h *Handler) admit(r *http.Request, q *request) error {
	token := notify.Bearer(r)
	client, _ := h.client(r)
	caller, err := h.gate.Authenticate(client, token)
	signed := err == nil
	switch {
	case errors.Is(err, registry.ErrGuessing):
		return &refusal{http.StatusTooManyRequests, err.Error(), 2}
	case err != nil && !errors.Is(err, notify.ErrUnauthorized):
		return err
	case err != nil && r.Header.Get("Authorization") != "":
		return errNoToken
	case signed && !caller.MayRead(nil):
		return &refusal{status: http.StatusForbidden, text: "the token does not allow to read"}
	case !signed:
		caller = registry.Caller{Name: registry.Anonymous}
	}
	query, err := h.hub.opts.Find(q.path, !signed)
	if errors.Is(err, registry.ErrNotFound) {
		if !signed {
			return errNoToken
		}
		return &refusal{status: http.StatusNotFound, text: "hub.topic is not a topic of this hub; the Link header with rel=self " +
			"of a result, change or feed names one"}
	} else if err != nil {
		return err
	}
	if !caller.MayRead(&query) {
		return errNoToken
	}
	if !h.engine.Trusted(q.host) && !h.hosts.Allow(q.host, h.hub.opts.Now()) {
		return &refusal{http.StatusTooManyRequests, "too many requests that name this callback's host", 10}
	}
	q.intent.Caller, q.admin = caller.Name, caller.Role.Includes(registry.RoleAdmin)
	return nil
}

// mayChange returns an error if the request must not renew or end a subscription. A
// subscription made with a token belongs to that token's name. One made without a token
// belongs to anyone who knows the callback, because the Recommendation has no other proof.
func (q *request) mayChange(s *registry.Subscription) error {
	if s.Caller == registry.Anonymous || s.Caller == q.intent.Caller || q.admin {
		return nil
	}
	return &refusal{status: http.StatusForbidden, text: "another token made this subscription: send that token, or subscribe " +
		"with another hub.callback"}
}

var errNoToken = &refusal{status: http.StatusUnauthorized, text: "this topic needs a token: send it as \"Authorization: Bearer …\""}

// enter stores the request as the next question to its callback.
func (h *Handler) enter(q request) error {
	id := identity(decode(q.intent.Topic), decode(q.callback))
	n, done := h.engine.Claim(id, registry.WebSub, q.intent.Caller, q.host)
	defer done()
	trusted := h.engine.Trusted(q.host)
	if h.hub.verifications.reach(h.caps.Pending, h.hub.opts.Calls) {
		return &refusal{http.StatusServiceUnavailable, "too many callbacks are being asked", 5}
	}
	query, err := h.hub.opts.Find(q.path, false)
	if err != nil {
		return err
	}
	st, _, err := h.hub.opts.Log.Current(query.ID, false)
	if err != nil {
		return err
	}
	q.intent.At = h.hub.opts.Now().UTC()
	_, err = h.engine.Edit(id, func(s *registry.Subscription, found bool) error {
		if found {
			if err := q.mayChange(s); err != nil {
				return err
			}
			if s.Caller != registry.Anonymous {
				q.intent.Caller = s.Caller // an admin's request does not change the owner
			}
		} else {
			switch {
			case q.intent.Mode == "unsubscribe":
				return &refusal{status: http.StatusNotFound, text: "there is no such subscription"}
			case n.All >= h.caps.Subscriptions || !trusted && n.Host >= h.caps.PerHost:
				return &refusal{http.StatusServiceUnavailable, "there are too many subscriptions", 600}
			}
			*s = registry.Subscription{ID: s.ID, Way: registry.WebSub, Caller: q.intent.Caller, Query: query.ID, Topic: q.intent.Topic,
				Callback: q.callback, State: registry.Pending, CreatedAt: q.intent.At, Cursor: st.Position}
		}
		s.Intent = &q.intent
		if h.hub.opts.Calls(q.host) { // otherwise the node that asks the callback counts it
			h.hub.verifications.add(s.ID, q.host)
		}
		return nil
	})
	return err
}
