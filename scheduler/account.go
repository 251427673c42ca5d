package scheduler

import "time"

// An account records what executions outside slots use: trial runs, and executions for
// hints. The next slots pay for them.
type account struct {
	charge   time.Duration // used by them and not paid yet
	reserved time.Duration // for those in progress
	ended    time.Time     // end of the last execution, those of slots included
	over     bool          // no more executions
}

// left returns what the next slot can still pay. unowed is the part of its budget that
// repays no debt.
func (a *account) left(unowed time.Duration) time.Duration { return unowed - a.charge - a.reserved }

// settle replaces what was reserved for executions by what they used.
func (a *account) settle(reserved, used time.Duration) {
	a.reserved -= reserved
	a.charge += used
}

// executed notes that an execution ended.
func (a *account) executed(at time.Time) {
	if at.After(a.ended) { // otherwise a trial run ended later
		a.ended = at
	}
}

// gapEnd returns the end of the gap after the last execution; zero if there is none.
func (a *account) gapEnd(gap time.Duration) time.Time {
	if gap <= 0 || a.ended.IsZero() {
		return time.Time{}
	}
	return a.ended.Add(gap)
}
