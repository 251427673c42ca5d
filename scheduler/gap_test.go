package scheduler_test

import (
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// polite answers like a client that keeps the gap itself: a request that comes too
// early waits inside the execution, which then takes longer.
func polite(t testing.TB, takes, gap time.Duration) func(*registry.Query, int) reply {
	r := schedulertest.Rows(t, "polite")
	var mu sync.Mutex
	var free time.Time
	return func(*registry.Query, int) reply {
		mu.Lock()
		defer mu.Unlock()
		wait := max(0, time.Until(free)) + takes
		free = time.Now().Add(wait + gap)
		return reply{wait, registry.Changed, r}
	}
}

// TestGapBetweenSlots: the gap is kept between slots and after a trial run, and no
// budget pays for it.
func TestGapBetweenSlots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const gap = 900 * time.Millisecond
		e := endpoint("never", time.Second, "rr")
		e.MinGap = registry.Duration(gap)
		w := newWorld(t, e, polite(t, 300*time.Millisecond, gap))
		w.register("a")
		w.run()
		w.tick()
		if s := w.tick(); s.Complete != 1 || s.Cut != 0 || s.Used != 0.3 || s.Finished.Sub(s.Started) != 1200*time.Millisecond {
			t.Errorf("the slot after a slot: %+v", s)
		}
		time.Sleep(gap)
		q := schedulertest.Query(city, "trial")
		if a, err := w.loop.Trial(t.Context(), &q); err != nil || a.Elapsed != 300*time.Millisecond {
			t.Fatalf("trial: %+v, %v", a, err)
		}
		if s := w.tick(); s.Complete != 1 || s.Cut != 0 || s.Used != 0.6 {
			t.Errorf("the slot after a trial run, which it pays: %+v", s)
		}
		time.Sleep(gap)
		if s := w.tick(); s.Finished.Sub(s.Started) != 300*time.Millisecond {
			t.Errorf("a slot after the gap is over waits again: %+v", s)
		}
		w.stop()
	})
}
