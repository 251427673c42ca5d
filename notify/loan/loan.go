// Package loan shares large values between writers, and lets a writer use one without keeping it in memory while its reader
// is slow.
package loan

import (
	"sync/atomic"
	"time"
)

// Lag is how long a write may take before its reader counts as slow.
const Lag = 50 * time.Millisecond

// A Loan holds a shared value from one write to the next. A write that takes longer than Lag drops it, and the writer has
// to get the value again. The zero value holds nothing.
type Loan[T any] struct{ held atomic.Pointer[T] }

// Put holds a value.
func (l *Loan[T]) Put(v *T) { l.held.Store(v) }

// Get returns the value, nil if it was dropped.
func (l *Loan[T]) Get() *T { return l.held.Load() }

// Drop releases the value.
func (l *Loan[T]) Drop() { l.held.Store(nil) }

// During runs a write that may wait. What it drops late, at the end of the write, is got again in vain.
func (l *Loan[T]) During(write func()) {
	defer time.AfterFunc(Lag, l.Drop).Stop()
	write()
}
