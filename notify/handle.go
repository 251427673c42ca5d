package notify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/registry"
)

// handle does what one message of the client asks for.
func (s *session) handle(in *inbound) error {
	var fatal *closing
	var closed *websocket.CloseError
	switch {
	case errors.As(in.err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		return &closing{closed.Code, ""} // the client's own words back
	case errors.As(in.err, &fatal) || errors.Is(in.err, errGone):
		return in.err
	}
	if in.Type == "init" {
		return s.init(in)
	}
	if !s.ready {
		return &closing{CloseUnauthorized, "the first message must be init"}
	}
	err := in.err
	if err == nil {
		err = s.dispatch(in.request)
	}
	var r *refusal
	if errors.As(err, &r) && validID.MatchString(in.ID) {
		r.id = in.ID
	}
	return err
}

func (s *session) dispatch(r request) error {
	switch r.Type {
	case "subscribe":
		return s.subscribe(r)
	case "unsubscribe":
		return s.unsubscribe(r.ID)
	case "ack":
		return s.ack(r)
	case "ping":
		return s.write(frame("pong", field{"payload", rawOrNil(r.Payload)}))
	}
	return badParams("unknown type %.64q", r.Type)
}

func rawOrNil(m json.RawMessage) any {
	if m == nil {
		return nil
	}
	return m
}

func (s *session) init(in *inbound) error {
	if s.ready {
		return &closing{CloseTooMany, "init was sent already"}
	}
	if in.err != nil {
		return &closing{CloseMalformed, in.err.Error()}
	}
	s.token = in.Token
	if s.token == "" {
		s.token = s.header
	}
	if c := s.authenticate(); c != nil {
		return c
	}
	s.client = shortened(in.Client)
	s.ready, s.expiry, s.armed = true, s.caller.Expires, time.Time{} // another time comes next
	o := s.srv.opts
	return s.write(frame("ready",
		field{"session", rand.Text()},
		field{"limits", map[string]int64{
			"message": o.Limits.Message, "subscriptions": int64(o.Limits.Subscriptions),
			"window": int64(o.Limits.Window), "change": max(0, o.Limits.Change),
		}},
		field{"ping", registry.Duration(o.Timing.Ping)}))
}

// shortened keeps what is shown of a client's own words short.
func shortened(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// authenticate asks the gate who the token stands for, now.
func (s *session) authenticate() error {
	caller, err := s.srv.opts.Gate.Authenticate(s.from, s.token)
	switch {
	case errors.Is(err, registry.ErrGuessing):
		return &closing{CloseRate, err.Error()}
	case errors.Is(err, ErrUnauthorized):
		return &closing{CloseUnauthorized, "no valid token"}
	case err != nil:
		s.srv.opts.Logger.Error("authenticate a live connection", "error", err)
		return &closing{websocket.CloseInternalServerErr, "internal error"}
	case !caller.Role.Includes(registry.RoleRead):
		return &closing{CloseForbidden, "the token does not allow to follow"}
	}
	s.caller = caller
	return nil
}

// resolve finds what a subscription wants to follow, and returns how to let go.
func (s *session) resolve(t target) (registry.Query, func(), error) {
	reg := s.srv.opts.Registrar
	if t.ref != "" {
		q, err := reg.Resolve(s.caller, t.ref)
		if errors.Is(err, registry.ErrNotFound) {
			return q, nil, &refusal{code: CodeUnknownQuery, message: "no query has this id or name"}
		}
		if r := ambiguous(err); r != nil {
			return q, nil, r
		}
		return q, func() {}, s.unavailable("resolve a query", err)
	}
	if !s.caller.Role.Includes(registry.RoleApp) {
		return registry.Query{}, nil, &refusal{code: CodeNotAllowed, message: "registering a query needs the role app"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.srv.opts.Timing.Write)
	defer cancel()
	q, release, err := reg.Follow(ctx, s.caller, t.Endpoint, t.SPARQL)
	switch {
	case errors.Is(err, ErrRefused):
		return q, nil, &refusal{code: CodeBadParams, message: err.Error()}
	case errors.Is(err, ErrLimit):
		return q, nil, &refusal{code: CodeLimit, message: err.Error()}
	case err != nil:
		return q, nil, s.unavailable("register a query", err)
	}
	return q, release, nil
}

// ambiguous is the refusal of a name that several have, nil for other errors.
func ambiguous(err error) error {
	if p := (*registry.Problem)(nil); errors.As(err, &p) && p.Kind == registry.KindAmbiguousName {
		return &refusal{code: CodeAmbiguous, message: p.Detail}
	}
	return nil
}

// unavailable hides an inner error from the client and keeps it in the log.
func (s *session) unavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	s.srv.opts.Logger.Error(doing, "error", err)
	return &refusal{code: CodeUnavailable, message: "not now; try again later", retryAfter: 5 * time.Second}
}

// subscribe opens a subscription: first the wake-ups, then the log.
func (s *session) subscribe(r request) error {
	if !validID.MatchString(r.ID) {
		return badParams("id must match [A-Za-z0-9._-]{1,64}")
	}
	if s.subs[r.ID] != nil {
		return &closing{CloseInUse, "subscription id in use: " + r.ID}
	}
	if n := s.srv.opts.Limits.Subscriptions; len(s.subs) >= n {
		return &refusal{code: CodeLimit, message: "too many subscriptions on this connection"}
	}
	if r.Profile != nil {
		return s.subscribeProfile(r)
	}
	sub, from, err := newSubscription(r, &s.srv.strict)
	if err != nil {
		return err
	}
	t, err := r.target()
	if err != nil {
		return err
	}
	q, release, err := s.resolve(t)
	if err != nil {
		return err
	}
	if err := sub.cursor.Filter.Fits(&q); err != nil {
		release()
		return badParams("%v", err)
	}
	sub.follows, sub.endpoint, sub.form, sub.ordered, sub.release = q.ID, q.Endpoint, q.Form, q.Ordered, release
	sub.cursor.Query = q.ID
	s.enter(sub)
	sub.list(r.Filter)
	return s.begun(sub, sub.begin(from), "the query ended")
}

// begun ends a subscription that could not begin.
func (s *session) begun(sub *subscription, err error, ended string) error {
	var gone *closing
	if err == nil || errors.Is(err, errGone) || errors.As(err, &gone) {
		return err
	}
	s.leave(sub)
	if errors.Is(err, registry.ErrNotFound) {
		return &refusal{code: CodeUnknownQuery, message: ended}
	}
	return s.unavailable("start a subscription", err)
}

func (s *session) enter(sub *subscription) {
	sub.session = s
	s.subs[sub.id] = sub
	s.srv.join(sub)
	s.srv.subscriptions.Add(1)
}

// leave takes a subscription out of all books.
func (s *session) leave(sub *subscription) {
	sub.over = true
	delete(s.subs, sub.id)
	delete(s.holds, sub)
	s.queue = without(s.queue, sub)
	s.let(sub)
}

// let ends a subscription's interest and its hold.
func (s *session) let(sub *subscription) {
	s.srv.part(sub)
	s.srv.subscriptions.Add(-1)
	s.srv.listing.remove(sub.listed)
	sub.release()
}

func without(list []*subscription, sub *subscription) []*subscription {
	kept := list[:0]
	for _, s := range list {
		if s != sub {
			kept = append(kept, s)
		}
	}
	clear(list[len(kept):])
	return kept
}

func (s *session) unsubscribe(id string) error {
	sub := s.subs[id]
	if sub == nil {
		return &refusal{code: CodeUnknownID, message: "no such subscription"}
	}
	return s.complete(sub, "unsubscribed")
}

// complete says that nothing more will come and ends the subscription.
func (s *session) complete(sub *subscription, reason string) error {
	s.leave(sub)
	return s.write(frame("complete", field{"id", sub.id}, field{"reason", reason}))
}

func (s *session) ack(r request) error {
	sub := s.subs[r.ID]
	if sub == nil {
		return &refusal{code: CodeUnknownID, message: "no such subscription"}
	}
	if r.Seq == nil {
		return badParams("ack needs seq")
	}
	sub.ack(*r.Seq)
	s.enqueue(sub) // it may have been waiting for this
	return nil
}
