package notify

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/registry"
)

// handle handles one message of the client.
func (s *session) handle(in *inbound) error {
	var fatal *closing
	var closed *websocket.CloseError
	switch {
	case errors.As(in.err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		return &closing{closed.Code, ""} // echo the client's code
	case errors.As(in.err, &fatal) || errors.Is(in.err, errGone):
		return in.err
	}
	if in.Type == "init" {
		return s.init(in)
	}
	if !s.login.ready {
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
		return s.out.write(frame("pong", field{"payload", rawOrNil(r.Payload)}))
	}
	return badParams("unknown type %.64q", r.Type)
}

func (s *session) init(in *inbound) error {
	if s.login.ready {
		return &closing{CloseTooMany, "init was sent already"}
	}
	if in.err != nil {
		return &closing{CloseMalformed, in.err.Error()}
	}
	l := &s.login
	if in.Token != "" {
		l.token = in.Token
	}
	if err := l.check(s.srv); err != nil {
		return err
	}
	l.client, l.ready, l.expiry = shortened(in.Client), true, l.caller.Expires
	s.alarm.reset() // another time comes next
	o := s.srv.opts
	return s.out.write(frame("ready",
		field{"session", rand.Text()},
		field{"limits", map[string]int64{
			"message": o.Limits.Message, "subscriptions": int64(o.Limits.Subscriptions),
			"window": int64(o.Limits.Window), "change": max(0, o.Limits.Change),
		}},
		field{"ping", registry.Duration(o.Timing.Ping)}))
}

// resolve finds or registers the query that a subscription follows. The returned
// function releases it.
func (s *Server) resolve(caller registry.Caller, t target) (registry.Query, func(), error) {
	reg := s.opts.Registrar
	if t.ref != "" {
		q, err := reg.Resolve(caller, t.ref)
		if errors.Is(err, registry.ErrNotFound) {
			return q, nil, &refusal{code: CodeUnknownQuery, message: "no query has this id or name"}
		}
		if r := ambiguous(err); r != nil {
			return q, nil, r
		}
		return q, func() {}, s.unavailable("resolve a query", err)
	}
	if !caller.MayRegister() {
		return registry.Query{}, nil, &refusal{code: CodeNotAllowed, message: "registering a query needs the role app"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timing.Write)
	defer cancel()
	q, release, err := reg.Follow(ctx, caller, t.Endpoint, t.SPARQL)
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

// subscribe opens a subscription. It joins the topic before it reads the log, so that
// no commit is missed.
func (s *session) subscribe(r request) error {
	if !validID.MatchString(r.ID) {
		return badParams("id must match [A-Za-z0-9._-]{1,64}")
	}
	if s.subs.byID[r.ID] != nil {
		return &closing{CloseInUse, "subscription id in use: " + r.ID}
	}
	if n := s.srv.opts.Limits.Subscriptions; len(s.subs.byID) >= n {
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
	q, release, err := s.srv.resolve(s.login.caller, t)
	if err != nil {
		return err
	}
	if err := sub.cursor.Filter.Fits(&q); err != nil {
		release()
		return badParams("%v", err)
	}
	sub.follows, sub.endpoint, sub.form, sub.ordered, sub.release = q.ID, q.Endpoint, q.Form, q.Ordered, release
	sub.cursor.Query, sub.session = q.ID, s
	s.subs.enter(sub)
	sub.list(r.Filter)
	return sub.begun(sub.begin(from), "the query ended")
}

func (s *session) unsubscribe(id string) error {
	sub := s.subs.byID[id]
	if sub == nil {
		return &refusal{code: CodeUnknownID, message: "no such subscription"}
	}
	return sub.end("unsubscribed")
}

func (s *session) ack(r request) error {
	sub := s.subs.byID[r.ID]
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
