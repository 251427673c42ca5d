package websub_test

import (
	"net/url"
	"testing"

	"github.com/freshet/freshet/notify/websub"
	"github.com/freshet/freshet/registry"
)

// with sends a form to the hub with a token; pairs are names and values.
func (r *rig) with(token string, pairs ...string) answer {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add("hub."+pairs[i], pairs[i+1])
	}
	return r.raw("application/x-www-form-urlencoded", form.Encode(), token)
}

func owners(s *setup) {
	s.gate = gate{"a": {Name: "alice", Role: registry.RoleApp}, "b": {Name: "bob", Role: registry.RoleApp},
		"o": {Name: "ops", Role: registry.RoleAdmin}}
}

// Only the same token or an admin renews and ends a token's subscription, also while its
// callback is being asked.
func TestOwnerChangesSubscription(t *testing.T) {
	for _, pending := range []bool{false, true} {
		r, s := newRig(t, owners), newSubscriber(t)
		r.public = true
		answered := make(chan struct{})
		if pending {
			s.set(func(q url.Values) (int, string) { <-answered; return confirm(q) }, nil)
		}
		cb := s.http.URL + "/cb"
		r.with("a", "mode", "subscribe", "topic", r.topic(), "callback", cb, "secret", "sA", "lease_seconds", "5000").want(t, 202)
		if !pending {
			until(t, "active", func() bool { x := r.subscription(); return x.State == registry.Active && x.Intent == nil })
		}
		for _, token := range []string{"b", ""} {
			r.with(token, "mode", "subscribe", "topic", r.topic(), "callback", cb, "secret", "sB", "lease_seconds", "60").want(t, 403)
			r.with(token, "mode", "unsubscribe", "topic", r.topic(), "callback", cb).want(t, 403)
		}
		close(answered)
		until(t, "active", func() bool { x := r.subscription(); return x.State == registry.Active && x.Intent == nil })
		if x := r.subscription(); x.Caller != "alice" || x.Secrets[0].Key != "sA" || len(s.questions()) != 1 {
			t.Fatalf("pending %v: %s's with %v after %d questions", pending, x.Caller, x.Secrets, len(s.questions()))
		}
		r.change()
		if d := s.last(1); d.header.Get("X-Hub-Signature") != websub.Sign("sA", []byte(d.body)) {
			t.Errorf("pending %v: signature %q", pending, d.header.Get("X-Hub-Signature"))
		}
		r.with("o", "mode", "subscribe", "topic", r.topic(), "callback", cb, "secret", "sO").want(t, 202)
		until(t, "the admin's renewal", func() bool { x := r.subscription(); return x.Intent == nil && x.Secrets[0].Key == "sO" })
		if x := r.subscription(); x.Caller != "alice" {
			t.Errorf("pending %v: the admin's renewal made it %s's", pending, x.Caller)
		}
		r.with("a", "mode", "unsubscribe", "topic", r.topic(), "callback", cb).want(t, 202)
		until(t, "the end", func() bool { return r.subscription() == nil })
	}
}

// Without a token the callback is the proof: secret and lease stay until it confirms, and a
// token may claim the subscription.
func TestAnonymousSubscriptionIsItsCallbacks(t *testing.T) {
	r, s := newRig(t, owners), newSubscriber(t)
	r.public = true
	r.subscribe(s, "secret", "old", "lease_seconds", "5000")
	before := *r.subscription()
	s.set(func(url.Values) (int, string) { return 404, "" }, nil)
	cb := s.http.URL + "/cb"
	r.with("", "mode", "subscribe", "topic", r.topic(), "callback", cb, "secret", "new", "lease_seconds", "60").want(t, 202)
	until(t, "the answer", func() bool { return len(s.questions()) == 2 && r.subscription().Intent == nil })
	if x := r.subscription(); x.Secrets[0].Key != "old" || !x.ExpiresAt.Equal(*before.ExpiresAt) {
		t.Errorf("not confirmed, yet %v until %v", x.Secrets, x.ExpiresAt)
	}
	s.set(confirm, nil)
	r.with("b", "mode", "subscribe", "topic", r.topic(), "callback", cb).want(t, 202)
	until(t, "the claim", func() bool { x := r.subscription(); return x.Intent == nil && x.Caller == "bob" })
	r.with("", "mode", "unsubscribe", "topic", r.topic(), "callback", cb).want(t, 403)
}
