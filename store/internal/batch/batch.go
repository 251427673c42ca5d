// Package batch lets callers that come at the same time share a run, such as a transaction: a group commit.
package batch

import (
	"sync"
	"time"
)

// A Queue lets callers that come at the same time share a run, such as a transaction. The oldest one runs for all.
type Queue[T any] struct {
	mu      sync.Mutex // guards the fields below
	waiting []*caller[T]
	taken   []*caller[T]  // by the run
	busy    bool          // somebody runs or prepares to
	usual   int           // the number of works that came together lately
	took    time.Duration // by the last run
}

// A caller is the work of a caller. turn says true if the caller has to run, and false if the work is done.
type caller[T any] struct {
	work T
	turn chan bool
}

const (
	gatherPause = 50 * time.Microsecond // between two looks whether the usual number of works has come
	gatherTime  = 50 * time.Millisecond // at most, until a run begins
)

// Do returns once a run has taken work and has ended.
func (b *Queue[T]) Do(work T, run func()) {
	mine := &caller[T]{work: work, turn: make(chan bool, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, mine)
	runs := !b.busy
	b.busy = true
	b.mu.Unlock()
	if !runs && !<-mine.turn {
		return
	}
	// The callers that the last run has answered would otherwise miss this one, and half of them would wait for the
	// other half in turn.
	began := time.Now()
	for !b.gathered(time.Since(began)) {
		time.Sleep(gatherPause)
	}
	began = time.Now()
	defer func() { b.leave(mine, time.Since(began)) }()
	run()
}

// gathered reports whether the usual number of works waits, or half of the time of a run has passed. One that took
// long, such as one that waited for a journal in vain, says nothing about the next.
func (b *Queue[T]) gathered(passed time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) >= b.usual || passed > min(b.took/2, gatherTime)
}

// Waiting returns the number of works that no run has taken yet.
func (b *Queue[T]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// Take removes and returns the oldest works, at most most. A run calls it once.
func (b *Queue[T]) Take(most int) (list []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(most, len(b.waiting))
	b.taken, b.waiting = b.waiting[:n:n], b.waiting[n:]
	for _, x := range b.taken {
		list = append(list, x.work)
	}
	return list
}

// leave answers the callers whose work is done, and hands the next run to the oldest waiting one.
func (b *Queue[T]) leave(mine *caller[T], took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usual, b.took = len(b.taken)+len(b.waiting), took
	for _, x := range b.taken {
		if x != mine {
			x.turn <- false
		}
	}
	b.taken = nil
	if b.busy = len(b.waiting) > 0; b.busy {
		b.waiting[0].turn <- true
	} else {
		b.waiting = nil
	}
}
