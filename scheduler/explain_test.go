package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func (w *world) explain(id string) scheduler.Explanation {
	w.t.Helper()
	x, err := w.loop.Explain(id)
	if err != nil {
		w.t.Fatalf("Explain(%s): %v", id, err)
	}
	return x
}

// Explanations can be written as JSON, which has no infinite numbers, although the endpoint
// has never answered.
func TestExplainWithoutAnyAnswer(t *testing.T) {
	for _, name := range []string{"hybrid", "rr", "sjf", "ljf", "cr", "dj", "ttl", "sqrt", "wic", "sup"} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, endpoint("never", time.Second, name), func(*registry.Query, int) reply { return reply{0, registry.Failed, nil} })
				w.register("a")
				w.register("b")
				w.run()
				for range 3 {
					w.tick()
					for _, id := range []string{"q_a", "q_b"} {
						if _, err := json.Marshal(w.explain(id)); err != nil {
							t.Errorf("%v: %+v", err, w.explain(id))
						}
					}
				}
				w.stop()
			})
		})
	}
}

func TestExplain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "x")
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "rr"), func(q *registry.Query, n int) reply {
			if q.ID == "q_fails" {
				return reply{time.Second, registry.Failed, nil}
			}
			return reply{4 * time.Second, registry.Changed, r}
		})
		w.register("a")
		w.run()
		synctest.Wait() // the slot of minute 0 runs
		if x := w.explain("q_a"); x.Eligible || x.Code != plan.CodeRunning || x.Slot != 1 || !x.NextDue.Equal(epoch().Add(time.Minute)) {
			t.Errorf("while it runs: %+v", x)
		}
		w.register("late")
		if x := w.explain("q_late"); x.Tier != plan.TierNew || x.Slot != 2 || !x.NextDue.Equal(epoch().Add(time.Minute)) {
			t.Errorf("registered while the slot runs: %+v", x)
		}
		w.register("dormant", func(q *registry.Query) { q.Pause = &registry.Pause{By: "ops"} })
		if due, err := w.loop.Due([]string{"q_none", "q_dormant", "q_late", "q_a"}); err != nil || !due[0].IsZero() || !due[1].IsZero() ||
			!due[2].Equal(epoch().Add(time.Minute)) || !due[3].Equal(epoch().Add(time.Minute)) {
			t.Errorf("while the slot runs: %v, %v", due, err)
		}
		until(30 * time.Second)
		w.register("b")
		// The queries are newly registered; q_b and q_late at the same time.
		if x := w.explain("q_b"); x.Tier != plan.TierNew || x.Rank != 1 || x.Of != 2 || !x.Eligible || x.Slot != 2 ||
			!x.NextDue.Equal(epoch().Add(time.Minute)) || x.PassedOver != nil {
			t.Errorf("new: %+v", x)
		}
		until(90 * time.Second)
		// In slot 2, q_b used 4 of the 5 s for new queries. q_late was cut after 1 s
		// and is ranked now. q_a, the first in rank, fitted in the remaining 5 s.
		x := w.explain("q_late")
		if x.Tier != plan.TierRanked || x.Rank != 1 || x.Of != 3 || x.LastRun.Outcome != registry.Cut ||
			x.Estimate != registry.Duration(time.Second) {
			t.Errorf("cut in its tier: %+v", x)
		}
		if x = w.explain("q_b"); x.Rank != 3 || x.Inputs["last"] != 2 || x.Inputs["executions"] != 1 || x.Inputs["median_seconds"] != 4 {
			t.Errorf("ranked: %+v", x)
		}
		until(150 * time.Second)
		// Slot 3: q_late takes 4 s and q_a 4 s; q_b does not fit in 2 s.
		x = w.explain("q_b")
		if x.PassedOver == nil || x.PassedOver.Slot != 3 || !strings.Contains(x.PassedOver.Reason, "4s") || x.Rank != 1 ||
			!x.NextDue.Equal(epoch().Add(3*time.Minute)) {
			t.Errorf("passed over: %+v, %+v", x, x.PassedOver)
		}
		// At rank 3, with 4 s each, 8 s come before it: it still runs in this slot.
		if x = w.explain("q_late"); x.Rank != 3 || x.Code != plan.CodeOrder || !x.NextDue.Equal(epoch().Add(3*time.Minute)) ||
			x.PassedOver != nil {
			t.Errorf("last in the order: %+v", x)
		}
		w.register("fails")
		w.register("paused", func(q *registry.Query) { q.Pause = &registry.Pause{By: "ops"} })
		until(210 * time.Second)
		if x = w.explain("q_fails"); !x.Eligible || x.LastRun.Outcome != registry.Failed {
			t.Errorf("after the first failure it may run in the next slot: %+v", x)
		}
		until(270 * time.Second) // slot 5: the second failure, out until slot 7
		if x = w.explain("q_fails"); x.Eligible || x.Slot != 6 || x.Code != plan.CodeBackOff || !strings.Contains(x.Why,
			"until slot 7") || !x.NextDue.Equal(epoch().Add(6*time.Minute)) {
			t.Errorf("backing off: %+v", x)
		}
		if x = w.explain("q_paused"); x.Eligible || x.Code != plan.CodePaused || x.Why != "it is paused" || !x.NextDue.IsZero() {
			t.Errorf("paused: %+v", x)
		}
		if _, err := w.loop.Explain("q_missing"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		w.stop()
	})
}

// The reason is not the budget if something else kept a query from running.
func TestReasons(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "x")
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "rr"), func(q *registry.Query, n int) reply {
			if q.ID == "q_old" && n > 0 {
				return reply{time.Second, registry.Outdated, nil}
			}
			return reply{3 * time.Second, registry.Changed, r}
		})
		w.register("old")
		w.run()
		until(150 * time.Second) // slots 2 and 3 brought older answers
		if x := w.explain("q_old"); x.Eligible || !strings.Contains(x.Why, "its last 2 answers were older") {
			t.Errorf("after two older answers: %+v", x)
		}
		for _, id := range []string{"a", "b", "c"} {
			w.register(id)
		}
		until(210 * time.Second) // a for 3 s, b cut after 2 s
		if x := w.explain("q_c"); x.PassedOver == nil || !strings.Contains(x.PassedOver.Reason, "new queries") {
			t.Errorf("a new query, when new ones had used their part: %+v, %+v", x, x.PassedOver)
		}
		w.stop()
	})
}

// A slot that an edit ended says so if queries were left.
func TestSlotEndedByAnEdit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		if err := m.Add(named("alpha"), &service{reply: same(t, time.Second)}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c"} {
			if err := ledger.Register(schedulertest.Query("alpha", id)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		until(500 * time.Millisecond) // in slot 1
		if err := m.Update(named("alpha"), &service{reply: same(t, time.Second)}); err != nil {
			t.Fatal(err)
		}
		until(5 * time.Second)
		if s := ledger.Slots("alpha"); len(s) != 1 || s[0].Run != 1 || !strings.Contains(s[0].Error, "edited") {
			t.Errorf("slots: %+v; want one that an edit ended", s)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The next run of a query that failed in the current slot is already known, and
// followers are told.
func TestDueAfterFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "x")
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "rr"), func(q *registry.Query, n int) reply {
			if q.ID == "q_a" {
				return reply{time.Second, registry.Failed, nil}
			}
			return reply{4 * time.Second, registry.Changed, r}
		})
		w.register("a")
		w.register("b")
		w.run()
		until(62 * time.Second) // in slot 2, with the second failure of q_a: out until slot 4
		due, err := w.loop.Due([]string{"q_a", "q_b"})
		if err != nil || !due[0].Equal(epoch().Add(3*time.Minute)) || !due[1].Equal(epoch().Add(2*time.Minute)) {
			t.Errorf("Due: %v, %v", due, err)
		}
		until(70 * time.Second)
		if after, err := w.loop.Due([]string{"q_a"}); err != nil || !after[0].Equal(due[0]) {
			t.Errorf("after the slot: %v, %v", after, err)
		}
		w.stop()
	})
}

// A query that has started in the running slot is expected after all that wait. What ran
// before it in the slot may come before it once more.
func TestDueAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "rr"), same(t, 4*time.Second))
		for _, name := range strings.Split("abcdefg", "") {
			w.register(name)
		}
		w.register("rare", func(q *registry.Query) { q.Holders[0].MinInterval = registry.Duration(time.Hour) })
		w.run()
		foretold, checked := map[string]time.Time{}, map[string]int{}
		for minute := range 140 {
			slot := epoch().Add(time.Duration(minute) * time.Minute)
			until(slot.Add(7 * time.Second).Sub(epoch())) // one has run, and another one runs
			for _, id := range []string{"q_a", "q_rare"} {
				x := w.explain(id)
				if x.Code != plan.CodeRunning {
					continue
				}
				if due, err := w.loop.Due([]string{id}); err != nil || !due[0].Equal(x.NextDue) {
					t.Errorf("%s: Due says %s, and Explain %s", id, due, x.NextDue)
				}
				if was := foretold[id]; !was.IsZero() && minute >= 10 { // all have a result
					if checked[id]++; !was.Equal(slot) && !was.Add(time.Minute).Equal(slot) {
						t.Errorf("%s was expected at %s, and ran at %s", id, was, slot)
					}
				}
				foretold[id] = x.NextDue
			}
		}
		w.stop()
		if checked["q_a"] < 20 || checked["q_rare"] < 2 {
			t.Errorf("%v predictions came true", checked)
		}
	})
}

func TestExplainDue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "ttl:max=32:reset"), same(t, time.Second))
		w.register("a")
		w.run()
		until(3*time.Minute + 30*time.Second)
		// Baseline in slot 1 (minute 0), due in slot 2 (minute 1); ttl 2: due in slot 4
		// (minute 3); ttl 4: due in slot 8 (minute 7).
		x := w.explain("q_a")
		if x.Eligible || x.Slot != 5 || x.Inputs["due"] != 8 || !x.NextDue.Equal(epoch().Add(7*time.Minute)) ||
			x.Code != plan.CodeNotDue || !strings.Contains(x.Why, "slot 8") {
			t.Errorf("not due: %+v", x)
		}
		due, err := w.loop.Due([]string{"q_a", "q_missing"})
		if err != nil || len(due) != 2 || !due[0].Equal(x.NextDue) || !due[1].IsZero() {
			t.Errorf("Due: %v, %v; Explain says %s", due, err, x.NextDue)
		}
		until(7*time.Minute + 30*time.Second)
		if s := w.stats("q_a"); s.Last != 8 {
			t.Errorf("predicted for slot 8, last ran in %d", s.Last)
		}
		w.stop()
	})
}

// If slots send no requests to the endpoint, none of its queries runs next.
func TestExplainEndpoint(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "ttl:max=32:reset"), same(t, time.Second))
		w.register("a")
		w.run()
		until(90 * time.Second)
		w.register("b")
		w.service.setHealth(registry.Health{State: registry.HealthThrottled, Until: epoch().Add(150 * time.Second), Error: "429"})
		// q_b is first in slot 3 (minute 2), but that slot sends no requests; q_a is
		// due in slot 4.
		x := w.explain("q_b")
		if x.Eligible || x.Tier != plan.TierNew || !strings.Contains(x.Why, "asked us to wait until") || !strings.Contains(x.Why, "429") ||
			!strings.Contains(x.Why, "number 1 of 1") || !x.NextDue.Equal(epoch().Add(3*time.Minute)) {
			t.Errorf("throttled: %+v", x)
		}
		if x = w.explain("q_a"); x.Eligible || !x.NextDue.Equal(epoch().Add(3*time.Minute)) {
			t.Errorf("not due and throttled: %+v", x)
		}
		until(170 * time.Second)
		if n := w.service.ran("q_b"); n != 0 {
			t.Fatalf("the throttled endpoint was asked %d times", n)
		}
		if x = w.explain("q_b"); !x.Eligible || strings.Contains(x.Why, "throttled") || !x.NextDue.Equal(epoch().Add(3*time.Minute)) {
			t.Errorf("the next slot asks: %+v", x)
		}
		until(190 * time.Second)
		if a, b := w.service.ran("q_a"), w.service.ran("q_b"); a != 3 || b != 1 {
			t.Errorf("q_a ran %d times, q_b %d", a, b)
		}
		e := w.as
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		if x = w.explain("q_b"); x.Eligible || x.Code != scheduler.CodeClosed || !strings.Contains(x.Why, "paused since") || !x.NextDue.IsZero() {
			t.Errorf("paused: %+v", x)
		}
		w.stop()
	})
}

func TestState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 10*time.Second, "rr"), same(t, 3*time.Second))
		w.register("a")
		time.Sleep(time.Second)
		w.run()
		synctest.Wait()
		if s := w.loop.State(); s.Running || s.Queries != 1 || s.Endpoint != city || !s.Next.Equal(epoch().Add(time.Minute)) {
			t.Errorf("before: %+v", s)
		}
		until(61 * time.Second)
		if s := w.loop.State(); !s.Running {
			t.Errorf("meanwhile: %+v", s)
		}
		until(70 * time.Second)
		if s := w.loop.State(); s.Running || s.Last.Number != 1 || s.Last.Complete != 1 || !s.Next.Equal(epoch().Add(2*time.Minute)) {
			t.Errorf("after: %+v", s)
		}
		was := w.loop.State().Last
		w.stop()
		w.open(w.as)
		w.run()
		synctest.Wait()
		if s := w.loop.State(); s.Last != was {
			t.Errorf("after a restart the last slot is %+v, it was %+v", s.Last, was)
		}
		w.stop()
	})
}
