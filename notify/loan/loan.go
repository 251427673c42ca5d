// Package loan lets a writer use a large shared value without keeping it in memory
// while its reader is slow.
package loan

import (
	"sync"
	"time"
)

// Lag is how long a write may take before its reader counts as slow.
const Lag = 50 * time.Millisecond

// A Loan holds a shared value from one write to the next. A write that takes
// longer than Lag drops it, and the writer has to get the value again. The zero
// value holds nothing. Lend and Back belong to one goroutine.
type Loan[T any] struct {
	mu    sync.Mutex
	value T
	has   bool
	lent  bool
	timer *time.Timer
}

// Put holds a value.
func (l *Loan[T]) Put(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value, l.has = v, true
}

// Get returns the value, unless it was dropped.
func (l *Loan[T]) Get() (v T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.has
}

// Drop releases the value.
func (l *Loan[T]) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

func (l *Loan[T]) drop() {
	var none T
	l.value, l.has = none, false
}

// Lend is called before a write that may wait, and Back after it.
func (l *Loan[T]) Lend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has {
		return
	}
	if l.lent = true; l.timer == nil {
		l.timer = time.AfterFunc(Lag, l.expire)
		return
	}
	l.timer.Reset(Lag)
}

// Back ends what Lend began. The value that Get returns from then on stays.
func (l *Loan[T]) Back() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent {
		l.lent = false
		l.timer.Stop()
	}
}

// expire drops the value if the write still lasts.
func (l *Loan[T]) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent {
		l.drop()
	}
}
