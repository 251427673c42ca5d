package registry

import (
	"encoding/json"
	"strings"
	"time"
)

// A Way is the protocol by which a follower receives changes.
type Way string

const (
	WebSub    Way = "websub"
	Webhook   Way = "webhook"
	WebSocket Way = "websocket"
	SSE       Way = "sse"
	SEPA      Way = "sepa"
	Alerts    Way = "alert"  // to a receiver of alert rules
	People    Way = "notify" // to a service that people read
)

// Ways lists all ways in the order in which they are shown.
var Ways = []Way{WebSocket, SSE, SEPA, WebSub, Webhook, People, Alerts}

// Title is the name of a way in texts for people. For an unknown way it is the
// stored text.
func (w Way) Title() string {
	switch w {
	case WebSocket:
		return "WebSocket"
	case SSE:
		return "Server-sent events"
	case SEPA:
		return "SEPA"
	case WebSub:
		return "WebSub"
	case Webhook:
		return "Webhook"
	case Alerts:
		return "Alerts"
	case People:
		return "People"
	}
	return string(w)
}

// Connected reports whether the followers of a way hold a connection. Those of
// other ways are called, and their subscriptions are stored.
func (w Way) Connected() bool { return w == WebSocket || w == SSE || w == SEPA }

// A SubscriptionState says what happens to the changes of a subscription.
type SubscriptionState string

const (
	Pending            SubscriptionState = "pending"  // its callback has not confirmed it yet
	Active             SubscriptionState = "active"   // changes are delivered
	SubscriptionPaused SubscriptionState = "paused"   // by an operator or its owner; changes wait in the log
	Disabled           SubscriptionState = "disabled" // ended by the callback or the server; see Reason
	Ended              SubscriptionState = "ended"    // never stored: a store deletes an ended subscription
)

// A Subscription is what one follower asked for, with its cursor over the log.
// Subscriptions of WebSub, webhooks and receivers of alerts are stored; those of connected clients
// exist as long as the connection. Undelivered changes are not stored with it:
// they are the part of the log after Cursor.
type Subscription struct {
	ID       string `json:"id"`
	Way      Way    `json:"way"`
	Caller   string `json:"caller"`             // token name or Anonymous
	Name     string `json:"name,omitempty"`     // chosen by the caller
	Client   string `json:"client,omitempty"`   // connections: the program's name for itself
	Remote   string `json:"remote,omitempty"`   // connections: the peer's address, see ClientAddress
	Query    string `json:"query,omitempty"`    // "" means the queries of Tag and Endpoint, or all queries
	Profile  string `json:"profile,omitempty"`  // instead of Query: follow the captures of this profile
	Tag      string `json:"tag,omitempty"`      // only without Query
	Endpoint string `json:"endpoint,omitempty"` // only without Query
	Topic    string `json:"topic,omitempty"`    // WebSub: as the subscriber wrote it
	Title    string `json:"title,omitempty"`    // people: what the query was called when they began to follow it
	Callback string `json:"callback,omitempty"` // delivery URL; its query string may be a secret

	Secrets   []Secret        `json:"secrets,omitempty"` // newest first
	Lease     Duration        `json:"lease,omitempty"`   // WebSub
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	Filter    json.RawMessage `json:"filter,omitempty"` // as in freshet.v1
	Rate      Duration        `json:"rate,omitempty"`   // minimum time between two messages

	State     SubscriptionState `json:"state"`
	Reason    string            `json:"reason,omitempty"` // why it is disabled
	CreatedAt time.Time         `json:"created_at"`
	Intent    *Intent           `json:"intent,omitempty"` // the pending question to the callback

	// Cursor is the position up to which every change was delivered or given up:
	// of the query, or of the log of all queries if Query is "".
	Cursor     Position       `json:"cursor"`
	Seen       Position       `json:"seen,omitzero"`     // later than Cursor while a filter withholds changes
	Version    string         `json:"version,omitempty"` // entity tag of the content that a WebSub callback has
	Outbox     *OutboxMessage `json:"pledge,omitempty"`  // the message that is being delivered
	Withheld   []Withheld     `json:"held,omitempty"`    // without Query: what a filter or a rate withholds
	RateCursor Position       `json:"round,omitzero"`    // without Query: the position up to which the rate lets changes through

	Failures     int        `json:"failures,omitempty"` // consecutive
	Attempts     int        `json:"attempts,omitempty"` // that failed, of the message that is being delivered
	Refusals     int        `json:"refusals,omitempty"` // of the message that is being delivered
	FailingSince *time.Time `json:"failing_since,omitempty"`
	LastError    string     `json:"last_error,omitempty"`
	LastAttempt  *time.Time `json:"last_attempt,omitempty"`
	NextTry      *time.Time `json:"next_try,omitempty"`
	// Asked: the pause until then is about this receiver alone, or asked for, so nothing is tried before.
	Asked        bool       `json:"asked,omitempty"`
	LastDelivery *time.Time `json:"last_delivery,omitempty"`
	Deliveries   uint64     `json:"deliveries,omitempty"`
	GaveUp       uint64     `json:"given_up,omitempty"` // number of messages given up

	Dead []DeadLetter `json:"dead,omitempty"` // oldest first

	Reminded *time.Time `json:"reminded,omitempty"` // when a receiver of alerts was first told that something fires, or last reminded of it
	// RemindedTo is the last alert that a reminder in several messages has told, "" between reminders.
	RemindedTo string      `json:"reminded_to,omitempty"`
	Recent     []time.Time `json:"recent,omitempty"` // of the last messages to people, as many as a receiver may get in an hour

	// To is the receiver of alerts, or the one that people read. The rest is of receivers of alerts. Their messages
	// are stored in the order of their numbers, until they
	// are delivered or dropped; dead letters are among them.
	To     *Receiver `json:"to,omitempty"`
	Newest uint64    `json:"newest,omitempty"` // the number of the newest message
	Stored int       `json:"stored,omitempty"` // messages; the store counts them
	Bytes  int64     `json:"bytes,omitempty"`  // of these messages
	Batch  int       `json:"batch,omitempty"`  // alerts in one request, while a refused alert is searched for
	Again  int       `json:"again,omitempty"`  // alerts of a request whose answer is unknown: the same ones go again, with the same id
	Drop   []uint64  `json:"-"`                // of an edit: messages that are deleted in its transaction
}

// Waiting returns how many messages about alerts wait for a receiver.
func (s *Subscription) Waiting() int { return max(0, s.Stored-len(s.Dead)) }

// Matches reports whether the id, name, caller, client, address or object of a
// subscription contains a text, ignoring case. The query string of a callback
// is not searched.
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

// Progress is the position up to which every change was handled.
func (s *Subscription) Progress() Position {
	if s.Seen.Epoch != "" {
		return s.Seen
	}
	return s.Cursor
}

// A Secret signs messages until it expires. The first secret of a list never
// expires.
type Secret struct {
	Key   string     `json:"key"`
	Until *time.Time `json:"until,omitempty"`
}

// An Intent is a question that a callback must answer before the requested
// change takes effect.
type Intent struct {
	Mode   string    `json:"mode"` // subscribe, unsubscribe, denied (needs no answer), verify
	Secret string    `json:"secret,omitempty"`
	Lease  Duration  `json:"lease,omitempty"`
	Caller string    `json:"caller,omitempty"`
	Topic  string    `json:"topic,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`

	Filter json.RawMessage `json:"filter,omitempty"` // filter and rate that take effect
	Rate   Duration        `json:"rate,omitempty"`
}

// An OutboxMessage fixes the content of a message before its first attempt, so
// that every attempt is the same, even after a crash.
type OutboxMessage struct {
	ID    string    `json:"id"`
	Type  string    `json:"type"`
	From  Position  `json:"from"`            // the follower's position before the message
	Until Position  `json:"until"`           // and after it
	Query string    `json:"query,omitempty"` // the query of these positions, for withheld changes
	At    time.Time `json:"at"`              // when the message was created
	Check time.Time `json:"check,omitzero"`  // of a snapshot: when its result was checked last
	Info  string    `json:"info,omitempty"`
	Title string    `json:"title,omitempty"` // for people: what it says, if that has labels, which come and go
	Text  string    `json:"text,omitempty"`

	Summary string `json:"summary,omitempty"` // of a dead letter: see FirstLine
}

// FirstLine returns the part of a message by which people recognise it: its first line, at most 200
// bytes of it.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 200
	if len(line) <= most {
		return line
	}
	return strings.ToValidUTF8(line[:most], "") + "…"
}

// A Withheld is a query with pending changes before the cursor of a
// subscription without Query.
type Withheld struct {
	Query string   `json:"query"`
	From  Position `json:"from"`            // the follower's position in it
	Until Position `json:"until"`           // the newest change examined
	First uint64   `json:"first"`           // the offset of the oldest pending change
	Fresh bool     `json:"fresh,omitempty"` // the filter has not examined it yet
}

// A DeadLetter is a message that was given up.
type DeadLetter struct {
	OutboxMessage
	Seq      uint64    `json:"seq,omitempty"` // about an alert: the number of the message
	Attempts int       `json:"attempts"`
	Error    string    `json:"error"`
	GivenUp  time.Time `json:"given_up_at"`
	Replay   bool      `json:"replay,omitempty"` // to be sent again
}

// A WebhookRequest is a request to register a webhook. Without Query it follows
// all queries with Tag at Endpoint.
type WebhookRequest struct {
	URL      string          `json:"url"`
	Name     string          `json:"name"`
	Query    string          `json:"query"` // id or name
	Tag      string          `json:"tag"`
	Endpoint string          `json:"endpoint"`
	Filter   json.RawMessage `json:"filter"`
	Rate     Duration        `json:"rate"`
	Secret   string          `json:"secret"` // whsec_ and base64 of 24 to 64 bytes; generated if empty
}

// A ReceiverRequest is a request to tell people the changes of a query.
type ReceiverRequest struct {
	Address string `json:"notify"` // of a service, see package notify/service
	Query   string `json:"query"`  // id or name
	Name    string `json:"name"`
	Quiet
}

// A WebhookEdit edits a webhook. Nil fields stay unchanged.
type WebhookEdit struct {
	Name   *string          `json:"name"`
	Filter *json.RawMessage `json:"filter"`
	Rate   *Duration        `json:"rate"`
}

// A Replay is a request to send messages to a webhook again: one dead letter,
// the changes after a position, or else all dead letters.
type Replay struct {
	ID    string    `json:"id"`
	After *Position `json:"after"`
}
