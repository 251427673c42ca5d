package store

import (
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// A Retention bounds the change log. A zero field sets no bound. The newest change of
// each query is always kept.
type Retention struct {
	Changes int           // of each query
	Age     time.Duration // since the commit
	Bytes   int64         // of the whole log, as stored
}

// An aging knows what time it is as far as the age of what is stored is concerned. A clock that is ahead for a
// moment, such as that of a virtual machine that resumes, must not delete history. So this time is never after the clock,
// and gains on it at most as much time as passes. It is stored with the commits, and a process that starts, or a node of a
// cluster that takes over from another, goes on with it. After a downtime, or after the clock was corrected, it catches up, and
// until then more is kept.
type aging struct {
	mu     sync.Mutex
	time   time.Time
	passed time.Duration // when time was set
}

// bounds returns the bounds of retention for a commit at some time of the clock, and the time of aging. The age is longer by what
// the clock may be ahead. stored is the time of aging that was stored last. If it is later than that of this process, another node
// has stored it.
func (a *aging) bounds(keep Retention, clock time.Time, passed time.Duration, stored time.Time) (Retention, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clock = clock.Round(0) // only the time that can be set
	if stored.After(a.time) {
		a.time, a.passed = stored, passed
	}
	if next := a.time.Add(2 * max(0, passed-a.passed)); !a.time.IsZero() && next.Before(clock) {
		a.time = next
	} else {
		a.time = clock
	}
	a.passed = passed
	if keep.Age > 0 {
		keep.Age += clock.Sub(a.time)
	}
	return keep, a.time
}

// storedAging returns the time of aging that was stored last, the zero time if none was.
func storedAging(tx *bbolt.Tx) (t time.Time) {
	if n := number(tx.Bucket(bMeta).Get(kAging)); n != 0 {
		t = time.Unix(int64(n), 0).UTC()
	}
	return t
}

func (d *boltFile) storedAging() (time.Time, error) {
	return fetch(d, func(tx *bbolt.Tx) (time.Time, error) { return storedAging(tx), nil })
}

// saveAging stores the time of aging. That of less than a minute before is near enough.
func saveAging(tx *bbolt.Tx, t time.Time) error {
	if since := t.Sub(storedAging(tx)); t.IsZero() || 0 <= since && since < time.Minute {
		return nil
	}
	return tx.Bucket(bMeta).Put(kAging, key8(uint64(t.Unix())))
}
