package api

import (
	"encoding/json"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Subscription is a subscription without secrets that would allow others to act
// as the subscriber.
type Subscription struct {
	ID       string       `json:"id"`
	Way      registry.Way `json:"way"`
	Caller   string       `json:"caller"`
	Name     string       `json:"name,omitempty"`
	Client   string       `json:"client,omitempty"`
	Remote   string       `json:"remote,omitempty"`
	Query    string       `json:"query,omitempty"`
	Profile  string       `json:"profile,omitempty"`
	Tag      string       `json:"tag,omitempty"`
	Endpoint string       `json:"endpoint,omitempty"`
	Topic    string       `json:"topic,omitempty"`
	Callback string       `json:"callback,omitempty"`
	Kind     string       `json:"kind,omitempty"` // of a receiver of alerts, or of a service that people read
	registry.Quiet
	State        registry.SubscriptionState `json:"state"`
	Reason       string                     `json:"reason,omitempty"`
	CreatedAt    time.Time                  `json:"created_at"`
	ExpiresAt    *time.Time                 `json:"expires_at,omitempty"`
	Filter       json.RawMessage            `json:"filter,omitempty"`
	Rate         registry.Duration          `json:"rate,omitempty"`
	Epoch        string                     `json:"epoch"`
	Seq          uint64                     `json:"seq"`
	Lag          Lag                        `json:"lag"`
	Deliveries   uint64                     `json:"deliveries"`
	GivenUp      uint64                     `json:"given_up"`
	Failures     int                        `json:"failures"`
	FailingSince *time.Time                 `json:"failing_since,omitempty"`
	LastError    string                     `json:"last_error,omitempty"`
	LastAttempt  *time.Time                 `json:"last_attempt,omitempty"`
	LastDelivery *time.Time                 `json:"last_delivery,omitempty"`
	NextTry      *time.Time                 `json:"next_try,omitempty"`
}

// A Webhook is a subscription with the additional fields of webhooks.
type Webhook struct {
	Subscription
	Secret      string       `json:"secret,omitempty"` // only in the answer that creates it
	OldSecret   *time.Time   `json:"old_secret_until,omitempty"`
	DeadLetters []DeadLetter `json:"dead_letters"`
}

type DeadLetter struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Epoch     string    `json:"epoch"`
	Prev      uint64    `json:"prev"`
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	Attempts  int       `json:"attempts"`
	Error     string    `json:"error"`
	GivenUpAt time.Time `json:"given_up_at"`
	Summary   string    `json:"summary,omitempty"`
	Replay    bool      `json:"replay,omitempty"` // waits to be sent again
}

// A LetterBox is a subscription with its dead letters.
type LetterBox struct {
	Subscription string       `json:"subscription"`
	Way          registry.Way `json:"way"`
	Callback     string       `json:"callback"`
	DeadLetters  []DeadLetter `json:"dead_letters"`
}

// Lag is how far behind a subscription is: the number of changes that it has not
// received (of all queries if it has no query), and how long the oldest stored one of
// them has waited.
type Lag struct {
	Changes uint64            `json:"changes"`
	Behind  registry.Duration `json:"behind"`
}
