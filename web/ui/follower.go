package ui

import (
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A follower is a subscription with its lag.
type follower struct {
	registry.Subscription
	clock
	Lag     uint64 // changes, captures or messages that it has not received
	Waiting time.Duration
	Due     time.Time // when its settings let the oldest of them go, zero if only they know
	Held    bool      // its settings hold them back
}

const lagging = 5 * time.Second // a follower that is behind for longer is reported

// The conditions of followers, worst first.
const (
	givenUp = iota
	failingNow
	laggingNow
	heldBack
	notAgreed
	pausedNow
	served
)

var conditions = [...]state{{"failing", "given-up"}, {"failing", "failing"}, {"stale", "lagging"}, {"paused", "waiting"},
	{"new", "pending"}, {"paused", "paused"}, {"live", "live"}}

func (f *follower) condition() int {
	switch {
	case f.Subscription.State == registry.Disabled:
		return givenUp
	case f.Failures > 0:
		return failingNow
	case f.Subscription.State == registry.Active && f.Held && f.Lag > 0:
		return heldBack
	case f.Subscription.State == registry.Active && f.Waiting > lagging && f.now.Sub(f.Due) > lagging:
		return laggingNow
	case f.Subscription.State == registry.Pending:
		return notAgreed
	case f.Subscription.State == registry.SubscriptionPaused:
		return pausedNow
	}
	return served
}

// State overrides the stored state with the displayed one.
func (f *follower) State() state { return conditions[f.condition()] }

func (f *follower) Path() string    { return "/deliveries/" + url.PathEscape(f.ID) }
func (f *follower) Anonymous() bool { return f.Caller == registry.Anonymous }
func (f *follower) Address() string { return addressOf(f.Callback) }
func (f *follower) Masked() string  { return web.MaskedCallback(f.Callback) }
func (f *follower) WaitsFor() string {
	unit := time.Second // one unit, so that a narrow table has room
	for _, u := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		if f.Waiting >= u {
			unit = u
		}
	}
	return span(f.Waiting.Truncate(unit))
}
func (f *follower) People() bool  { return f.Way == registry.People }
func (f *follower) Every() string { return span(time.Duration(f.Rate)) }

// Lacks returns what it has not received, for one of it.
func (f *follower) Lacks() string {
	switch {
	case f.Profile != "":
		return "capture"
	case f.Way == registry.Alerts:
		return "message"
	}
	return "change"
}

// Is reports whether a subscription has a stored state.
func (f *follower) Is(s registry.SubscriptionState) bool { return f.Subscription.State == s }

// Valid returns how long the question is valid whether a person wants messages, "" if there is none.
func (f *follower) Valid() string {
	if f.ExpiresAt == nil {
		return ""
	}
	return unit(max(0, f.ExpiresAt.Sub(f.now)))
}

// Daily reports whether a receiver gets its digest at a time of the day.
func (f *follower) Daily() bool { return strings.Contains(f.To.Quiet.Digest, ":") }

// Title returns the name that the client program gives itself, else the label given by
// its owner, else its address or its token; "" if it has none of these.
func (f *follower) Title() string {
	switch {
	case f.Way.Connected() && f.Client != "":
		return clip(f.Client, 80)
	case !f.Way.Connected() && f.Name != "":
		return clip(f.Name, 80)
	case !f.Way.Connected() && f.Callback != "":
		return clip(f.Address(), 80)
	case f.Anonymous():
		return ""
	}
	return f.Caller
}

// addressOf returns the host of a URL, or the whole text if it does not parse.
func addressOf(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return raw
}

// Counted is a count of followers. Counting reads all of them, so the interval between
// counts is a multiple of the time one takes.
type counted struct {
	N, Failing int
	Letters    map[string]int // dead letters by caller
}

// lettersOf returns how many dead letters a caller may see.
func (c counted) lettersOf(who registry.Caller) (n int) {
	if !who.Role.Includes(registry.RoleAdmin) {
		return c.Letters[who.Name]
	}
	for _, of := range c.Letters {
		n += of
	}
	return n
}
