// Package bubble runs tests in synctest bubbles, also under the race detector.
//
// All timers of a bubble share one context of the race detector, which only one
// thread may use at a time. The runtime does not see to that: a timer that is due
// when it is made or read runs at once, on the thread of whoever made or read it.
// Two of them at the same time, and the process crashes (golang.org/issue/78156,
// Go 1.26). So under the race detector bubbles run on one thread. What races is
// found all the same: the detector looks at what is ordered, not at what met.
package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble; see [synctest.Test]. No other test may run beside it.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if race {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
