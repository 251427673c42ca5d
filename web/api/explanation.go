package api

// This file holds the explanation of why a query ran or did not.

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
)

type Run struct {
	Slot    uint64           `json:"slot"`
	At      time.Time        `json:"at"`
	Elapsed float64          `json:"elapsed_seconds"`
	Outcome registry.Outcome `json:"outcome"`
	Error   string           `json:"error,omitempty"`
	Why     string           `json:"why,omitempty"`
	How     string           `json:"how,omitempty"`
}

type Stats struct {
	Last       uint64   `json:"last"` // slot of the last complete execution, 0 = none
	Executions uint64   `json:"executions"`
	Changes    uint64   `json:"changes"`
	Median     *float64 `json:"median_seconds"`
	Failures   uint32   `json:"failures"`
	Cuts       uint32   `json:"cuts"`
	NotBefore  uint64   `json:"not_before"`
	Samples    []Sample `json:"samples"` // oldest first
}

type Sample struct {
	Slot    uint64  `json:"slot"`
	Elapsed float64 `json:"elapsed_seconds"`
	Changed bool    `json:"changed"`
	Jaccard float64 `json:"jaccard"`
}

// An Explanation is a scheduler.Explanation with the statistics behind it.
type Explanation struct {
	scheduler.Explanation
	LastRun    *Run        `json:"last_run"`
	NextDue    *time.Time  `json:"next_due"`
	Proved     *feed.Proof `json:"proved,omitempty"`
	Unprovable string      `json:"unprovable,omitempty"`
	Statistics Stats       `json:"statistics"`
}
