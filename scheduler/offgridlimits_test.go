package scheduler_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A slowLedger takes its time to answer Since.
type slowLedger struct {
	*schedulertest.Memory
	takes atomic.Int64
}

func (l *slowLedger) Since(endpoint string, rev uint64) (scheduler.News, error) {
	time.Sleep(time.Duration(l.takes.Load()))
	return l.Memory.Since(endpoint, rev)
}

// A slot that begins while the loop works on a hint is not skipped.
func TestHintSkipsNoSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 20*time.Second, "rr"), same(t, time.Second))
		ledger := &slowLedger{Memory: w.ledger}
		var err error
		if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: w.as, Ledger: ledger, Executor: w.service}); err != nil {
			t.Fatal(err)
		}
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		until(150 * time.Second)
		w.loop.Charge(time.Hour) // nothing can run between the slots
		until(3*time.Minute - 80*time.Millisecond)
		ledger.takes.Store(int64(200 * time.Millisecond))
		explained := make(chan struct{})
		go func() {
			defer close(explained)
			_, _ = w.loop.Explain("q_a") // the plan is incomplete until after the grid time
		}()
		time.Sleep(time.Microsecond)
		w.hint(touched("http://x/a"))
		<-explained
		ledger.takes.Store(0)
		until(3*time.Minute + 30*time.Second)
		if s := w.slots(); len(s) != 4 {
			t.Errorf("%d slots, from minute 0 to minute 3: %+v", len(s), s)
		}
	})
}

// A pause that arrives during an execution outside the grid is in force when that ends,
// even if the next grid time has come.
func TestPauseDuringOffGrid(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		takes := 5 * time.Second
		answer := schedulertest.Rows(t, "same")
		w := newWorld(t, endpoint("@every 1m", 50*time.Second, "rr"),
			func(*registry.Query, int) reply { return reply{takes, registry.Changed, answer} })
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		until(3*time.Minute + 50*time.Second)
		slots := len(w.slots())
		takes = time.Hour
		w.hint(touched("http://x/a"))
		until(3*time.Minute + 55*time.Second)
		e := w.as
		e.Pause = &registry.Pause{By: "me", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		until(6 * time.Minute)
		list := w.slots()
		if len(list) != slots || list[slots-1].OffGrid.Cut != 1 {
			t.Errorf("slots while the endpoint is paused: %+v", list[slots-1:])
		}
	})
}

// No execution outside the grid goes on in a blackout.
func TestOffGridEndsBeforeBlackout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 10m", 5*time.Minute, "rr")
		e.Blackout = []registry.Blackout{{Start: "25 0 * * *", For: registry.Duration(time.Hour)}}
		w := newWorld(t, e, same(t, 10*time.Second))
		for _, n := range names("", 12) {
			w.register(n, about("http://x/a"))
		}
		w.run()
		defer w.stop()
		until(24*time.Minute + 15*time.Second)
		n := len(w.service.executions())
		w.hint(touched("http://x/a"))
		until(80 * time.Minute)
		list := w.service.executions()[n:]
		if len(list) == 0 {
			t.Error("nothing ran before the blackout")
		}
		for _, x := range list {
			if x.end.After(epoch().Add(25 * time.Minute)) {
				t.Errorf("%s ran from %s to %s, the blackout begins at 00:25", x.query, x.start.Format(time.TimeOnly), x.end.Format(time.TimeOnly))
			}
		}
	})
}

// A hookedService calls a function when its health is read.
type hookedService struct {
	*service
	hook atomic.Pointer[func()]
}

func (s *hookedService) Health() registry.Health {
	if f := s.hook.Swap(nil); f != nil {
		(*f)()
	}
	return s.service.Health()
}

// A trial run that begins while a hint is followed shares one budget with it.
func TestTrialBesideOffGrid(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const budget = 30 * time.Second
		e := endpoint("@every 1m", budget, "ttl:max=32:reset")
		e.Concurrency = 2
		takes := 10 * time.Millisecond
		answer := schedulertest.Rows(t, "same")
		w := newWorld(t, e, func(*registry.Query, int) reply { return reply{takes, registry.Changed, answer} })
		service := &hookedService{service: w.service}
		var err error
		if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: w.ledger, Executor: service}); err != nil {
			t.Fatal(err)
		}
		for _, n := range names("", 600) {
			w.register(n, about("http://x/all"), func(q *registry.Query) { q.Holders[0].MinInterval = registry.Duration(15 * time.Second) })
		}
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		until(20 * time.Second) // the plan has to place 600 queries again, and lets others use it meanwhile
		takes = time.Hour
		trial := make(chan error, 1)
		hook := func() {
			go func() {
				q := schedulertest.Query(city, "trial")
				_, err := w.loop.Trial(t.Context(), &q)
				trial <- err
			}()
			time.Sleep(time.Microsecond) // it waits for the lock
		}
		service.hook.Store(&hook)
		n := len(w.service.executions())
		w.hint(touched("http://x/a"))
		<-trial
		until(59 * time.Second)
		used := time.Duration(0)
		for _, x := range w.service.executions()[n:] {
			used += x.end.Sub(x.start)
		}
		if used == 0 || used > budget {
			t.Errorf("the trial run and the hint used %s together, the budget is %s", used, budget)
		}
	})
}

// A flood of hints that can run nothing is not a flood of commits.
func TestHintsCommitOnce(t *testing.T) {
	for name, c := range map[string]struct {
		left time.Duration
		hint registry.Hint
	}{
		"almost nothing left": {plan.LeastGrant / 2, touched("http://x/a")},
		"all queries":         {500 * time.Millisecond, registry.Hint{All: true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, endpoint("@every 1m", 20*time.Second, "rr"), same(t, time.Second))
				w.register("a", about("http://x/a"))
				w.run()
				defer w.stop()
				until(150 * time.Second)
				w.loop.Charge(20*time.Second - c.left)
				before := w.ledger.Batches()
				for range 20 {
					w.hint(c.hint)
					time.Sleep(time.Millisecond)
				}
				if n := w.ledger.Batches() - before; n > 1 {
					t.Errorf("%d commits for hints that ran nothing", n)
				}
			})
		})
	}
}
