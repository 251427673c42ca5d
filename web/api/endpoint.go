package api

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An Endpoint is the endpoint resource: the settings with masked secrets, and the
// state of its loop. Only admins see the credentials.
type Endpoint struct {
	registry.Endpoint
	State *LoopState `json:"state"` // null while its loop is starting
	// Node is the node of the cluster that asks it, "" while another one takes it over.
	Node *string `json:"node,omitempty"`

	// Only for a single endpoint: the source of each setting, by its name, and notes
	// on an edit.
	Sources map[string]registry.Source `json:"sources,omitempty"`
	Notes   []string                   `json:"notes,omitempty"`
}

type LoopState struct {
	Running bool                   `json:"running"`
	Next    *time.Time             `json:"next"`
	NextTry *time.Time             `json:"next_try,omitempty"` // while the endpoint is backing off
	Queries int                    `json:"queries"`
	States  map[registry.State]int `json:"states"`
	Debt    float64                `json:"debt_seconds"`
	Last    *scheduler.Slot        `json:"last"` // null before the first slot
	Health  registry.Health        `json:"health"`
	Results int                    `json:"results"`          // queries that have a result
	Oldest  time.Time              `json:"oldest,omitzero"`  // when the oldest result was last known to be true
	Halted  string                 `json:"halted,omitempty"` // why no slot begins
}
