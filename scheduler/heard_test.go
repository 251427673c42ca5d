package scheduler_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A back-off that an endpoint asks for is recorded at once, because the process may be
// killed before the slot ends.
func TestWaitIsRecordedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.Concurrency = 2
		var w *world
		waits := registry.Health{State: registry.HealthThrottled, Until: epoch().Add(time.Hour), Failures: 1}
		w = newWorld(t, e, func(q *registry.Query, _ int) reply {
			if q.ID == "q_a" {
				w.service.setHealth(waits)
				return reply{time.Millisecond, registry.Throttled, nil}
			}
			return reply{5 * time.Second, registry.Changed, schedulertest.Rows(t, "x")}
		})
		w.register("a")
		w.register("b")
		w.run()
		go w.tick()
		until(2 * time.Millisecond)
		if h := w.health(); h != waits {
			t.Errorf("after the answer the ledger knows %+v", h)
		}
		w.stop()
	})
}

// The same holds if a trial run received it, between two slots or during one.
func TestTrialsWaitIsRecorded(t *testing.T) {
	for _, inSlot := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			e := endpoint("never", 10*time.Second, "rr")
			e.Concurrency = 2
			var w *world
			waits := registry.Health{State: registry.HealthThrottled, Until: epoch().Add(time.Hour), Failures: 1}
			w = newWorld(t, e, func(q *registry.Query, _ int) reply {
				if q.ID != "q_a" {
					w.service.setHealth(waits)
					return reply{time.Millisecond, registry.Throttled, nil}
				}
				return reply{5 * time.Second, registry.Changed, schedulertest.Rows(t, "x")}
			})
			w.register("a")
			w.run()
			synctest.Wait()
			if inSlot {
				go w.tick()
				synctest.Wait()
			}
			q := schedulertest.Query(city, "trial")
			if _, err := w.loop.Trial(t.Context(), &q); err != nil {
				t.Error(err)
			}
			if inSlot {
				until(6 * time.Second) // its end
			}
			if h := w.health(); h != waits {
				t.Errorf("in a slot %v: the ledger knows %+v", inSlot, h)
			}
			w.stop()
		})
	}
}

// The end of the last request before a start is unknown and may be very recent, so the gap starts with the process, as
// that of its client does. No budget pays for it.
func TestGapOverRestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.MinGap = registry.Duration(12 * time.Second)
		w := newWorld(t, e, same(t, time.Second))
		w.register("a")
		for range 2 {
			w.gated().free = time.Now().Add(12 * time.Second)
			w.run()
			if s := w.tick(); s.Complete != 1 || s.Used != 1 || s.Finished.Sub(s.Started) != 13*time.Second {
				t.Errorf("the first slot after a start: %+v", s)
			}
			w.stop()
		}
	})
}

// health returns the health in the ledger.
func (w *world) health() registry.Health {
	w.t.Helper()
	n, err := w.ledger.Since(city, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return n.Health
}

// The same holds if a request for several queries received it.
func TestMergedWaitIsRecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		e := merging(endpoint("never", time.Minute, "rr"), registry.MergeValues)
		e.Concurrency = 2
		var w *world
		waits := registry.Health{State: registry.HealthThrottled, Until: epoch().Add(time.Hour), Failures: 1}
		w = newWorld(t, e, func(q *registry.Query, n int) reply {
			if q.ID == "q_alone" {
				return reply{20 * time.Second, registry.Changed, schedulertest.Rows(t, "x")}
			}
			return d.reply(q, n)
		})
		d.fault = func(int) registry.Outcome {
			if w.service.ran("q_alone") < 2 {
				return registry.Changed
			}
			w.service.setHealth(waits)
			return registry.Throttled
		}
		d.many(w, 50)
		w.register("alone", about("http://x/a"))
		w.run()
		w.tick()
		go w.tick()
		refused := func(x asked) bool { return x.outcome == registry.Throttled }
		for !slices.ContainsFunc(w.service.executions(), refused) {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if h := w.health(); h.State != waits.State || h.Until != waits.Until {
			t.Errorf("after the answer the ledger knows %+v", h)
		}
		w.stop()
	})
}
