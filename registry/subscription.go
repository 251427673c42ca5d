package registry

import (
	"encoding/json"
	"strings"
	"time"
)

// A Way is a way out: how a subscriber is told of changes.
type Way string

const (
	WebSub    Way = "websub"
	Webhook   Way = "webhook"
	WebSocket Way = "websocket"
	SSE       Way = "sse"
	SEPA      Way = "sepa"
)

// A SubscriptionState says what becomes of changes for a subscription.
type SubscriptionState string

const (
	Pending            SubscriptionState = "pending"  // its callback has not agreed yet
	Active             SubscriptionState = "active"   // changes are delivered
	SubscriptionPaused SubscriptionState = "paused"   // somebody paused it; changes wait in the log
	Disabled           SubscriptionState = "disabled" // the callback or the server gave up; Reason says why
	Ended              SubscriptionState = "ended"    // never stored: a store deletes what an edit leaves ended
)

// A Subscription is a cursor over the change log on behalf of somebody who is
// told of changes. Those of WebSub and webhooks are stored; those of connected
// clients exist while the connection does. Undelivered changes are never kept
// with it: they are what the log has after Cursor.
type Subscription struct {
	ID       string `json:"id"`
	Way      Way    `json:"way"`
	Caller   string `json:"caller"`             // token name or Anonymous
	Name     string `json:"name,omitempty"`     // the caller's own word for it
	Client   string `json:"client,omitempty"`   // of a connection: what its program says that it is
	Remote   string `json:"remote,omitempty"`   // of a connection: where it comes from, see ClientAddress
	Query    string `json:"query,omitempty"`    // "": the queries of Tag and Endpoint, all for none
	Profile  string `json:"profile,omitempty"`  // instead of Query: the captures of this profile
	Tag      string `json:"tag,omitempty"`      // only without Query
	Endpoint string `json:"endpoint,omitempty"` // only without Query
	Topic    string `json:"topic,omitempty"`    // WebSub: as the subscriber wrote it
	Callback string `json:"callback,omitempty"` // where deliveries go; its query string may be a secret

	Secrets   []Secret        `json:"secrets,omitempty"` // the newest first
	Lease     Duration        `json:"lease,omitempty"`   // WebSub
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	Filter    json.RawMessage `json:"filter,omitempty"` // as in freshet.v1
	Rate      Duration        `json:"rate,omitempty"`   // least time between two messages

	State     SubscriptionState `json:"state"`
	Reason    string            `json:"reason,omitempty"` // of being disabled
	CreatedAt time.Time         `json:"created_at"`
	Intent    *Intent           `json:"intent,omitempty"` // what the callback is to be asked

	// Cursor is the position up to which everything is told or given up: of the
	// query, of the whole store for those without one.
	Cursor     Position       `json:"cursor"`
	Seen       Position       `json:"seen,omitzero"`     // later than Cursor while a filter holds changes back
	Version    string         `json:"version,omitempty"` // entity tag of what a WebSub callback has
	Pledge     *OutboxMessage `json:"pledge,omitempty"`  // the message that is being delivered
	Held       []Withheld     `json:"held,omitempty"`    // without Query: what a filter or a rate keeps back
	RateCursor Position       `json:"round,omitzero"`    // without Query: up to there a rate lets through at once

	Failures     int        `json:"failures,omitempty"` // in a row
	FailingSince *time.Time `json:"failing_since,omitempty"`
	LastError    string     `json:"last_error,omitempty"`
	LastAttempt  *time.Time `json:"last_attempt,omitempty"`
	NextTry      *time.Time `json:"next_try,omitempty"`
	LastDelivery *time.Time `json:"last_delivery,omitempty"`
	Deliveries   uint64     `json:"deliveries,omitempty"`
	GaveUp       uint64     `json:"given_up,omitempty"` // messages given up

	Dead []DeadLetter `json:"dead,omitempty"` // the oldest first
}

// Matches says whether a subscription has a text in its id, its name, its caller,
// client or address, or in what it follows, in either case. Of a callback only what
// is shown counts.
func Matches(s *Subscription, text string) bool {
	if text == "" {
		return true
	}
	callback, _, _ := strings.Cut(s.Callback, "?")
	text = strings.ToLower(text)
	for _, part := range []string{s.ID, s.Name, s.Caller, s.Client, s.Remote, s.Query, s.Profile, s.Tag, s.Endpoint, callback} {
		if strings.Contains(strings.ToLower(part), text) {
			return true
		}
	}
	return false
}

// Progress is the position up to which there is nothing left to tell.
func (s *Subscription) Progress() Position {
	if s.Seen.Epoch != "" {
		return s.Seen
	}
	return s.Cursor
}

// A Secret signs messages until it ends; the first of a list never does.
type Secret struct {
	Key   string     `json:"key"`
	Until *time.Time `json:"until,omitempty"`
}

// An Intent is a question that a callback has to answer before what it is
// about comes into force.
type Intent struct {
	Mode   string    `json:"mode"` // subscribe, unsubscribe, denied (which asks nothing), verify
	Secret string    `json:"secret,omitempty"`
	Lease  Duration  `json:"lease,omitempty"`
	Caller string    `json:"caller,omitempty"`
	Topic  string    `json:"topic,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`

	Filter json.RawMessage `json:"filter,omitempty"` // to be in force
	Rate   Duration        `json:"rate,omitempty"`
}

// A OutboxMessage fixes what a message tells before its first attempt, so that every
// attempt, also after a crash, says the same.
type OutboxMessage struct {
	ID    string    `json:"id"`
	Type  string    `json:"type"`
	From  Position  `json:"from"`            // the receiver's position before
	Until Position  `json:"until"`           // and after
	Query string    `json:"query,omitempty"` // whose positions they are, of what was held
	At    time.Time `json:"at"`              // when it was pledged
	Info  string    `json:"info,omitempty"`
}

// A Withheld is a query of which something waits that the cursor of a subscription
// without Query has passed.
type Withheld struct {
	Query string   `json:"query"`
	From  Position `json:"from"`            // what the receiver knows of it
	Until Position `json:"until"`           // the newest change looked at
	First uint64   `json:"first"`           // the offset of the oldest that waits
	Fresh bool     `json:"fresh,omitempty"` // it has not been held against the filter yet
}

// A DeadLetter is a message that was given up.
type DeadLetter struct {
	OutboxMessage
	Attempts int       `json:"attempts"`
	Error    string    `json:"error"`
	GivenUp  time.Time `json:"given_up_at"`
	Replay   bool      `json:"replay,omitempty"` // to be tried again
}

// A WebhookRequest is what is said of a webhook when it is registered. Without
// Query it is told of the changes of all queries with Tag on Endpoint.
type WebhookRequest struct {
	URL      string          `json:"url"`
	Name     string          `json:"name"`
	Query    string          `json:"query"` // id or name
	Tag      string          `json:"tag"`
	Endpoint string          `json:"endpoint"`
	Filter   json.RawMessage `json:"filter"`
	Rate     Duration        `json:"rate"`
	Secret   string          `json:"secret"` // whsec_ and base64 of 24 to 64 bytes; made up when empty
}

// A WebhookEdit changes what may be changed of a webhook; nil leaves it.
type WebhookEdit struct {
	Name   *string
	Filter *json.RawMessage
	Rate   *Duration
}

// A Replay says what is to be sent to a webhook again: one dead letter, what
// changed after a position, else all dead letters.
type Replay struct {
	ID    string    `json:"id"`
	After *Position `json:"after"`
}
