// Package bubble runs tests in synctest bubbles, also under the race detector.
//
// All timers of a bubble share one context of the race detector, which only one
// thread may use at a time. The runtime does not ensure that: a timer that is
// already due when a goroutine creates or reads it runs at once on that goroutine's
// thread. Two at the same time crash the process (golang.org/issue/78156, Go 1.26).
// Under the race detector bubbles therefore run on one thread. Data races are found
// all the same, because the detector checks the order of events, not their
// coincidence.
package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble; see [synctest.Test]. No other test may run at the same
// time.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if race {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
