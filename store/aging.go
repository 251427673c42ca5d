package store

import (
	"sync"
	"time"
)

// An aging knows what time it is as far as the age of what is stored is concerned. A clock that is ahead for a
// moment, such as that of a virtual machine that resumes, must not delete history. So this time begins with the
// last commit before the process, is never after the clock, and gains on it at most as much time as passes.
// After a downtime, or after the clock was corrected, it catches up, and until then more is kept.
type aging struct {
	mu     sync.Mutex
	time   time.Time
	passed time.Duration // when time was set
}

// bounds returns the bounds of retention for a commit at some time of the clock. Its age is longer by what the
// clock may be ahead.
func (a *aging) bounds(keep Retention, clock time.Time, passed time.Duration, last func() time.Time) Retention {
	if keep.Age <= 0 {
		return keep
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clock = clock.Round(0) // only the time that can be set
	if a.time.IsZero() {
		a.time, a.passed = last(), passed
	}
	a.time = a.time.Add(2 * max(0, passed-a.passed))
	if a.passed = passed; a.time.After(clock) || a.time.IsZero() {
		a.time = clock
	}
	keep.Age += clock.Sub(a.time)
	return keep
}

// lastCommit returns the end of the last slot of an endpoint, the zero time if there is none.
func lastCommit(d *boltFile, endpoint string) time.Time {
	n, err := (&Ledger{boltFile: d}).Since(endpoint, 1<<63)
	if err != nil {
		d.log.Warn("the last slot cannot be read", "endpoint", endpoint, "error", err)
	}
	return n.Last.Finished
}
