// Package clocktest sets the clock of a machine for tests.
package clocktest

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// A Machine is the clock of a machine, which Set sets.
type Machine struct{ ahead, passed atomic.Int64 }

// Set sets the clock to the real time and whole seconds.
func (m *Machine) Set(ahead time.Duration) { m.ahead.Store(int64(ahead / time.Second)) }

// Pass lets time pass at once.
func (m *Machine) Pass(d time.Duration) { m.passed.Add(int64(d)) }

// Now is as time.Now. As with real clocks, setting it does not change the monotonic reading.
func (m *Machine) Now() time.Time {
	t := time.Now().Add(time.Duration(m.passed.Load()))
	wall := (*uint64)(unsafe.Pointer(&t)) // the first word of a time: a flag, 33 bits of seconds, 30 bits of nanoseconds
	*wall += uint64(m.ahead.Load()) << 30
	return t
}
