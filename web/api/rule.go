package api

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Rule is the rule resource. Alerts and history are in the answers about one rule.
type Rule struct {
	ID            string              `json:"id"`
	Name          string              `json:"name"`
	Caller        string              `json:"caller"`
	Query         string              `json:"query"`
	When          string              `json:"when"`
	For           registry.Duration   `json:"for"`
	KeepFiringFor registry.Duration   `json:"keep_firing_for"`
	Labels        map[string]string   `json:"labels"`
	Summary       string              `json:"summary"`
	To            []Receiver          `json:"to"`
	CreatedAt     time.Time           `json:"created_at"`
	Status        registry.RuleStatus `json:"status"`
	Reason        string              `json:"reason,omitempty"`
	CheckedAt     time.Time           `json:"checked_at,omitzero"`
	Seq           uint64              `json:"seq"`
	Pending       int                 `json:"pending"`
	Firing        int                 `json:"firing"`
	Fired         uint64              `json:"fired"`
	Alerts        []Alert             `json:"alerts,omitzero"`
	History       []RuleEvent         `json:"history,omitzero"`
}

// A Receiver is where alerts go, with the fate of their messages. In JSON the member with the name of its
// kind is its address.
type Receiver struct {
	Kind    string `json:"-"`
	Address string `json:"-"`
	registry.Quiet
	Secret    string    `json:"secret,omitempty"` // only in the answer that creates it
	Waiting   int       `json:"waiting"`
	Sent      uint64    `json:"sent"`
	GivenUp   uint64    `json:"given_up"`
	Failures  int       `json:"failures"`
	LastError string    `json:"last_error,omitempty"`
	LastSent  time.Time `json:"last_sent,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (r Receiver) MarshalJSON() ([]byte, error) {
	type members Receiver
	return registry.ReceiverJSON(r.Kind, r.Address, members(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Receiver) UnmarshalJSON(b []byte) error {
	type members Receiver
	var all map[string]any
	if err := errors.Join(json.Unmarshal(b, (*members)(r)), json.Unmarshal(b, &all)); err != nil {
		return err
	}
	for name, v := range all {
		if text, ok := v.(string); ok && !slices.Contains([]string{"digest", "zone", "quiet", "most", "repeat", "secret",
			"last_error", "last_sent"}, name) {
			r.Kind, r.Address = name, text
		}
	}
	return nil
}

type Alert struct {
	Alert   string              `json:"alert,omitempty"` // as in messages
	State   registry.AlertState `json:"state"`
	Labels  map[string]string   `json:"labels"`
	Summary string              `json:"summary,omitempty"`
	Since   time.Time           `json:"since"`
	FiredAt time.Time           `json:"fired_at,omitzero"`
}

type RuleEvent struct {
	Time    time.Time           `json:"time"`
	State   registry.AlertState `json:"state"`
	Labels  map[string]string   `json:"labels"`
	Summary string              `json:"summary,omitempty"`
	Seq     uint64              `json:"seq"`
	Since   time.Time           `json:"since"`
}

// A RuleTrial is what a rule would have done.
type RuleTrial struct {
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	Changes  int         `json:"changes"`
	Fired    uint64      `json:"fired"`
	Resolved uint64      `json:"resolved"`
	Problem  string      `json:"problem,omitempty"`
	Alerts   []Alert     `json:"alerts"`
	History  []RuleEvent `json:"history"`
}
