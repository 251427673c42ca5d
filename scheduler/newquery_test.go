package scheduler_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// soon asks for the first execution of new queries.
func (w *world) soon() {
	w.t.Helper()
	if _, err := w.loop.Hint(registry.Hint{New: true}); err != nil {
		w.t.Error(err)
	}
}

// The first query of an endpoint runs at once, in a slot for which the next one pays.
func TestFirstQueryRunsAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 5m", 10*time.Second, "rr"), same(t, 4*time.Second))
		w.run()
		defer w.stop()
		until(30 * time.Second)
		w.register("a")
		w.soon()
		until(35 * time.Second)
		if r := w.stats("q_a").LastRun; r.Outcome != registry.Changed || !r.At.Equal(epoch().Add(34*time.Second)) || r.Why != plan.TierNew {
			t.Fatalf("it ran as %+v", r)
		}
		until(6 * time.Minute)
		if list := w.slots(); len(list) != 2 || list[1].Charged != 4 {
			t.Errorf("the slots are %+v", list)
		}
	})
}

// The next slot also pays after a restart.
func TestFirstSlotIsPaidAfterARestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		until(30 * time.Second) // no grid time
		e := endpoint("@every 5m", 10*time.Second, "rr")
		w := newWorld(t, e, same(t, 4*time.Second))
		w.run()
		w.register("a")
		w.soon()
		until(35 * time.Second)
		w.stop()
		w.open(e)
		w.run()
		defer w.stop()
		until(6 * time.Minute)
		if list := w.slots(); len(list) != 2 || list[0].Run != 1 || list[1].Charged != 4 {
			t.Errorf("the slots are %+v", list)
		}
	})
}

// If the process is killed during the first slot, before or after its first commit, the next slot pays a whole budget for it.
func TestFirstSlotIsPaidAfterAKill(t *testing.T) {
	for _, at := range []time.Duration{33 * time.Second, 34500 * time.Millisecond} {
		bubble.Test(t, func(t *testing.T) {
			until(30 * time.Second) // no grid time
			e := endpoint("@every 5m", 10*time.Second, "rr")
			w := newWorld(t, e, same(t, 4*time.Second))
			w.register("a")
			w.register("b")
			w.run()
			w.soon()
			until(at)
			recorded := w.slots()
			w.stop()
			if len(recorded) == 0 {
				t.Fatalf("after %s nothing is recorded about the slot that runs", at)
			}
			if err := w.ledger.Restore(city, recorded[0]); err != nil {
				t.Fatal(err)
			}
			w.open(e)
			w.run()
			defer w.stop()
			w.soon()
			until(11 * time.Minute)
			list := w.slots()
			if len(list) != 3 || list[1].Charged != 10 || list[1].Run != 0 || list[2].Charged != 0 {
				t.Errorf("killed at %s, the slots are %+v", at, list)
			}
		})
	}
}

// A first slot on request is charged to no other, after a restart either.
func TestFirstTickIsNotCharged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		w := newWorld(t, e, same(t, 4*time.Second))
		w.register("a")
		w.run()
		w.tick()
		w.stop()
		w.open(e)
		w.run()
		defer w.stop()
		if s := w.tick(); s.Number != 2 || s.Charged != 0 {
			t.Errorf("the slot after a restart is %+v", s)
		}
	})
}

// A forgetfulLedger records no slot.
type forgetfulLedger struct{ scheduler.Ledger }

func (forgetfulLedger) Record(string, scheduler.Batch) ([]registry.Change, error) {
	return nil, errors.New("not recorded")
}

// While the ledger does not record the first slot, as that of the start here, new queries do not begin it again and
// again: it comes at its grid time.
func TestFirstSlotIsNotRepeated(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 5m", 10*time.Second, "rr"), same(t, 4*time.Second))
		loop, err := scheduler.NewLoop(scheduler.Config{Endpoint: w.as, Ledger: forgetfulLedger{w.ledger}, Executor: w.service})
		if err != nil {
			t.Fatal(err)
		}
		w.loop = loop
		w.run()
		defer w.stop()
		until(30 * time.Second)
		w.register("a")
		for n := range 10 {
			w.soon()
			until(time.Duration(40+10*n) * time.Second)
		}
		if n := w.service.ran("q_a"); n != 0 {
			t.Errorf("it ran %d times before the grid time", n)
		}
	})
}

// A later query runs at once in what the last slot has left of the budget.
func TestNewQueryRunsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*registry.Endpoint)
		do   func(*world)
		took time.Duration // of a query in a slot
		runs bool
	}{
		"free":    {took: time.Second, runs: true},
		"used up": {took: 5 * time.Second},
		"no grid": {took: time.Second, edit: func(e *registry.Endpoint) { e.Slot = "never" }, do: func(w *world) { w.tick() }},
		"paused":  {took: time.Second, do: func(w *world) { w.pause() }},
		"charged": {took: time.Second, do: func(w *world) { w.loop.Charge(time.Hour) }},
		"blackout": {took: time.Second, edit: func(e *registry.Endpoint) {
			e.Blackout = []registry.Blackout{{Start: "2 0 * * *", For: registry.Duration(50 * time.Second)}}
		}},
		"throttled": {took: time.Second, do: func(w *world) {
			w.service.setHealth(registry.Health{State: registry.HealthThrottled, Until: time.Now().Add(time.Hour)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("@every 1m", 10*time.Second, "rr")
				if c.edit != nil {
					c.edit(&e)
				}
				w := newWorld(t, e, same(t, c.took))
				w.register("a")
				if !c.runs {
					w.register("a2")
				}
				w.run()
				defer w.stop()
				until(130 * time.Second)
				if c.do != nil {
					c.do(w)
				}
				slots := len(w.slots())
				w.register("b")
				w.soon()
				until(145 * time.Second)
				if n := w.service.ran("q_b"); n != 0 != c.runs || len(w.slots()) != slots {
					t.Fatalf("it ran %d times, in %d slots more", n, len(w.slots())-slots)
				}
				if !c.runs {
					return
				}
				if r := w.stats("q_b").LastRun; r.Why != plan.TierNew || !r.At.Equal(epoch().Add(131*time.Second)) {
					t.Errorf("it ran as %+v", r)
				}
				until(190 * time.Second)
				if s := w.slots(); s[2].OffGrid.Used != 1 || s[3].Charged != 1 {
					t.Errorf("the slots are %+v", s)
				}
			})
		})
	}
}

// A query that was registered while a slot runs runs after it, and one that fails waits for
// the next slot.
func TestNewQueryRunsOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 30*time.Second, "rr"), func(q *registry.Query, _ int) reply {
			return reply{takes: 2 * time.Second, outcome: registry.Failed}
		})
		w.register("a")
		w.run()
		defer w.stop()
		until(61 * time.Second) // the first slot runs
		w.register("b")
		w.soon()
		until(65 * time.Second)
		for range 10 {
			w.soon()
		}
		until(80 * time.Second)
		if n := w.service.ran("q_b"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

func (w *world) pause() {
	w.t.Helper()
	e := w.as
	e.Pause = &registry.Pause{By: "me", At: time.Now()}
	if err := w.loop.Reconfigure(e); err != nil {
		w.t.Error(err)
	}
}

// A new query that is cut once gets its result, though its policy puts it behind all others: it begins a slot.
func TestNewQueryThatWasCut(t *testing.T) {
	for _, name := range []string{"ljf", "dj", "cr", "hybrid", "sjf", "rr"} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := 0
				w := newWorld(t, endpoint("never", time.Second, name), func(q *registry.Query, _ int) reply {
					n++
					takes := 150 * time.Millisecond
					if q.ID == "q_new" {
						takes = 700 * time.Millisecond
						if n > 60 {
							takes = 10 * time.Millisecond
						}
					}
					return reply{takes, registry.Changed, schedulertest.Rows(t, fmt.Sprint(n))}
				})
				for i := range 6 {
					w.register(fmt.Sprint(i))
				}
				w.run()
				defer w.stop()
				for range 8 {
					w.tick()
				}
				w.register("new")
				for range 12 {
					w.tick()
				}
				if s := w.stats("q_new"); s.Executions == 0 {
					t.Errorf("after 12 slots it was asked %d times: %+v", w.service.ran("q_new"), s.LastRun)
				}
			})
		})
	}
}
