package scheduler

import (
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
)

// Errors of loops. Users see these texts.
var (
	ErrPaused   = errors.New("the endpoint is paused")
	ErrBlackout = errors.New("the endpoint is in a blackout time")
	ErrStopped  = errors.New("the scheduler has stopped")
	ErrStarting = errors.New("the endpoint is starting, try again in a moment")
	ErrCharged  = errors.New("trial runs have used up their half of the next slot's budget: try again after that slot")
)

// A Note notifies followers of a query or a profile of a commit.
type Note struct {
	Query   string
	Changed bool   // there is a new change
	Status  bool   // it became live or stale
	Profile string // instead of a query: a round of this profile was captured or expired
}

// A LoopState describes the state of an endpoint's loop.
type LoopState struct {
	Endpoint string          `json:"endpoint"`
	Running  bool            `json:"running"` // a slot runs now
	Next     time.Time       `json:"next,omitzero"`
	Queries  int             `json:"queries"`
	Debt     float64         `json:"debt_seconds"` // the coming slots repay it, at most half a budget each
	Last     Slot            `json:"last"`
	Health   registry.Health `json:"health"`
	Halted   string          `json:"halted,omitempty"` // why no slot begins
	// Away means that no node of a cluster can be asked about the loop: this is what is recorded.
	Away bool `json:"away,omitempty"`
	// NextTry is the next slot that sends requests; zero unless the health restricts
	// them.
	NextTry time.Time              `json:"next_try,omitzero"`
	States  map[registry.State]int `json:"states"`          // queries by state
	Results int                    `json:"results"`         // queries that have a result
	Oldest  time.Time              `json:"oldest,omitzero"` // when the oldest result was last known to be true, to the second
}

// Asked counts the requests of an endpoint since the start.
type Asked struct {
	Requests map[cohort.Kind]uint64
	Members  map[cohort.Kind]uint64 // queries in these requests
	// Void counts requests for several queries whose answer said nothing about them.
	Void uint64
	// Same and Different count the audits by their result.
	Same, Different uint64
	// Causes counts the executions at an endpoint with a feed by the causes of proof.
	Causes map[string]uint64
}

// count counts a request.
func (a *Asked) count(x *plan.Execution) {
	if a.Requests == nil {
		a.Requests, a.Members, a.Causes = map[cohort.Kind]uint64{}, map[cohort.Kind]uint64{}, map[string]uint64{}
	}
	a.Requests[x.Kind()]++
	a.Members[x.Kind()] += 1 + uint64(len(x.Riders()))
	for _, m := range x.Members() {
		if m.Cause() != "" {
			a.Causes[m.Cause()]++
		}
	}
}
