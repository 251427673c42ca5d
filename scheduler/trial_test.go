package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// Neither slots nor trial runs send requests in a blackout.
func TestTrialInBlackout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.Blackout = []registry.Blackout{{Start: "5 0 * * *", For: registry.Duration(3 * time.Minute)}}
		w := newWorld(t, e, same(t, time.Second))
		w.run()
		until(6 * time.Minute)
		q := schedulertest.Query(city, "trial")
		_, err := w.loop.Trial(t.Context(), &q)
		if !errors.Is(err, scheduler.ErrBlackout) || !strings.Contains(err.Error(), "until 2000-01-01T00:08:00Z") {
			t.Errorf("a trial run in a blackout: %v", err)
		}
		if n := w.service.ran(q.ID); n != 0 {
			t.Errorf("the endpoint was asked %d times in a blackout", n)
		}
		until(8 * time.Minute)
		if a, err := w.loop.Trial(t.Context(), &q); err != nil || a.Result == nil {
			t.Errorf("a trial run after the blackout: %+v, %v", a, err)
		}
		w.stop()
	})
}

// A caller that tries queries again and again, also over a restart, leaves each slot half of its budget. The rest of that half is
// given only if it is worth a request, and one that was too short says so.
func TestTrialsLeaveHalfOfEachSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 10*time.Second, "rr")
		answer := schedulertest.Rows(t, "same")
		w := newWorld(t, e, func(q *registry.Query, _ int) reply {
			if q.ID == "q_a" {
				return reply{time.Second, registry.Changed, answer}
			}
			return reply{4500 * time.Millisecond, registry.Changed, answer}
		})
		w.register("a")
		for range 3 {
			w.run()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			refused := 0
			for ctx.Err() == nil {
				q := schedulertest.Query(city, "trial")
				switch _, err := w.loop.Trial(ctx, &q); {
				case errors.Is(err, scheduler.ErrCharged):
					refused++
				case err != nil && ctx.Err() == nil:
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
			}
			cancel()
			if refused == 0 {
				t.Error("no trial run was refused")
			}
			w.stop()
			w.open(e)
		}
		for _, s := range w.slots() {
			if s.Charged > 5 || s.Run != 1 {
				t.Errorf("slot %d was charged %g s of %g and ran %d of 1 query", s.Number, s.Charged, s.Budget, s.Run)
			}
		}
		for _, x := range w.service.executions() {
			if x.query != "q_a" && (x.limit > 5*time.Second || x.limit < 600*time.Millisecond) {
				t.Errorf("a trial run may take %s", x.limit)
			}
		}
	})
}

// A trial run that was given less than the timeout, and needs more, says why it ended.
func TestTrialSaysWhatItWasGiven(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "rr"), same(t, 6*time.Second))
		w.run()
		q := schedulertest.Query(city, "trial")
		a, err := w.loop.Trial(t.Context(), &q)
		if err != nil || a.Outcome != registry.Cut || !strings.Contains(a.Error, "5s") || !strings.Contains(a.Error, "raise budget") {
			t.Errorf("%s: %s %v", a.Outcome, a.Error, err)
		}
		w.stop()
	})
}

// What trial runs use survives the end of the process: the ledger knows at least as much as the endpoint has seen, exactly as much
// after an orderly end, and a new process charges the next slot with it, once.
func TestTrialRunsAreKept(t *testing.T) {
	for _, killed := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			e := endpoint("@every 1m", 30*time.Second, "rr")
			w := newWorld(t, e, same(t, 2*time.Second))
			w.register("a")
			w.run()
			recorded := func() scheduler.Beside {
				n, err := w.ledger.Since(city, 0)
				if err != nil {
					t.Fatal(err)
				}
				return n.Beside
			}
			until(70 * time.Second)
			q := schedulertest.Query(city, "trial")
			for i := range 3 {
				ended := make(chan error, 1)
				go func() {
					_, err := w.loop.Trial(t.Context(), &q)
					ended <- err
				}()
				synctest.Wait()
				if b := recorded(); b.Seconds < float64(2*i+2) || b.Slot != 3 {
					t.Errorf("in trial run %d the ledger knows %+v", i+1, b)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			b := recorded()
			w.stop()
			if killed {
				if _, err := w.ledger.Record(city, scheduler.Batch{Beside: &b}); err != nil {
					t.Fatal(err)
				}
			} else if b = recorded(); b.Seconds != 6 {
				t.Errorf("after an orderly end the ledger knows %+v", b)
			}
			w.open(e)
			w.run()
			until(150 * time.Second)
			if s := w.slots(); s[len(s)-1].Charged != b.Seconds {
				t.Errorf("killed: %v: the next slot is charged %g s; %+v was recorded", killed, s[len(s)-1].Charged, b)
			}
			w.stop()
			w.open(e)
			w.run()
			until(210 * time.Second)
			if s := w.slots(); s[len(s)-1].Charged != 0 {
				t.Errorf("killed: %v: the slot after it is charged %g s", killed, s[len(s)-1].Charged)
			}
			w.stop()
		})
	}
}

// lateLedger is a ledger that takes a while to read.
type lateLedger struct{ *schedulertest.Memory }

func (l lateLedger) Since(endpoint string, rev uint64) (scheduler.News, error) {
	time.Sleep(10 * time.Second)
	return l.Memory.Since(endpoint, rev)
}

// No trial run begins before the loop has read what it owes.
func TestTrialWaitsForTheLedger(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 20*time.Second, "rr")
		w := newWorld(t, e, same(t, time.Minute))
		if _, err := w.ledger.Record(city, scheduler.Batch{Beside: &scheduler.Beside{Slot: 1, Seconds: 6}}); err != nil {
			t.Fatal(err)
		}
		var err error
		if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: lateLedger{w.ledger}, Executor: w.service}); err != nil {
			t.Fatal(err)
		}
		w.run()
		q := schedulertest.Query(city, "trial")
		if _, err := w.loop.Trial(t.Context(), &q); !errors.Is(err, scheduler.ErrStarting) || w.service.ran(q.ID) > 0 {
			t.Errorf("a trial run at a loop that is starting: %v", err)
		}
		until(9500 * time.Millisecond)
		if _, err := w.loop.Trial(t.Context(), &q); err != nil {
			t.Errorf("a trial run shortly before the loop is up: %v", err)
		}
		if x := w.service.executions(); len(x) != 1 || x[0].limit != 4*time.Second || x[0].start.Sub(epoch()) != 10*time.Second {
			t.Errorf("the trial runs were %+v", x)
		}
		w.stop()
	})
}

// A tick reports an error if the loop ended before anything in its slot ran.
func TestTickThatNeverRan(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "rr"), same(t, 5*time.Second))
		w.register("a")
		w.run()
		trial, ticked := make(chan error, 1), make(chan error, 1)
		q := schedulertest.Query(city, "trial")
		go func() {
			_, err := w.loop.Trial(context.Background(), &q)
			trial <- err
		}()
		synctest.Wait() // it holds the only place
		go func() {
			s, err := w.loop.Tick(context.Background())
			if s != (scheduler.Slot{}) {
				t.Errorf("the slot that never was: %+v", s)
			}
			ticked <- err
		}()
		until(time.Second)
		w.stop()
		if err := <-ticked; !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("the tick: %v, want %v", err, scheduler.ErrStopped)
		}
		if err := <-trial; !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("the trial run: %v, want %v", err, scheduler.ErrStopped)
		}
		if s := w.slots(); len(s) != 0 {
			t.Errorf("slots were recorded: %+v", s)
		}
	})
}

// A trial run ends with its loop. A stopping process and the loop of a removed endpoint
// send no request, and the endpoint's new loop finds none in progress.
func TestTrialEndsWithItsLoop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &service{reply: same(t, time.Minute), stubborn: time.Second}
		m := scheduler.NewManager(scheduler.Config{Ledger: &schedulertest.Memory{}})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- m.Run(ctx) }()
		stops := map[string]func(){
			"removed": func() {
				if err := m.Remove(city); err != nil {
					t.Error(err)
				}
			},
			"stopped": func() {
				cancel()
				if err := <-over; err != nil {
					t.Error(err)
				}
			},
		}
		for _, how := range []string{"removed", "stopped"} {
			synctest.Wait()
			if err := m.Add(endpoint("never", 100*time.Second, "rr"), service); err != nil {
				t.Fatal(err)
			}
			q := schedulertest.Query(city, "trial")
			trials := make(chan error, 2)
			for range 2 { // one of them waits for the other's place
				go func() {
					_, err := m.Trial(context.Background(), &q)
					trials <- err
				}()
			}
			time.Sleep(time.Second)
			stops[how]()
			service.mu.Lock()
			if service.running != 0 {
				t.Errorf("%s: a trial run goes on", how)
			}
			service.mu.Unlock()
			for range 2 {
				if err := <-trials; !errors.Is(err, scheduler.ErrStopped) {
					t.Errorf("%s: the trial run ended with %v", how, err)
				}
			}
		}
		if n := service.ran(schedulertest.Query(city, "trial").ID); n != 2 {
			t.Errorf("asked %d times by two trial runs that did not wait", n)
		}
	})
}
