package store

import (
	"sync"
	"time"

	"go.etcd.io/bbolt"
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

// lastCommit returns when the last slot of an endpoint began or ended, or the newest change was committed, whatever
// was later, and the zero time if there is neither.
func lastCommit(d *boltFile, endpoint string) (last time.Time) {
	n, err := (&Ledger{boltFile: d}).Since(endpoint, 1<<63)
	if err == nil {
		err = d.view(func(tx *bbolt.Tx) error {
			_, at := tx.Bucket(bOffsets).Cursor().Last()
			if at == nil {
				return nil
			}
			l, err := parseLogEntry(at, tx.Bucket(bChanges).Get(at))
			last = l.at
			return err
		})
	}
	if err != nil {
		d.log.Warn("the last commit cannot be read", "endpoint", endpoint, "error", err)
	}
	for _, t := range []time.Time{n.Last.Started, n.Last.Finished} {
		if t.After(last) {
			last = t
		}
	}
	return last
}
