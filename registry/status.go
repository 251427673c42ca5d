package registry

import (
	"slices"
	"time"
)

// A State says whether a query's result is kept fresh.
type State string

const (
	New     State = "new"     // not tried yet
	Live    State = "live"    // the last execution was complete
	Stale   State = "stale"   // the last executions were not complete; the last result is served
	Failing State = "failing" // executed but never complete, or the endpoint now refuses the text
	Paused  State = "paused"  // not executed until resumed
	Idle    State = "idle"    // not executed: no holder wants it now (from, until)
)

// States lists all states.
func States() []State { return []State{New, Live, Stale, Failing, Paused, Idle} }

// Current reports whether the result is kept fresh.
func (s State) Current() bool { return s == New || s == Live }

// A Status describes a query's result and executions at one moment.
type Status struct {
	State      State
	Position   Position
	Hash       string // of the last complete result; "" before
	Rows       int
	CheckedAt  time.Time // when the result was last known to be true
	ChangedAt  time.Time // CheckedAt of the last change, the baseline included
	Executions uint64    // number of complete ones
	Changes    uint64    // number, without the baseline
	Median     time.Duration
	Outcome    Outcome // of the last execution
	Error      string  // why the last execution failed, or why the query is not executed

	// FailingSince and Failures count the latest executions in a row that were not
	// complete.
	FailingSince time.Time
	Failures     int
	AgeIgnored   bool // the Age of the answers is implausible and ignored
}

// Warnings returns the warnings about the query's text and about the endpoint's
// answers.
func (s Status) Warnings(q *Query) []Warning {
	if !s.AgeIgnored {
		return q.Warnings
	}
	return append(slices.Clone(q.Warnings), Warning{Code: "age-ignored",
		Message: "all of the endpoint's answers claim to be more than a day old (Age): the header is ignored"})
}
