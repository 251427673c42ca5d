package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func TestGrid(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 10s", 4*time.Second, "rr"), same(t, time.Second))
		w.register("a")
		time.Sleep(3 * time.Second) // the grid does not depend on when the loop starts
		w.run()
		until(35 * time.Second)
		w.stop()
		slots := w.slots()
		if len(slots) != 3 {
			t.Fatalf("%d slots, want those of 10, 20 and 30 s", len(slots))
		}
		for i, s := range slots {
			if want := epoch().Add(time.Duration(i+1) * 10 * time.Second); s.Number != uint64(i+1) || !s.Started.Equal(want) {
				t.Errorf("slot %d started at %s, want number %d at %s", s.Number, s.Started, i+1, want)
			}
			if s.Run != 1 || s.Complete != 1 || s.Used != 1 || s.Budget != 4 || s.Tick || s.Finished.Sub(s.Started) != time.Second {
				t.Errorf("slot %+v", s)
			}
		}
	})
}

// Grid times during a long slot are skipped and not made up for. Here min_gap makes the
// slot long, because the budget cannot exceed the grid.
func TestOverrunSkipsGridTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 10s", 10*time.Second, "rr")
		e.MinGap = registry.Duration(3 * time.Second)
		w := newWorld(t, e, same(t, time.Second))
		for _, n := range names("a", 5) { // 5 × 1 s and 4 gaps of 3 s: 17 s, new ones use up K/2 = 5 s
			w.register(n)
		}
		w.run()
		until(45 * time.Second)
		w.stop()
		var starts []time.Duration
		for _, s := range w.slots() {
			starts = append(starts, s.Started.Sub(epoch()))
		}
		want := []time.Duration{0, 20 * time.Second, 40 * time.Second}
		if fmt.Sprint(starts) != fmt.Sprint(want) {
			t.Errorf("slots started at %v, want %v", starts, want)
		}
		if n := w.slots()[2].Number; n != 3 {
			t.Errorf("the third slot has number %d: skipped grid times take none", n)
		}
		x := w.service.executions()
		for i := 1; i < len(x); i++ {
			if gap := x[i].start.Sub(x[i-1].end); gap < 3*time.Second && x[i].start.Sub(epoch())%(10*time.Second) != 0 {
				t.Errorf("execution %d came %s after the one before", i, gap)
			}
		}
	})
}

// A slot that ends exactly when the next one is due does not skip it.
func TestFullSlotsFollowEachOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 10s", 10*time.Second, "rr"), same(t, 5*time.Second))
		w.register("a")
		w.register("b")
		w.run()
		until(59 * time.Second)
		w.stop()
		// 0 s: a uses up the share of new queries; 10 s: b; from 20 s on both run,
		// every 10 s.
		for i, s := range w.slots() {
			if s.Started.Sub(epoch()) != time.Duration(i)*10*time.Second {
				t.Errorf("slot %d started at %s", s.Number, s.Started.Sub(epoch()))
			}
		}
		if n := len(w.slots()); n != 6 {
			t.Errorf("%d slots in a minute", n)
		}
	})
}

// A pause lets what runs finish. The running slot starts nothing more, and no trial run begins.
func TestPauseDuringSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 20*time.Second, "rr")
		w := newWorld(t, e, same(t, 2*time.Second))
		for _, n := range names("a", 4) {
			w.register(n)
		}
		w.run()
		ended := make(chan scheduler.Slot, 1)
		go func() { ended <- w.tick() }()
		until(3 * time.Second)
		q := schedulertest.Query(city, "trial")
		closed := e
		closed.Blackout = []registry.Blackout{{Start: "0 0 * * *", For: registry.Duration(time.Hour)}}
		if err := w.loop.Reconfigure(closed); err != nil {
			t.Fatal(err)
		}
		tried := make(chan error, 1)
		go func() {
			_, err := w.loop.Trial(t.Context(), &q)
			tried <- err
		}()
		until(5 * time.Second)
		if err := <-tried; !errors.Is(err, scheduler.ErrBlackout) {
			t.Errorf("a trial run in a blackout that waits for the end of the slot: %v", err)
		}
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := w.loop.Trial(t.Context(), &q)
			tried <- err
		}()
		if s := <-ended; s.Complete != 3 || s.Cut != 0 || s.Error != "the endpoint is paused" || s.Finished.Sub(s.Started) != 6*time.Second {
			t.Errorf("the slot: %+v", s)
		}
		if err := <-tried; !errors.Is(err, scheduler.ErrPaused) || w.service.ran(q.ID) > 0 {
			t.Errorf("a trial run of a paused endpoint: %v", err)
		}
		w.stop()
	})
}

func TestPauseResumeAndBlackout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 10*time.Second, "rr")
		e.Blackout = []registry.Blackout{{Start: "5 0 * * *", For: registry.Duration(3 * time.Minute)}}
		w := newWorld(t, e, same(t, time.Second))
		w.register("a")
		w.run()
		until(150 * time.Second) // slots at 0, 1, 2 min
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !w.loop.State().Next.IsZero() {
			t.Error("a paused endpoint announces a next slot")
		}
		if _, err := w.loop.Tick(t.Context()); !errors.Is(err, scheduler.ErrPaused) {
			t.Errorf("a tick of a paused endpoint: %v", err)
		}
		until(210 * time.Second) // nothing at 3 min
		e.Pause = nil
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		until(6 * time.Minute) // one at 4 min, none at 5, 6 and 7: blackout
		if _, err := w.loop.Tick(t.Context()); !errors.Is(err, scheduler.ErrBlackout) {
			t.Errorf("a tick in a blackout: %v", err)
		}
		if next := w.loop.State().Next.Sub(epoch()); next != 8*time.Minute {
			t.Errorf("the next slot is announced for %s, want 8m", next)
		}
		until(8*time.Minute + 30*time.Second)
		w.stop()
		var got []string
		for _, s := range w.slots() {
			got = append(got, fmt.Sprint(s.Number, "@", s.Started.Sub(epoch())))
		}
		if want := "[1@0s 2@1m0s 3@2m0s 4@4m0s 5@8m0s]"; fmt.Sprint(got) != want {
			t.Errorf("slots %v, want %s", got, want)
		}
	})
}

func TestTicks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "rr"), same(t, time.Second))
		w.register("a")
		w.run()
		const burst = 20
		var wg sync.WaitGroup
		seen := make([]uint64, burst)
		for i := range burst {
			wg.Go(func() { seen[i] = w.tick().Number })
			synctest.Wait() // they queue in this order
		}
		wg.Wait()
		for i, n := range seen {
			if n != uint64(i+1) {
				t.Fatalf("ticks were served out of order: %v", seen)
			}
		}
		// A caller that stops waiting does not cancel the slot.
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := w.loop.Tick(ctx); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled tick: %v", err)
		}
		if s := w.tick(); s.Number != burst+2 || !s.Tick {
			t.Errorf("after the cancelled one came %+v", s)
		}
		if s := w.slots()[burst]; s.Complete != 1 || s.Cut != 0 {
			t.Errorf("the slot of the cancelled tick was broken: %+v", s)
		}
		w.stop()
		if _, err := w.loop.Tick(t.Context()); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("a tick after the end: %v", err)
		}
	})
}

// Tick returns the summary after everything in it is committed.
func TestTickIsCommitted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "rr"), same(t, 10*time.Millisecond))
		for _, n := range names("a", 30) {
			w.register(n)
		}
		w.run()
		s := w.tick()
		if s.Run != 30 || s.Complete != 30 || s.Changed != 0 {
			t.Errorf("baselines are executions and no changes: %+v", s)
		}
		if c := w.ledger.Changes(); len(c) != 30 {
			t.Errorf("%d baselines are committed", len(c))
		}
		before := w.ledger.Batches()
		s = w.tick()
		last := w.slots()[len(w.slots())-1]
		if s != last {
			t.Errorf("returned %+v, committed %+v", s, last)
		}
		if n := w.ledger.Batches() - before; n != 1 {
			t.Errorf("30 unchanged outcomes took %d transactions, want one", n)
		}
		w.stop()
	})
}

func TestChangesCommitAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", time.Minute, "rr"), nil)
		w.service.reply = func(q *registry.Query, n int) reply {
			if q.ID == "q_b" {
				return reply{100 * time.Millisecond, registry.Changed, schedulertest.Rows(t, fmt.Sprint(n))}
			}
			return reply{100 * time.Millisecond, registry.Changed, schedulertest.Rows(t, "still")}
		}
		told := map[string]int{}
		w.onWake = func(notes []scheduler.Note) { // nothing is announced before it is committed
			committed := map[string]int{}
			for _, c := range w.ledger.Changes() {
				committed[c.Query]++
			}
			for _, n := range notes {
				if told[n.Query]++; n.Changed && committed[n.Query] < told[n.Query] {
					t.Errorf("%s is announced and not committed", n.Query)
				}
			}
		}
		for _, n := range []string{"a", "b", "c"} {
			w.register(n)
		}
		w.run()
		w.tick()
		w.mu.Lock()
		w.notes = nil
		w.mu.Unlock()
		go w.tick()
		time.Sleep(250 * time.Millisecond) // a and b have run, c runs
		synctest.Wait()
		w.mu.Lock()
		if len(w.notes) != 1 || w.notes[0] != (scheduler.Note{Query: "q_b", Changed: true}) {
			t.Errorf("notes while the slot runs: %+v", w.notes)
		}
		w.mu.Unlock()
		c := w.ledger.Changes()
		if last := c[len(c)-1]; last.Query != "q_b" || last.Prev != 1 || last.Seq != 2 || last.Slot != 2 || last.Delta.Jaccard != 1 {
			t.Errorf("the change is %+v", last)
		}
		if s := w.stats("q_a"); s.Last != 2 {
			t.Error("the unchanged outcome before it was not committed with it")
		}
		if n := w.slots(); n[len(n)-1].Number != 2 || n[len(n)-1].Run != 3 || !n[len(n)-1].Finished.IsZero() {
			t.Errorf("the slot so far is %+v", n[len(n)-1])
		}
		time.Sleep(time.Second)
		w.stop()
		if s := w.stats("q_b"); s.Executions != 2 || s.Changes != 1 || s.Position.Seq != 2 {
			t.Errorf("a baseline is an execution and no change: %+v", s)
		}
	})
}

// Unchanged outcomes wait at most a second, even while a long execution runs.
func TestUnchangedWaitsASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "x")
		w := newWorld(t, endpoint("never", time.Minute, "rr"), func(q *registry.Query, n int) reply {
			if q.ID == "q_z" {
				return reply{20 * time.Second, registry.Changed, r}
			}
			return reply{time.Millisecond, registry.Changed, r}
		})
		w.register("a")
		w.register("z")
		w.run()
		w.tick()
		go w.tick()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if w.stats("q_a").Last != 1 {
			t.Error("an unchanged outcome was committed alone at once")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if w.stats("q_a").Last != 2 {
			t.Error("an unchanged outcome waits longer than a second")
		}
		time.Sleep(time.Minute)
		w.stop()
	})
}

// A query that is removed counts no more, although no slot comes.
func TestStateWithoutRemovedQueries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", time.Minute, "rr"), func(*registry.Query, int) reply {
			return reply{takes: time.Second, outcome: registry.Rejected}
		})
		w.register("a")
		w.run()
		w.tick()
		if s := w.loop.State(); s.Queries != 1 || s.States[registry.Failing] != 1 {
			t.Errorf("a query that is refused: %+v", s)
		}
		if err := w.ledger.Remove("q_a"); err != nil {
			t.Fatal(err)
		}
		if s := w.loop.State(); s.Queries != 0 || s.States[registry.Failing] != 0 {
			t.Errorf("a removed query: %+v", s)
		}
		w.stop()
	})
}

// The state of a paused endpoint says why no slot begins.
func TestStateOfPausedEndpoint(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", time.Minute, "rr")
		e.Blackout = []registry.Blackout{{Start: "* * * * *", For: registry.Duration(30 * time.Second)}}
		w := newWorld(t, e, same(t, time.Second))
		w.run()
		if s := w.loop.State(); s.Halted != "" {
			t.Errorf("in a blackout: %+v", s)
		}
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		if s := w.loop.State(); !strings.Contains(s.Halted, "paused") || !strings.Contains(s.Halted, "ops") {
			t.Errorf("a paused endpoint: %+v", s)
		}
		w.stop()
	})
}

// A run that the budget cuts names the budget and the remedy. A new query has a share of the budget at first.
func TestCutNamesTheBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", time.Minute, "rr"), same(t, time.Hour))
		w.register("a")
		w.run()
		for _, want := range []string{
			"cut after 30s by its share of the endpoint's budget of 1m0s a slot: raise budget, or use rule debt, if that is often",
			"cut after 1m0s by the endpoint's budget of 1m0s a slot: raise budget, or use rule debt",
		} {
			w.tick()
			if got := w.stats("q_a").LastRun.Error; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		w.stop()
	})
}

func TestCancelInTheMiddle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", time.Minute, "rr"), same(t, 4*time.Second))
		for _, n := range []string{"a", "b", "c"} {
			w.register(n)
		}
		w.run()
		until(6 * time.Second) // a is complete, b has run for 2 s
		w.stop()
		if now := time.Since(epoch()); now != 6*time.Second {
			t.Errorf("stopping took until %s", now)
		}
		s := w.slots()
		if len(s) != 1 || s[0].Run != 2 || s[0].Complete != 1 || s[0].Cut != 1 || s[0].Used != 6 {
			t.Errorf("what ran was not recorded: %+v", s)
		}
		b := w.stats("q_b")
		if b.LastRun.Outcome != registry.Cut || b.Floor != 2*time.Second || b.Failures != 0 || b.Cuts != 0 || b.NotBefore != 0 || b.Last != 0 {
			t.Errorf("a run cut by the end counts as a failure: %+v", b)
		}
		if b.LastRun.Error == "" || strings.Contains(b.LastRun.Error, "budget") {
			t.Errorf("a run cut by the end says %q", b.LastRun.Error)
		}
		if w.service.ran("q_c") != 0 {
			t.Error("an execution was started after the end")
		}
		// A new loop continues with the next number and with what has not run yet.
		w.open(endpoint("@every 1m", time.Minute, "rr"))
		w.run()
		until(2 * time.Minute)
		w.stop()
		s = w.slots()
		if s[1].Number != 2 || s[1].Complete != 3 || w.stats("q_b").Floor != 0 {
			t.Errorf("after a restart: %+v", s)
		}
	})
}

// A slot that is not recorded is run again. Only a ledger that cannot be used any more ends the loop.
func TestLedgerErrorEndsRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 10s", 10*time.Second, "rr"), same(t, time.Second))
		w.register("a")
		w.ledger.Break(errors.New("too large"))
		w.run()
		until(25 * time.Second)
		if s := w.loop.State(); !strings.Contains(s.Halted, "not recorded") || !strings.Contains(s.Halted, "too large") {
			t.Errorf("%+v", s)
		}
		w.ledger.Break(nil)
		until(45 * time.Second)
		if s := w.loop.State(); s.Halted != "" || s.Results != 1 {
			t.Errorf("%+v", s)
		}
		broken := fmt.Errorf("no space left on device: %w", registry.ErrUnusable)
		w.ledger.Break(broken)
		if err := <-w.done; !errors.Is(err, broken) {
			t.Errorf("Run ended with %v", err)
		}
		w.cancel()
	})
}

func TestUnhealthyEndpoint(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 10s", 10*time.Second, "rr"), same(t, time.Second))
		for _, n := range []string{"a", "b"} {
			w.register(n)
		}
		w.service.setHealth(registry.Health{State: registry.HealthThrottled, Until: epoch().Add(15 * time.Second),
			Error: "429 Too Many Requests"})
		w.run()
		until(9 * time.Second)
		s := w.slots()
		if len(s) != 1 || s[0].Run != 0 || s[0].Error == "" {
			t.Errorf("a throttled endpoint was asked, or its slot says nothing: %+v", s)
		}
		if n, _ := w.ledger.Since(city, 0); n.Health.State != registry.HealthThrottled {
			t.Errorf("the health was not recorded: %+v", n.Health)
		}
		if _, err := w.loop.Trial(t.Context(), &registry.Query{ID: "t", Endpoint: city}); err != nil || w.service.ran("t") != 0 {
			t.Errorf("a trial run of a throttled endpoint: %v, %d requests", err, w.service.ran("t"))
		}
		until(29 * time.Second) // nothing at 10 s, at 20 s the time has come
		if s = w.slots(); s[1].Run != 0 || s[2].Run != 2 || s[2].Error != "" {
			t.Errorf("after the waiting: %+v", s)
		}
		w.stop()
	})
}

// An endpoint that fails in the middle of a slot receives no more requests at once.
// When its back-off ends it receives one probe at a time.
func TestFallsIll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.Concurrency = 3
		w := newWorld(t, e, nil)
		ill := registry.Health{State: registry.HealthFailing, Until: epoch().Add(time.Minute), Error: "connection refused"}
		w.service.reply = func(q *registry.Query, n int) reply {
			if time.Since(epoch()) < time.Minute {
				w.service.setHealth(ill)
			}
			return reply{100 * time.Millisecond, registry.Failed, nil}
		}
		for _, n := range names("a", 9) {
			w.register(n)
		}
		w.run()
		if s := w.tick(); s.Run != 3 || s.Failed != 3 || s.Error == "" || s.Skipped != 0 {
			t.Errorf("the slot in which it fell ill: %+v", s)
		}
		if s := w.tick(); s.Run != 0 || s.Error == "" {
			t.Errorf("the slot after: %+v", s)
		}
		until(2 * time.Minute)
		w.service.mu.Lock()
		w.service.most = 0
		w.service.mu.Unlock()
		if s := w.tick(); s.Run == 0 || w.service.most != 1 {
			t.Errorf("%d probes at a time: %+v", w.service.most, s)
		}
		w.stop()
	})
}

// Once an endpoint answers again, what failed with it is asked in the next slots. A query that fails by itself, or is refused, waits.
func TestRecovers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 30*time.Second, "rr"), nil)
		down := func() bool { d := time.Since(epoch()); return d > 150*time.Second && d < 20*time.Minute }
		w.service.reply = func(q *registry.Query, n int) reply {
			switch {
			case q.ID == "q_refused" && down():
				return reply{100 * time.Millisecond, registry.Rejected, nil}
			case q.ID == "q_bad" || down():
				return reply{100 * time.Millisecond, registry.Failed, nil}
			}
			return same(t, 100*time.Millisecond)(q, n)
		}
		for _, n := range []string{"a", "b", "c", "bad", "refused"} {
			w.register(n)
		}
		w.run()
		until(19 * time.Minute)
		w.register("new") // finds out that the endpoint answers
		until(20*time.Minute + 30*time.Second)
		for w.service.ran("q_new") < 2 {
			time.Sleep(time.Minute)
		}
		before := map[string]int{}
		for _, n := range []string{"a", "b", "c", "bad", "refused"} {
			before[n] = w.service.ran("q_" + n)
		}
		time.Sleep(150 * time.Second)
		for n, ran := range before {
			if asked := w.service.ran("q_"+n) > ran; asked != (len(n) == 1) {
				t.Errorf("%s is asked in the two slots after the first answer: %v", n, asked)
			}
		}
		w.stop()
	})
}

func TestReconfigureKeepsStatistics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		w := newWorld(t, e, same(t, time.Second))
		w.register("a")
		w.run()
		for range 3 { // baseline and two unchanged: ttl would be 1, 2, 4
			w.tick()
		}
		e.Policy = "ttl:max=32:reset"
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		x, err := w.loop.Explain("q_a")
		if err != nil || x.Inputs["ttl"] != 4 || x.Inputs["due"] != 7 || x.Eligible || x.Policy != e.Policy {
			t.Errorf("refolded: %+v, %v", x, err)
		}
		for n := uint64(4); n <= 7; n++ {
			if s := w.tick(); s.Number != n || (s.Run == 1) != (n == 7) {
				t.Errorf("slot %d ran %d, due is 7", s.Number, s.Run)
			}
		}
		if s := w.stats("q_a"); s.Policy != e.Policy || len(s.State) != 1 || s.State[0] != 8 {
			t.Errorf("recorded state %v of %q, want 8", s.State, s.Policy)
		}
		w.stop()
	})
}

func TestTrialIsCharged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "rr"), same(t, 2*time.Second))
		w.register("a")
		w.run()
		w.tick()
		q := schedulertest.Query(city, "trial")
		for range 2 {
			if a, err := w.loop.Trial(t.Context(), &q); err != nil || a.Elapsed != 2*time.Second || a.Result == nil {
				t.Fatalf("trial: %+v, %v", a, err)
			}
		}
		a, err := w.loop.Trial(t.Context(), &q) // 1 s of half of 10 is left
		if err != nil || a.Outcome != registry.Cut || a.Elapsed != time.Second {
			t.Errorf("the third trial: %+v, %v", a, err)
		}
		if _, err := w.loop.Trial(t.Context(), &q); !errors.Is(err, scheduler.ErrCharged) {
			t.Errorf("the fourth trial: %v", err)
		}
		if s := w.tick(); s.Run != 1 || s.Charged != 5 || s.Used != 7 {
			t.Errorf("the slot that pays: %+v", s)
		}
		if s := w.tick(); s.Run != 1 || s.Used != 2 {
			t.Errorf("the slot after it: %+v", s)
		}
		if _, ok := findQuery(w, q.ID); ok {
			t.Error("a trial run was stored")
		}
		w.stop()
	})
}

func findQuery(w *world, id string) (policy.Entry, bool) {
	n, _ := w.ledger.Since(city, 0)
	for _, e := range n.Entries {
		if e.Query.ID == id {
			return e, true
		}
	}
	return policy.Entry{}, false
}

// A refresh request is served once, in the next slot, under any policy.
func TestRefresh(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "ttl:max=32:reset"), same(t, time.Second))
		q := w.register("a")
		w.run()
		w.tick() // baseline, due in 2
		w.tick() // ttl 2, due in 4
		q.Refreshes = 2
		w.put(q)
		if s := w.tick(); s.Run != 1 {
			t.Errorf("the slot after the request: %+v", s)
		}
		if s := w.stats("q_a"); s.LastRun.Why != plan.TierRefresh || s.Served != 2 || s.Last != 3 || s.State[0] != 4 {
			t.Errorf("the query: %+v", s)
		}
		if s := w.tick(); s.Run != 0 { // due in 3 + 4 = 7
			t.Errorf("two requests before a slot are one execution: %+v", s)
		}
		w.stop()
	})
}

// Queries are added, edited and removed while slots run.
func TestRegistrationsMeanwhile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "rr"), same(t, 2*time.Second))
		w.register("a")
		w.register("b")
		w.run()
		w.tick()
		done := make(chan scheduler.Slot)
		go func() { done <- w.tick() }()
		time.Sleep(time.Second) // a runs
		w.register("c")
		if err := w.ledger.Remove("q_a"); err != nil {
			t.Fatal(err)
		}
		if err := w.ledger.Remove("q_b"); err != nil {
			t.Fatal(err)
		}
		if s := <-done; s.Run != 2 || s.Complete != 2 {
			t.Errorf("the slot goes on as planned: %+v", s)
		}
		n := w.service.ran("q_a") + w.service.ran("q_b")
		if s := w.tick(); s.Run != 1 || w.service.ran("q_c") != 1 || w.service.ran("q_a")+w.service.ran("q_b") != n {
			t.Errorf("after that: %+v", s)
		}
		if q := w.loop.State().Queries; q != 1 {
			t.Errorf("%d queries are left", q)
		}
		// After it is registered again, the query is new: its old statistics are gone.
		w.register("a")
		if s := w.tick(); s.Run != 2 || w.stats("q_a").Executions != 1 || w.stats("q_a").LastRun.Why != plan.TierNew {
			t.Errorf("registered again: %+v %+v", s, w.stats("q_a"))
		}
		w.stop()
	})
}

// The plan of a slot holds all tiers, also if new queries come before ranked ones.
func TestPlannedCountsAllTiers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 20*time.Second, "rr"), same(t, time.Second))
		w.register("a")
		b := w.register("b")
		w.run()
		w.tick()
		w.register("c")
		b.Refreshes++
		w.put(b)
		// b has a refresh request, c is new (counted as 0.1 s), a is ranked: 1 s + 0.1
		// s + 1 s
		if s := w.tick(); s.Planned != 3 || s.Run != 3 || s.PlannedSeconds != 2.1 {
			t.Errorf("planned %d of %.1f s, ran %d; want 3 of 2.1 s", s.Planned, s.PlannedSeconds, s.Run)
		}
		w.stop()
	})
}
