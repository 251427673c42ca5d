package registry

import "time"

// A State is what a query's result is worth now.
type State string

const (
	New    State = "new"    // never completed
	Live   State = "live"   // the last execution was complete
	Stale  State = "stale"  // the last executions failed; the last result stands
	Paused State = "paused" // not executed until resumed
)

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
	Error      string  // of the last execution, when it failed
}
