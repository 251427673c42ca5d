package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A hint makes a query run at once, between two slots. Its time counts for the slot
// before, and the next slot is charged with it.
func TestHintRunsOffGrid(t *testing.T) {
	for _, policy := range []string{"rr", "ttl:max=32:reset", "hybrid", "sqrt", "dj"} {
		bubble.Test(t, func(t *testing.T) {
			changes := schedulertest.Rows(t, "one")
			now := changes
			w := newWorld(t, prompt(endpoint("@every 1m", 10*time.Second, policy)), func(*registry.Query, int) reply {
				return reply{time.Second,
					registry.Changed, now}
			})
			w.register("a", about("http://x/a"))
			w.register("b", about("http://x/b"))
			w.run()
			defer w.stop()
			until(3*time.Minute + 30*time.Second)
			slots := len(w.slots())
			now = schedulertest.Rows(t, "two")
			w.hint(touched("http://x/a"))
			until(3*time.Minute + 31*time.Second + 10*time.Millisecond)
			x := w.stats("q_a")
			if r := x.LastRun; r.Why != plan.TierOffGrid || r.Outcome != registry.Changed ||
				!r.At.Truncate(time.Second).Equal(epoch().Add(3*time.Minute+31*time.Second)) || x.Changes != 1 {
				t.Errorf("%s: a ran as %+v, with %d changes", policy, r, x.Changes)
			}
			if x, err := w.loop.Explain("q_a"); err != nil || x.LastRun.Why != plan.TierOffGrid {
				t.Errorf("%s: it is explained as %+v, %v", policy, x, err)
			}
			if r := w.stats("q_b").LastRun; r.Why == plan.TierOffGrid {
				t.Errorf("%s: b ran as %+v", policy, r)
			}
			list := w.slots()
			if len(list) != slots {
				t.Fatalf("%s: the hint made a slot: %+v", policy, list)
			}
			want := scheduler.OffGrid{Run: 1, Complete: 1, Changed: 1, Used: 1, Lent: 1}
			if got := list[slots-1].OffGrid; got != want {
				t.Errorf("%s: the slot before has %+v, want %+v", policy, got, want)
			}
			if s := w.loop.State().Last; s != list[slots-1] {
				t.Errorf("%s: the state shows %+v, the ledger has %+v", policy, s, list[slots-1])
			}
			until(4*time.Minute + 10*time.Second)
			if s := w.slots()[slots]; s.Charged != 1 || s.OffGrid.Run != 0 {
				t.Errorf("%s: the slot after: %+v", policy, s)
			}
		})
	}
}

// Several hints in one interval run the query each time, and policies see one sample.
func TestHintsRunOffGridRepeatedly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		one, two := schedulertest.Rows(t, "one"), schedulertest.Rows(t, "two")
		w := newWorld(t, endpoint("@every 1m", 30*time.Second, "rr"), func(_ *registry.Query, n int) reply {
			return reply{time.Second, registry.Changed, []reply{{result: one}, {result: two}}[n%2].result}
		})
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		until(90 * time.Second)
		from := w.stats("q_a")
		for i := range 5 {
			w.hint(touched("http://x/a"))
			until(90*time.Second + time.Duration(i+1)*2*time.Second)
		}
		s := w.stats("q_a")
		if s.Executions != from.Executions+5 || s.Changes != from.Changes+5 || len(s.Samples) != len(from.Samples) ||
			!s.Samples[len(s.Samples)-1].Changed {
			t.Errorf("after five hints %+v, before %+v", s, from)
		}
		until(130 * time.Second)
		if got := w.stats("q_a"); len(got.Samples) != len(s.Samples)+1 {
			t.Errorf("the next slot leaves %+v", got.Samples)
		}
	})
}

// Nothing runs outside the grid if the endpoint may not be asked. The marks wait.
func TestNothingOffGrid(t *testing.T) {
	start := 30 * time.Second // every minute begins a slot
	for name, c := range map[string]struct {
		edit func(*registry.Endpoint)
		do   func(*world)
		runs bool
	}{
		"free":  {runs: true},
		"never": {edit: func(e *registry.Endpoint) { e.Slot = "never" }, do: func(w *world) { w.tick(); w.tick() }},
		"blackout": {edit: func(e *registry.Endpoint) {
			e.Blackout = []registry.Blackout{{Start: "3 0 * * *", For: registry.Duration(50 * time.Second)}}
		}},
		"paused": {do: func(w *world) {
			e := w.as
			e.Pause = &registry.Pause{By: "me", At: time.Now()}
			if err := w.loop.Reconfigure(e); err != nil {
				w.t.Error(err)
			}
		}},
		"throttled": {do: func(w *world) {
			w.service.setHealth(registry.Health{State: registry.HealthThrottled, Until: time.Now().Add(time.Hour)})
		}},
		"failing": {do: func(w *world) {
			w.service.setHealth(registry.Health{State: registry.HealthFailing, Until: time.Now().Add(-time.Second)})
		}},
		"paused query": {do: func(w *world) {
			w.register("a", about("http://x/a"), func(q *registry.Query) { q.Pause = &registry.Pause{By: "me"} })
		}},
		"min_interval": {do: func(w *world) {
			w.register("a", about("http://x/a"), func(q *registry.Query) { q.Holders[0].MinInterval = registry.Duration(10 * time.Minute) })
		}},
		"trial runs": {do: func(w *world) { w.loop.Charge(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("@every 1m", 20*time.Second, "rr")
				if c.edit != nil {
					c.edit(&e)
				}
				w := newWorld(t, e, same(t, time.Second))
				w.register("a", about("http://x/a"))
				w.run()
				defer w.stop()
				until(2*time.Minute + start)
				if c.do != nil {
					c.do(w)
				}
				until(3*time.Minute + start)
				n := w.service.ran("q_a")
				w.hint(touched("http://x/a"))
				until(3*time.Minute + start + 10*time.Second)
				if got := w.service.ran("q_a") - n; got != 0 != c.runs {
					t.Errorf("%d executions outside the grid", got)
				}
			})
		})
	}
}

// A query that fails is not repeated before the next slot, however many hints come.
func TestFailureIsNotRepeatedOffGrid(t *testing.T) {
	for _, o := range []registry.Outcome{registry.Failed, registry.Partial, registry.Timeout, registry.Rejected} {
		bubble.Test(t, func(t *testing.T) {
			broken := false
			good := schedulertest.Rows(t, "good")
			w := newWorld(t, endpoint("@every 1m", 20*time.Second, "rr"), func(*registry.Query, int) reply {
				if broken {
					return reply{time.Second, o, nil}
				}
				return reply{time.Second, registry.Changed, good}
			})
			w.register("a", about("http://x/a"))
			w.run()
			defer w.stop()
			until(150 * time.Second)
			broken = true
			n := w.service.ran("q_a")
			for range 20 {
				w.hint(touched("http://x/a"))
				time.Sleep(time.Second)
			}
			if got := w.service.ran("q_a") - n; got != 1 {
				t.Errorf("%s: %d executions", o, got)
			}
		})
	}
}

// checkOffGrid compares the executions that the endpoint saw with what the slots say,
// executions for hints included.
func checkOffGrid(t *testing.T, w *world, budget, lent time.Duration, width int, gap time.Duration) (outside int) {
	t.Helper()
	if w.service.most > width {
		t.Errorf("%d executions at a time, %d are allowed", w.service.most, width)
	}
	slots := w.slots()
	inside, after := make([]time.Duration, len(slots)), make([]time.Duration, len(slots))
	i := 0
	var last time.Time
	for _, x := range w.service.executions() {
		if !last.IsZero() && gap > 0 && x.start.Sub(last) < gap {
			t.Errorf("a request %s after the last one, min_gap is %s", x.start.Sub(last), gap)
		}
		last = x.end
		for i+1 < len(slots) && !x.start.Before(slots[i+1].Started) {
			i++
		}
		if s := slots[i]; x.end.After(s.Finished) {
			after[i] += x.end.Sub(x.start)
			outside++
		} else {
			inside[i] += x.end.Sub(x.start)
		}
	}
	near := func(a time.Duration, b float64) bool { d := a.Seconds() - b; return d < 1e-6 && d > -1e-6 }
	for i, s := range slots {
		if !near(inside[i], s.Used-s.Charged) || !near(after[i], s.OffGrid.Used) {
			t.Errorf("slot %d says %g s and %g s after it, the endpoint has seen %s and %s", s.Number, s.Used-s.Charged, s.OffGrid.Used,
				inside[i], after[i])
		}
		if g := s.OffGrid; g.Run != g.Complete+g.Failed+g.Cut {
			t.Errorf("slot %d does not add up: %+v", s.Number, g)
		}
		if total := inside[i] + after[i]; total > budget+lent {
			t.Errorf("slot %d and what follows it used %s of %s", s.Number, total, budget)
		}
		if i > 0 && after[i-1]+inside[i] > budget+lent {
			t.Errorf("%s after slot %d and %s in the next one exceed %s", after[i-1], s.Number-1, inside[i], budget)
		}
		if i > 0 && !near(after[i-1], s.Charged) {
			t.Errorf("slot %d is charged %g s, %s ran outside the grid", s.Number, s.Charged, after[i-1])
		}
		if i > 0 && lent == 0 && s.Started.Sub(slots[i-1].Started) > 10*time.Second {
			t.Errorf("slot %d came %s after the one before", s.Number, s.Started.Sub(slots[i-1].Started))
		}
	}
	return outside
}

// TestLongBoundWithHints: a flood of hints does not raise what an endpoint is asked for, for
// any mix of slow, failing and cheap queries, and delays no slot.
func TestLongBoundWithHints(t *testing.T) {
	for i, c := range []struct {
		width   int
		policy  string
		rule    string
		gap     time.Duration
		queries int
	}{
		{1, "rr", plan.RuleStrict, 0, 300},
		{3, "ttl:max=32:reset", plan.RuleStrict, 0, 2000},
		{1, "ttl:max=32:reset", plan.RuleStrict, 50 * time.Millisecond, 100},
		{2, "hybrid", plan.RuleStrict, 0, 300},
		{1, "ttl:max=8:half", plan.RuleDebt, 0, 300},
	} {
		t.Run(fmt.Sprintf("%s/%s/concurrency=%d/gap=%s", c.policy, c.rule, c.width, c.gap), func(t *testing.T) {
			seed := uint64(20261122 + i)
			t.Logf("seed %d", seed)
			bubble.Test(t, func(t *testing.T) {
				const budget = 8 * time.Second
				e := endpoint("@every 10s", budget, c.policy)
				e.Concurrency, e.Rule, e.MinGap, e.Timeout = c.width, c.rule, registry.Duration(c.gap), registry.Duration(3*time.Second)
				w := newWorld(t, e, mix(t, seed, budget, true))
				for k, n := range names("", c.queries) {
					w.register(n, about(fmt.Sprint("http://x/", k)))
				}
				w.run()
				r := rand.New(rand.NewPCG(seed, 0))
				for end := epoch().Add(10 * time.Minute); time.Now().Before(end); {
					h := registry.Hint{All: r.IntN(50) == 0}
					for range r.IntN(30) {
						h.Touch(fmt.Sprint("http://x/", r.IntN(c.queries)))
					}
					w.hint(h)
					time.Sleep(time.Duration(r.IntN(int(500 * time.Millisecond))))
				}
				w.stop()
				lent := time.Duration(0)
				if c.rule == plan.RuleDebt {
					lent = time.Duration(e.Timeout)
				}
				outside := checkOffGrid(t, w, budget, lent, c.width, c.gap)
				if outside == 0 {
					t.Error("nothing ran outside the grid")
				}
				t.Logf("%d executions outside the grid, %d in all", outside, len(w.service.executions()))
			})
		})
	}
}

// What runs outside the grid survives the end of the process: at any moment the ledger
// knows at least as much as the endpoint has seen, and a new process charges it.
func TestOffGridIsKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 30*time.Second, "rr")
		w := newWorld(t, e, nil)
		recorded := func() scheduler.Slot {
			n, err := w.ledger.Since(city, 0)
			if err != nil {
				t.Fatal(err)
			}
			return n.Last
		}
		answer := same(t, 2*time.Second)
		w.service.reply = answer
		for i := range 4 {
			w.register(fmt.Sprint(i), about(fmt.Sprint("http://x/", i)))
		}
		w.run()
		until(90 * time.Second)
		used := time.Duration(0)
		for i := range 8 {
			w.hint(touched(fmt.Sprint("http://x/", i%4)))
			for range 4 {
				time.Sleep(500 * time.Millisecond)
				used += 500 * time.Millisecond
				if g := recorded().OffGrid; g.Used+g.Lent < used.Seconds() {
					t.Fatalf("after %s the ledger knows %+v", used, g)
				}
			}
		}
		w.hint(touched("http://x/1"))
		time.Sleep(time.Second)
		killed := recorded() // as a killed process leaves it
		w.stop()
		if err := w.ledger.Restore(city, killed); err != nil {
			t.Fatal(err)
		}
		w.open(e)
		w.run()
		defer w.stop()
		ran := len(w.service.executions())
		until(119 * time.Second)
		w.hint(touched("http://x/2"))
		until(2*time.Minute + 40*time.Second)
		s := w.slots()[len(w.slots())-1]
		if g := killed.OffGrid; s.Charged < g.Used+g.Lent-1e-6 || s.Charged < used.Seconds()+1 {
			t.Errorf("the next slot is charged %g s, %+v was recorded", s.Charged, killed.OffGrid)
		}
		seen := time.Duration(0)
		for _, x := range w.service.executions()[ran:] {
			seen += x.end.Sub(x.start)
		}
		if seen.Seconds()+s.Charged > 30 {
			t.Errorf("the new process used %s although %g s were charged", seen, s.Charged)
		}
	})
}

// With merged requests, a hint still asks only for the marked query.
func TestOffGridAsksAlone(t *testing.T) {
	for _, mode := range []string{registry.MergeValues, registry.MergeProbe} {
		bubble.Test(t, func(t *testing.T) {
			d := newDataset(t)
			w := newWorld(t, prompt(merging(endpoint("@every 1m", 20*time.Second, "rr"), mode)), d.reply)
			for _, n := range names("n", 20) {
				d.set(n, "before")
				d.register(w, n)
			}
			w.run()
			until(5*time.Minute + 30*time.Second)
			ran := len(w.service.executions())
			d.set("n00007", "after")
			if got := w.hint(registry.Hint{Changed: []sparql.Pattern{{Subject: "<http://x/s>", Predicate: "<http://example.org/p>",
				Object: `"n00007`}}}); got.Affected != 1 {
				t.Errorf("%s: the hint has the effect %+v", mode, got)
			}
			until(5*time.Minute + 50*time.Second)
			s := w.slots()[len(w.slots())-1]
			list := w.service.executions()[ran:]
			if len(list) != 1 || list[0].query != "q_n00007" || s.OffGrid.Run != 1 || s.OffGrid.Changed != 1 {
				t.Errorf("%s: the requests %+v, and %+v", mode, list, s.OffGrid)
			}
			until(8 * time.Minute)
			w.stop()
			d.checkTruth(w, true)
		})
	}
}

// prompt is an endpoint whose data have an edit before a hint says so.
func prompt(e registry.Endpoint) registry.Endpoint {
	e.Lag = registry.Duration(time.Millisecond)
	return e
}

// A hint is not used up by an answer that may be from before the change, whatever the endpoint's settings are: by
// default, the data lack an edit for up to ten minutes.
func TestAHintIsNotUsedUp(t *testing.T) {
	for _, slots := range []string{"@every 1m", "@every 1h"} {
		bubble.Test(t, func(t *testing.T) {
			one, two := schedulertest.Rows(t, "one"), schedulertest.Rows(t, "two")
			var edited atomic.Bool
			w := newWorld(t, endpoint(slots, 10*time.Second, "ttl:max=32:reset"), func(*registry.Query, int) reply {
				if edited.Load() {
					return reply{time.Second, registry.Changed, two}
				}
				return reply{time.Second, registry.Changed, one}
			})
			w.register("a", about("http://x/a"))
			w.run()
			defer w.stop()
			until(40*time.Hour + 30*time.Second)
			changes, ran := w.stats("q_a").Changes, len(w.service.executions())
			w.hint(touched("http://x/a"))
			until(40*time.Hour + 3*time.Minute)
			edited.Store(true)
			until(40*time.Hour + 6*time.Minute)
			if got := w.stats("q_a").Changes; got != changes+1 {
				t.Errorf("%s: after 6 minutes there are %d more changes", slots, got-changes)
			}
			until(40*time.Hour + 30*time.Minute)
			if n := len(w.service.executions()) - ran; n > 8 {
				t.Errorf("%s: one hint led to %d executions", slots, n)
			}
		})
	}
}

// A query that a hint has armed is asked when its explanation says so.
func TestArmedIsExplained(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "ttl:max=32:reset"), same(t, time.Millisecond))
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		until(40*time.Hour + 30*time.Second)
		w.hint(touched("http://x/a"))
		until(40*time.Hour + 31*time.Second)
		for range 3 {
			x, err := w.loop.Explain("q_a")
			due, err2 := w.loop.Due([]string{"q_a"})
			if err != nil || err2 != nil || !strings.Contains(x.Why, "asked before") || !x.NextDue.Equal(due[0]) {
				t.Fatalf("explained as %+v, due %v (%v, %v)", x, due, err, err2)
			}
			until(x.NextDue.Sub(epoch()) + time.Second)
			if at := w.stats("q_a").LastRun.At; at.Before(x.NextDue) || at.After(x.NextDue.Add(time.Second)) {
				t.Errorf("expected at %v, asked at %v", x.NextDue, at)
			}
		}
	})
}

// A hint about all queries lasts until they have run, also if part of them runs outside
// the grid.
func TestHintAboutAllLasts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, prompt(endpoint("@every 1m", 20*time.Second, "ttl:max=32:reset")), same(t, time.Second))
		list := names("", 8)
		for _, n := range list {
			w.register(n, about("http://x/a"))
		}
		w.run()
		defer w.stop()
		until(20*time.Minute + 30*time.Second) // none is due before slot 32
		w.loop.Charge(17 * time.Second)
		n := len(w.service.executions())
		w.hint(registry.Hint{All: true})
		until(20*time.Minute + 40*time.Second)
		if ran := len(w.since(n)); ran != 3 {
			t.Errorf("%d queries ran outside the grid", ran)
		}
		until(24*time.Minute + 30*time.Second)
		count := map[string]int{}
		for _, id := range w.since(n) {
			count[id]++
		}
		for _, x := range list {
			// The answer to the first began together with the hint, so the data may have lacked the edit.
			if n := count["q_"+x]; n != 1 && (x != list[0] || n > 2) {
				t.Errorf("%s ran %d times after a hint about all queries", x, count["q_"+x])
			}
		}
	})
}

// Executions outside the grid do not wait for a trial run beyond the next grid time.
func TestOffGridDoesNotWaitForTrial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 2m", 100*time.Second, "rr")
		e.Timeout = registry.Duration(90 * time.Second)
		answer := schedulertest.Rows(t, "same")
		w := newWorld(t, e, func(q *registry.Query, _ int) reply {
			if q.ID == "q_a" {
				return reply{time.Second, registry.Changed, answer}
			}
			return reply{85 * time.Second, registry.Changed, answer}
		})
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		until(3*time.Minute + 50*time.Second)
		trial := make(chan error, 1)
		go func() {
			q := schedulertest.Query(city, "trial")
			_, err := w.loop.Trial(t.Context(), &q)
			trial <- err
		}()
		until(3*time.Minute + 55*time.Second)
		w.hint(touched("http://x/a"))
		if err := <-trial; err != nil {
			t.Error(err)
		}
		until(5*time.Minute + 50*time.Second)
		if s := w.slots(); len(s) != 3 || !s[2].Started.Equal(epoch().Add(4*time.Minute)) {
			t.Errorf("the slots %+v", s)
		}
	})
}
