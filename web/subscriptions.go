package web

// This file serves the subscriptions of all followers and their dead letters, and makes those of people.

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

func (c followerAPI) view(s registry.Subscription) (api.Subscription, error) {
	v := api.Subscription{ID: s.ID, Way: s.Way, Caller: s.Caller, Name: s.Name, Client: s.Client, Remote: s.Remote, Query: s.Query,
		Profile: s.Profile, Tag: s.Tag, Endpoint: s.Endpoint, Topic: s.Topic,
		Callback: MaskedCallback(s.Callback), State: s.State, Reason: s.Reason, CreatedAt: s.CreatedAt.UTC(), ExpiresAt: s.ExpiresAt,
		Filter: s.Filter, Rate: s.Rate,
		Epoch: s.Cursor.Epoch, Seq: s.Cursor.Seq, Deliveries: s.Deliveries, GivenUp: s.GaveUp, Failures: s.Failures, FailingSince: s.FailingSince,
		LastError: s.LastError, LastAttempt: s.LastAttempt, LastDelivery: s.LastDelivery, NextTry: s.NextTry}
	if s.To != nil {
		v.Kind, v.Quiet = s.To.Kind, s.To.Quiet
	}
	var err error
	v.Lag, err = c.lagOf(s, c.Now())
	return v, err
}

// captureLag counts the captures that a follower of a profile has not received.
func (c *Config) captureLag(s registry.Subscription, now time.Time) (v api.Lag, err error) {
	it, err := c.Profiles.ProfileItem(s.Profile)
	if missing(err) {
		return v, nil
	}
	if v.Changes = Behind(s.Cursor, it.Status.Position); v.Changes == 0 || err != nil {
		return v, err
	}
	next, err := c.Profiles.Captured(s.Profile, s.Cursor, 1)
	if len(next) > 0 {
		v.Behind = behindSince(next[0].EndedAt, now)
	}
	if missing(err) || isGap(err) {
		err = nil
	}
	return v, err
}

func isGap(err error) bool {
	var gap *registry.GapError
	return errors.As(err, &gap)
}

// MaskedCallback hides a query string, which may contain a secret.
func MaskedCallback(callback string) string {
	if base, _, ok := strings.Cut(callback, "?"); ok {
		return base + "?…"
	}
	return callback
}

// lagOf returns how much a subscription has not received.
func (c *Config) lagOf(s registry.Subscription, now time.Time) (api.Lag, error) {
	return c.Lags(now)(&s)
}

// Lags returns a function that says how much subscriptions have not received: changes, captures of their profile, or messages
// about alerts. It reads once what they share.
func (c *Config) Lags(now time.Time) func(s *registry.Subscription) (api.Lag, error) {
	type place struct {
		query string
		at    registry.Position
	}
	newestOf := once(c.newest)
	oldestAfter := once(func(p place) (time.Time, error) { return waitingSince(c.History, p.query, p.at) })
	return func(s *registry.Subscription) (v api.Lag, err error) {
		switch {
		case s.Profile != "":
			return c.captureLag(*s, now)
		case s.Way == registry.Alerts: // its messages are about changes of its rules' queries
			return api.Lag{Changes: uint64(s.Waiting()), Behind: behindSince(alertsWaitSince(s), now)}, nil
		}
		newest, err := newestOf(s.Query)
		if v.Changes = Behind(s.Progress(), newest); v.Changes == 0 || err != nil {
			return v, err
		}
		oldest, err := oldestAfter(place{s.Query, s.Progress()})
		v.Behind = behindSince(sinceBegun(s, newest, oldest), now)
		return v, err
	}
}

// newest returns the position of the newest change of a query, or of all (""). It is zero for a query that ended:
// nothing waits for its subscribers, who will be notified of that.
func (c *Config) newest(query string) (registry.Position, error) {
	if query == "" {
		return c.History.Head()
	}
	st, _, err := c.History.Current(query, false)
	if missing(err) {
		return registry.Position{}, nil
	}
	return st.Position, err
}

// once makes a function be called once for each argument with which it does not fail.
func once[K comparable, V any](f func(K) (V, error)) func(K) (V, error) {
	known := map[K]V{}
	return func(k K) (V, error) {
		v, ok := known[k]
		if ok {
			return v, nil
		}
		v, err := f(k)
		if err == nil {
			known[k] = v
		}
		return v, err
	}
}

// behindSince returns for how long something waits, 0 if since is zero.
func behindSince(since, now time.Time) registry.Duration {
	if since.IsZero() {
		return 0
	}
	return registry.Duration(max(0, now.Sub(since)))
}

// Due returns since when a subscription lets a change go that has waited since a time. held is true if its own
// settings or a pause hold it back: then due is when they let it go, zero if only they know.
func (c *Config) Due(s *registry.Subscription, since, now time.Time) (due time.Time, held bool) {
	switch {
	case s.State == registry.Pending, s.State == registry.SubscriptionPaused,
		len(s.Filter) > 0 && s.Outbox == nil && s.Failures == 0: // what passes the filter is in the outbox
		return time.Time{}, true
	case s.To != nil:
		due = c.Quiet(s, since, now)
	case s.Rate > 0 && s.LastDelivery != nil && s.LastDelivery.Add(time.Duration(s.Rate)).After(since):
		due = s.LastDelivery.Add(time.Duration(s.Rate))
	default:
		due = since
	}
	return due, due.After(now)
}

// seenStates are the states by which lists of subscriptions can be filtered.
var seenStates = []registry.SubscriptionState{registry.Pending, registry.Active, registry.SubscriptionPaused, registry.Disabled}

func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// collect returns up to limit of the caller's subscriptions that fit, and the cursor of
// the next page.
func (c followerAPI) collect(fits func(registry.Subscription) bool) (list []registry.Subscription, next string, err error) {
	limit, after := c.params.limit(usualPage, mostPage), c.params.cursor("")
	if c.params.err != nil {
		return nil, "", c.params.err
	}
	for s, err := range registry.EachSubscription(c.Subscriptions.Subscriptions, after) {
		if err != nil {
			return list, "", err
		}
		if c.caller.Owns(s.Caller) && fits(s) {
			if len(list) == limit {
				return list, after, nil
			}
			list = append(list, s)
		}
		after = s.ID
	}
	return list, "", nil
}

func (c followerAPI) list() error {
	way, state, query := c.params.Get("way"), c.params.Get("state"), c.params.Get("query")
	if way != "" && !slices.Contains(registry.Ways, registry.Way(way)) {
		return malformed("?way", "way is one of %s", join(registry.Ways))
	}
	if state != "" && !slices.Contains(seenStates, registry.SubscriptionState(state)) {
		return malformed("?state", "state is one of %s", join(seenStates))
	}
	if query != "" {
		q, err := c.Registry.Resolve(c.caller, query)
		if err != nil {
			return err
		}
		query = q.ID
	}
	list, next, err := c.collect(func(s registry.Subscription) bool {
		return registry.Matches(&s, c.params.Get("q")) && (way == "" || string(s.Way) == way) &&
			(state == "" || string(s.State) == state) && (query == "" || s.Query == query)
	})
	if err != nil {
		return err
	}
	views, err := viewed(list, c.view)
	if err != nil {
		return err
	}
	return c.page("subscriptions", views, next, "way", "state", "query", "q", "limit")
}

// subscription returns the subscription of the path if it belongs to the caller.
func (c *call) subscription() (registry.Subscription, error) {
	s, err := c.Subscriptions.Subscription(c.r.PathValue("id"))
	if err == nil && !c.caller.Owns(s.Caller) {
		err = registry.ErrNotFound
	}
	if missing(err) {
		return s, notFound("there is no such subscription, or it belongs to another caller")
	}
	return s, err
}

func (c followerAPI) show(s registry.Subscription) error {
	v, err := c.view(s)
	return c.reply(http.StatusOK, v, err)
}

// actOnSubscription returns a route that performs a verb.
func actOnSubscription(verb string) func(*call) error {
	return of((*call).subscription, func(c followerAPI, s registry.Subscription) error {
		s, err := c.Subscriptions.Act(s.ID, verb)
		switch {
		case err != nil:
			return err
		case verb == "drop":
			return c.noContent(nil)
		}
		return c.show(s)
	})
}

func (c followerAPI) createReceiver() error {
	var r registry.ReceiverRequest
	if err := c.decode(&r, typeJSON); err != nil {
		return err
	}
	s, err := c.Receivers.Create(c.caller, r)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.url("/v1/subscriptions/"+url.PathEscape(s.ID)))
	v, err := c.view(s)
	return c.reply(http.StatusCreated, v, err)
}

// testReceiver sends a test message, and answers when the service has answered.
func (c followerAPI) testReceiver() error {
	var body struct {
		Address string `json:"notify"`
	}
	if err := c.decode(&body, typeJSON); err != nil {
		return err
	}
	kind, err := c.Receivers.Test(c.r.Context(), c.caller, body.Address)
	return c.reply(http.StatusOK, map[string]string{"kind": kind}, err)
}

func deadLetterOf(d *registry.DeadLetter) api.DeadLetter {
	return api.DeadLetter{ID: d.ID, Type: d.Type, Epoch: d.Until.Epoch, Prev: d.From.Seq, Seq: d.Until.Seq,
		Time: d.At, Attempts: d.Attempts, Error: d.Error, GivenUpAt: d.GivenUp, Summary: d.Summary, Replay: d.Replay}
}

// listLetters lists the dead letters of all of the caller's subscriptions.
func (c followerAPI) listLetters() error {
	list, next, err := c.collect(func(s registry.Subscription) bool { return len(s.Dead) > 0 })
	if err != nil {
		return err
	}
	views := make([]api.LetterBox, len(list))
	for i, s := range list {
		views[i] = api.LetterBox{Subscription: s.ID, Way: s.Way, Callback: MaskedCallback(s.Callback)}
		for k := range s.Dead {
			views[i].DeadLetters = append(views[i].DeadLetters, deadLetterOf(&s.Dead[k]))
		}
	}
	return c.page("subscriptions", views, next, "limit")
}

func (c followerAPI) resendLetter(s registry.Subscription) error {
	s, err := c.DeadLetters.Resend(s.ID, c.r.PathValue("letter"))
	if missing(err) {
		return errNoLetter
	} else if err != nil {
		return err
	}
	v, err := c.view(s)
	return c.reply(http.StatusAccepted, v, err)
}

func (c followerAPI) dropLetter(s registry.Subscription) error {
	_, err := c.DeadLetters.DropLetter(s.ID, c.r.PathValue("letter"))
	if missing(err) {
		return errNoLetter
	}
	return c.noContent(err)
}

var errNoLetter = notFound("the subscription has no such dead letter")
