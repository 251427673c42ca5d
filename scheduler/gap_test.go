package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/scheduler"
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

// A gate is a client that keeps the gap itself: a request waits for it in no time of its own, and is not sent if its context ends.
type gate struct {
	*service
	gap    time.Duration
	place  chan struct{}
	free   time.Time
	unsent int
}

func (g *gate) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	g.place <- struct{}{}
	defer func() { <-g.place }()
	select {
	case <-time.After(time.Until(g.free)):
	case <-ctx.Done():
		g.unsent++
		return scheduler.Answer{Outcome: registry.Cut, Error: "the time ended while waiting"}
	}
	a := g.service.Execute(ctx, q, m, limit)
	g.free = time.Now().Add(g.gap)
	return a
}

// gated makes the client of a world keep the gap of its endpoint.
func (w *world) gated() *gate {
	w.t.Helper()
	g := &gate{service: w.service, gap: time.Duration(w.as.MinGap), place: make(chan struct{}, 1)}
	var err error
	if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: w.as, Ledger: w.ledger, Executor: g}); err != nil {
		w.t.Fatal(err)
	}
	return g
}

// A trial run that waits for the gap after another one, or after a slot, looks again at what keeps it from being sent. One that may
// not be sent anyway does not wait.
func TestTrialThatWaitsForTheGap(t *testing.T) {
	const gap = time.Minute
	for _, afterSlot := range []bool{false, true} {
		for why, edit := range map[error]func(*registry.Endpoint){
			scheduler.ErrPaused: func(e *registry.Endpoint) { e.Pause = &registry.Pause{By: "ops", At: time.Now()} },
			scheduler.ErrBlackout: func(e *registry.Endpoint) {
				e.Blackout = []registry.Blackout{{Start: "2 0 * * *", For: registry.Duration(time.Hour)}}
			},
			scheduler.ErrStopped: nil,
		} {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("never", 30*time.Second, "rr")
				e.MinGap, e.Timeout = registry.Duration(gap), registry.Duration(5*time.Second)
				w := newWorld(t, e, same(t, time.Second))
				w.gated()
				w.register("a")
				w.run()
				q := schedulertest.Query(city, "trial")
				ended := make(chan error, 1)
				trial := func() {
					_, err := w.loop.Trial(t.Context(), &q)
					ended <- err
				}
				if afterSlot {
					go w.loop.Tick(t.Context())
				} else {
					go trial()
				}
				until(gap + 500*time.Millisecond) // the gap begins with the process
				go trial()
				until(gap + 10*time.Second)
				if !afterSlot {
					<-ended
				}
				before := len(w.service.executions())
				if edit == nil {
					w.stop()
				} else {
					edit(&e)
					if err := w.loop.Reconfigure(e); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-ended; !errors.Is(err, why) || len(w.service.executions()) > before {
					t.Errorf("after a slot: %v: the trial run that waits for the gap: %v, want %v", afterSlot, err, why)
				}
				if edit == nil {
					return
				}
				until(2*gap + 2*time.Second)
				if _, err := w.loop.Trial(t.Context(), &q); !errors.Is(err, why) || time.Since(epoch()) > 2*gap+2*time.Second {
					t.Errorf("another one: %v, after %s", err, time.Since(epoch()))
				}
				w.stop()
			})
		}
	}
}

// At an endpoint with a gap that is longer than the timeout, trial runs that come without end take turns with the queries of slots.
func TestTrialsAndSlotsTakeTurnsAtAGap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 30*time.Second, "rr")
		e.MinGap, e.Timeout = registry.Duration(9*time.Second), registry.Duration(5*time.Second)
		w := newWorld(t, e, same(t, time.Second))
		g := w.gated()
		w.register("a")
		w.register("b")
		w.register("c")
		w.run()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var trials sync.WaitGroup
		for range 2 {
			trials.Go(func() {
				q := schedulertest.Query(city, "trial")
				for ctx.Err() == nil {
					if _, err := w.loop.Trial(ctx, &q); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		trials.Wait()
		if n := len(w.slots()); n < 9 || g.unsent > 1 {
			t.Errorf("%d slots in 10 minutes; %d requests were not sent", n, g.unsent)
		}
		for _, s := range w.slots() {
			if s.Run != 3 && s.Number < 9 {
				t.Errorf("slot %d ran %d of 3 queries", s.Number, s.Run)
			}
		}
		last := epoch().Add(-time.Hour)
		for _, x := range w.service.executions() {
			if x.start.Sub(last) < g.gap {
				t.Errorf("only %s between two requests", x.start.Sub(last))
			}
			last = x.end
		}
		w.stop()
	})
}

// A redirecting is a client that follows a redirect after the gap.
type redirecting struct {
	*service
	gap time.Duration
}

func (g *redirecting) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	err := clock.WaitsOf(ctx).During(func() error {
		select {
		case <-time.After(g.gap):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return scheduler.Answer{Outcome: registry.Cut, Elapsed: 100 * time.Millisecond, Error: "the time given for it ended first"}
	}
	return g.service.Execute(ctx, q, m, limit)
}

// The wait for the gap inside an execution, as before a redirect is followed, is not paid by the budget of a slot, which still bounds
// what the endpoint sees. Executions between two slots end before the next slot, whatever they wait for.
func TestGapWithinExecutions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const gap, budget = 12 * time.Second, 10 * time.Second
		e := endpoint("@every 1m", budget, "rr")
		e.MinGap = registry.Duration(gap)
		answer := schedulertest.Rows(t, "same")
		w := newWorld(t, e, func(*registry.Query, int) reply {
			if time.Since(epoch()) < 115*time.Second {
				return reply{time.Second, registry.Changed, answer}
			}
			return reply{time.Hour, registry.Changed, answer}
		})
		w.service.reckless = true
		var err error
		if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: w.ledger, Executor: &redirecting{w.service, gap}}); err != nil {
			t.Fatal(err)
		}
		w.register("a", about("http://x/a"))
		w.run()
		until(115 * time.Second)
		for _, s := range w.slots() {
			if s.Complete != 1 || s.Used != 1 {
				t.Errorf("slot %d: %d complete, %d cut, %g s used", s.Number, s.Complete, s.Cut, s.Used)
			}
		}
		w.hint(touched("http://x/a"))
		until(179 * time.Second)
		slots := w.slots()
		if s := slots[len(slots)-1]; s.Cut != 1 || s.Started.Sub(epoch()) != 2*time.Minute || s.Used > budget.Seconds() {
			t.Errorf("the slot after a hint: %+v", s)
		}
		if seen := w.service.since(epoch().Add(2 * time.Minute)); seen == 0 || seen > budget {
			t.Errorf("the endpoint was asked for %s in a slot, the budget is %s", seen, budget)
		}
		w.stop()
	})
}
