package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// An Explanation says where a query stands: why it ran, or did not, and when
// it is expected to run next.
type Explanation struct {
	Query      string             `json:"query"`
	Endpoint   string             `json:"endpoint"`
	Policy     string             `json:"policy"`
	Slot       uint64             `json:"slot"`     // the slot that comes next
	Eligible   bool               `json:"eligible"` // may run in it
	Tier       string             `json:"tier"`     // refresh, new, hinted, interval, ranked
	Rank       int                `json:"rank"`     // place in the order of its tier, from 1; 0 = not ranked
	Of         int                `json:"of"`       // how many the order holds
	Inputs     map[string]float64 `json:"inputs"`   // what the rank was computed from
	Estimate   registry.Duration  `json:"estimate"` // expected execution time, 0 = unknown
	Why        string             `json:"why"`      // one sentence for people
	LastRun    Run                `json:"last_run"`
	PassedOver *PassedOver        `json:"passed_over,omitempty"`
	NextDue    time.Time          `json:"next_due,omitzero"`
}

// PassedOver tells of the last slot in which a query was eligible but not run.
type PassedOver struct {
	Slot   uint64 `json:"slot"`
	Reason string `json:"reason"`
}

// A LoopState tells how an endpoint's loop is doing.
type LoopState struct {
	Endpoint string          `json:"endpoint"`
	Running  bool            `json:"running"` // a slot runs now
	Next     time.Time       `json:"next,omitzero"`
	Queries  int             `json:"queries"`
	Debt     float64         `json:"debt_seconds"` // to be repaid by the slots to come, at most half a budget each
	Last     Slot            `json:"last"`
	Health   registry.Health `json:"health"`
	Halted   string          `json:"halted,omitempty"` // why no slot begins, in words
	// NextTry is the slot that asks again, zero unless the health forbids to ask.
	NextTry time.Time              `json:"next_try,omitzero"`
	States  map[registry.State]int `json:"states"`          // queries by state
	Results int                    `json:"results"`         // queries that have a result
	Oldest  time.Time              `json:"oldest,omitzero"` // to the second, when the oldest result was last known to be true
}
