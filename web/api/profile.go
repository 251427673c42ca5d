package api

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// A Profile is the profile resource.
type Profile struct {
	ID        string             `json:"id"`
	Name      string             `json:"name"`
	Endpoint  string             `json:"endpoint"`
	Owner     string             `json:"owner"`
	Items     []Item             `json:"items"`
	Window    *registry.Span     `json:"window"`
	Budget    registry.Duration  `json:"budget"` // most execution seconds per slot, 0s = no bound of its own
	Weight    float64            `json:"weight"`
	Policy    string             `json:"policy"` // the endpoint's
	State     string             `json:"state"`  // live, or broken if one of its queries was deleted
	Epoch     string             `json:"epoch"`
	Seq       uint64             `json:"seq"`
	Captured  uint64             `json:"captured"`
	Expired   uint64             `json:"expired"`
	Open      int                `json:"open"`
	Rounds    uint64             `json:"rounds"`
	EndedAt   *time.Time         `json:"ended_at"`
	NextDue   *time.Time         `json:"next_due"`
	Warnings  []registry.Warning `json:"warnings"`
	CreatedAt time.Time          `json:"created_at"`
	Followers int                `json:"followers"`
	Links     ProfileLinks       `json:"links"`
}

type ProfileLinks struct {
	Captures string `json:"captures"`
	Live     string `json:"live"`
}

type Item struct {
	Query       string        `json:"query"`
	Name        string        `json:"name"`
	When        registry.When `json:"when"`
	TriggerName string        `json:"trigger_name,omitempty"`
	Missing     bool          `json:"missing,omitempty"`
}

type Round struct {
	Round     uint64              `json:"round"`
	State     registry.RoundState `json:"state"`
	OpenedAt  time.Time           `json:"opened_at"`
	Slot      uint64              `json:"slot"`
	Trigger   *Cause              `json:"trigger"`
	EndedAt   *time.Time          `json:"ended_at"`
	EndedSlot *uint64             `json:"ended_slot"`
	Epoch     string              `json:"epoch,omitempty"`
	Seq       uint64              `json:"seq,omitempty"`
	Reason    string              `json:"reason,omitempty"`
	Intervals []Interval          `json:"intervals"`
}

type Cause struct {
	Query string `json:"query"`
	Name  string `json:"name"`
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

type Interval struct {
	Item       int        `json:"item"`
	Query      string     `json:"query"`
	Name       string     `json:"name"`
	State      string     `json:"state"`
	From       *time.Time `json:"from"`
	Until      *time.Time `json:"until"`
	FirstSlot  *uint64    `json:"first_slot"`
	LastSlot   *uint64    `json:"last_slot"`
	CapturedAt *time.Time `json:"captured_at"`
	Slot       *uint64    `json:"slot"`
	Tier       string     `json:"tier,omitempty"`
	Epoch      string     `json:"epoch,omitempty"`
	Seq        uint64     `json:"seq,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}
