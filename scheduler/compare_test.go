package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// The time to compare an answer and to prepare it for the ledger is charged like the
// time to fetch it. It is part of the query's known cost and ends with the budget.
// Nothing is recorded of an answer that is not ready by then.
func TestProcessingIsPartOfTheExecution(t *testing.T) {
	for _, c := range []struct {
		name             string
		reading, prepare time.Duration
		used             float64
		outcome          registry.Outcome
	}{
		{"compared in time", 300 * time.Millisecond, 0, 0.4, registry.Changed},
		{"prepared in time", 0, 300 * time.Millisecond, 0.4, registry.Changed},
		{"both in time", 200 * time.Millisecond, 300 * time.Millisecond, 0.6, registry.Changed},
		{"compared beyond the budget", 2 * time.Second, 0, 1, registry.Cut},
		{"prepared beyond the budget", 0, 2 * time.Second, 1, registry.Cut},
		{"both beyond the budget", 500 * time.Millisecond, 600 * time.Millisecond, 1, registry.Cut},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w, ledger := slowWorld(t)
				w.tick()
				ledger.result, ledger.prepare = c.reading, c.prepare
				s := w.tick()
				w.stop()
				if d := s.Used - c.used; d > 1e-9 || d < -1e-9 {
					t.Errorf("the slot used %g s, want %g", s.Used, c.used)
				}
				x, err := w.loop.Explain("q_a")
				if err != nil || x.LastRun.Outcome != c.outcome || x.LastRun.Elapsed.Seconds() != c.used {
					t.Errorf("last run %+v, %v; want %s after %g s", x.LastRun, err, c.outcome, c.used)
				}
				want := 1 // the baseline
				if c.outcome == registry.Changed {
					want = 2
				}
				if n := len(ledger.Changes()); n != want || ledger.prepared.Load() != int64(want) {
					t.Errorf("%d changes recorded, %d prepared, want %d", n, ledger.prepared.Load(), want)
				}
			})
		})
	}
}

// A loop that ends does not wait while an answer is being prepared: the execution is
// cut, and nothing of the answer is recorded.
func TestPreparingEndsWithTheLoop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, ledger := slowWorld(t)
		w.tick()
		ledger.prepare, ledger.preparing = 500*time.Millisecond, make(chan struct{})
		begun := ledger.preparing
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = w.loop.Tick(t.Context())
		}()
		<-begun
		time.Sleep(100 * time.Millisecond)
		from := time.Now()
		w.stop()
		<-done
		if took := time.Since(from); took > 10*time.Millisecond {
			t.Errorf("the loop ended only %s after it was told to", took)
		}
		if n := len(ledger.Changes()); n != 1 || ledger.prepared.Load() != 1 {
			t.Errorf("%d changes recorded, %d prepared, want the baseline alone", n, ledger.prepared.Load())
		}
		if x := w.stats("q_a").LastRun; x.Outcome != registry.Cut || x.Elapsed < 200*time.Millisecond || x.Elapsed > 210*time.Millisecond {
			t.Errorf("last run %+v, want one that was cut", x)
		}
	})
}

// slowWorld runs a loop over a slow ledger with one query. Its answers take 100 ms and
// change from the second one on.
func slowWorld(t *testing.T) (*world, *slow) {
	t.Helper()
	e := endpoint("never", time.Second, "rr")
	ledger := &slow{Memory: &schedulertest.Memory{}}
	first, second := schedulertest.Rows(t, "first"), schedulertest.Rows(t, "second")
	w := newWorld(t, e, func(_ *registry.Query, n int) reply {
		if n == 0 {
			return reply{100 * time.Millisecond, registry.Changed, first}
		}
		return reply{100 * time.Millisecond, registry.Changed, second}
	})
	w.ledger = ledger.Memory
	var err error
	w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: ledger, Executor: w.service})
	if err != nil {
		t.Fatal(err)
	}
	w.register("a")
	w.run()
	return w, ledger
}

// An execution fails if the ledger has no room for its result. The last result stays, and the
// next one that fits is recorded.
func TestResultTooLarge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, ledger := slowWorld(t)
		w.tick()
		ledger.full = true
		if s := w.tick(); s.Failed != 1 || s.Changed != 0 {
			t.Errorf("%+v", s)
		}
		if x := w.stats("q_a").LastRun; x.Outcome != registry.Failed || !strings.Contains(x.Error, "too large") {
			t.Errorf("last run %+v", x)
		}
		if n := len(ledger.Changes()); n != 1 {
			t.Errorf("%d changes, want the baseline alone", n)
		}
		ledger.full = false
		for range 3 { // it backs off after a failure
			w.tick()
		}
		if n := len(ledger.Changes()); n != 2 {
			t.Errorf("%d changes, want 2", n)
		}
		w.stop()
	})
}
