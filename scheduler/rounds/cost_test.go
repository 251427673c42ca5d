//go:build unix

package rounds_test

// This file measures what many profiles cost.

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds"
)

// Profiles that wait for the same change cost the same each to load and to capture.
// If each searched all others, twenty times as many would cost four hundred times as
// much. Caches account for a few times twenty.
func TestProfilesOfOneChangeCostTheSameEach(t *testing.T) {
	fewLoad, few := captureAll(t, 2000)
	manyLoad, many := captureAll(t, 40_000)
	t.Logf("2,000 profiles take %s to load and %s to capture, 40,000 take %s and %s", fewLoad, few, manyLoad, many)
	if manyLoad > 150*fewLoad || many > 150*few {
		t.Error("the cost of one grows with their number")
	}
}

// captureAll measures the processor time to load profiles, and then that to open and
// capture a round of each. On a busy machine few profiles fit between two
// interruptions, and many do not, so the time of day says nothing.
func captureAll(t *testing.T, profiles int) (loading, capturing time.Duration) {
	t.Helper()
	loading, capturing = time.Hour, time.Hour
	// The collector works the more the larger the heap is.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	when := registry.When{Changed: "q_a"}
	var list []registry.Profile
	for i := range profiles {
		list = append(list, registry.Profile{ID: fmt.Sprintf("p_%06d", i), Window: registry.Span{Time: time.Hour},
			Items: []registry.Item{{Query: "q_a", When: when}, {Query: "q_b", When: when}, {Query: "q_c", When: when}}})
	}
	for range 3 {
		runtime.GC()
		begun := processorTime(t)
		tracker := rounds.New(found{}.stats)
		load(tracker, list...)
		loading = min(loading, processorTime(t)-begun)
		begun = processorTime(t)
		tracker.Observe(ran("q_a", 1, &diff.Delta{}))
		tracker.Observe(ran("q_b", 2, nil))
		if !tracker.Observe(ran("q_c", 3, nil)) {
			t.Fatal("nothing was captured")
		}
		if u := tracker.Drain(); len(u.Rounds) != profiles || len(u.Ended) != profiles {
			t.Fatalf("%d rounds of %d profiles ended", len(u.Rounds), len(u.Ended))
		}
		capturing = min(capturing, processorTime(t)-begun)
	}
	return loading, capturing
}

// processorTime returns the processor time that the process has used so far.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
