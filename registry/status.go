package registry

import (
	"slices"
	"time"
)

// A State is what a query's result is worth now.
type State string

const (
	New     State = "new"     // not tried yet
	Live    State = "live"    // the last execution was complete
	Stale   State = "stale"   // the last executions brought nothing; the last result is served
	Failing State = "failing" // tried and never complete, or the endpoint now refuses the text
	Paused  State = "paused"  // not executed until resumed
	Idle    State = "idle"    // not executed: no holder wants it now (from, until)
)

// States lists all states.
func States() []State { return []State{New, Live, Stale, Failing, Paused, Idle} }

// Current says whether the result is kept up to date, as far as is known. A
// paused query's is not, which its holders know.
func (s State) Current() bool { return s == New || s == Live }

// A Status is what is known of a query's result and executions at one moment.
type Status struct {
	State      State
	Position   Position
	Hash       string // of the last complete result, "" before
	Rows       int
	CheckedAt  time.Time // when the result was last known to be true
	ChangedAt  time.Time // CheckedAt of the last change, the baseline included
	Executions uint64    // complete ones
	Changes    uint64    // without the baseline
	Median     time.Duration
	Outcome    Outcome // of the last execution, whatever it was
	Error      string  // of the last execution, when it failed; or why none is made

	// While executions bring no result: since when, and how many in a row.
	FailingSince time.Time
	Failures     int
	AgeIgnored   bool // the answers' Age cannot be true and is not used
}

// Warnings are those of the query's text, and what the endpoint's answers gave
// reason to.
func (s Status) Warnings(q *Query) []Warning {
	if !s.AgeIgnored {
		return q.Warnings
	}
	return append(slices.Clone(q.Warnings), Warning{Code: "age-ignored",
		Message: "the endpoint's answers say that they are more than a day old (Age), all of them: that is ignored"})
}
