package scheduler_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// What it takes to compare an answer is charged like what it takes to get it, is
// part of what the query is known to cost, and ends with the budget.
func TestComparingIsPartOfTheExecution(t *testing.T) {
	for _, c := range []struct {
		name    string
		reading time.Duration
		used    float64
		outcome registry.Outcome
	}{
		{"in time", 300 * time.Millisecond, 0.4, registry.Changed},
		{"beyond the budget", 2 * time.Second, 1, registry.Cut},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
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
				w.tick()
				ledger.result = c.reading
				s := w.tick()
				w.stop()
				if d := s.Used - c.used; d > 1e-9 || d < -1e-9 {
					t.Errorf("the slot used %g s, want %g", s.Used, c.used)
				}
				x, err := w.loop.Explain("q_a")
				if err != nil || x.LastRun.Outcome != c.outcome || x.LastRun.Elapsed.Seconds() != c.used {
					t.Errorf("last run %+v, %v; want %s after %g s", x.LastRun, err, c.outcome, c.used)
				}
			})
		})
	}
}
