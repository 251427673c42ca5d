package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// about returns a query whose patterns contain these IRIs.
func about(iris ...string) func(*registry.Query) {
	return func(q *registry.Query) {
		q.Constants = iris
		q.Text = "SELECT ?s { ?s <" + strings.Join(iris, "> ?o . ?s <") + "> ?o }"
	}
}

func touched(iris ...string) registry.Hint { return registry.Hint{Touched: iris} }

func (w *world) hint(h registry.Hint) plan.Hinted {
	w.t.Helper()
	done, err := w.loop.Hint(h)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// since returns the queries that ran after the n-th execution.
func (w *world) since(n int) (ids []string) {
	for _, a := range w.service.executions()[n:] {
		ids = append(ids, a.query)
	}
	return ids
}

// settled runs slots until n queries have had their first execution.
func (w *world) settled(n int) {
	w.t.Helper()
	for range 4 * n {
		w.tick()
		seen := map[string]bool{}
		for _, id := range w.since(0) {
			seen[id] = true
		}
		if len(seen) == n {
			return
		}
	}
	w.t.Fatal("the queries do not all get a first execution")
}

// Queries that a hint may affect run first in the next slot; the rest run in the usual
// order.
func TestHintGoesFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 8*time.Second, "rr"), same(t, time.Second))
		for i, n := range names("", 16) {
			w.register(n, about(fmt.Sprint("http://x/", i), "http://x/all"))
		}
		w.register("open", func(q *registry.Query) { q.Text = "SELECT * { ?s ?p ?o }" })
		w.run()
		defer w.stop()
		w.settled(17)
		for _, c := range []struct {
			hint  registry.Hint
			want  plan.Hinted
			first []string
		}{
			{touched("http://x/9"), plan.Hinted{Affected: 2, Queries: 17}, []string{"q_00009", "q_open"}},
			{touched("http://elsewhere/"), plan.Hinted{Affected: 1, Queries: 17}, []string{"q_open"}},
			{registry.Hint{}, plan.Hinted{Queries: 17}, nil},
			{registry.Hint{All: true}, plan.Hinted{Affected: 17, Queries: 17, All: true}, nil},
		} {
			if got := w.hint(c.hint); got != c.want {
				t.Errorf("%v: %+v, want %+v", c.hint.Touched, got, c.want)
			}
			for _, id := range c.first {
				if x, err := w.loop.Explain(id); err != nil || x.Tier != plan.TierHinted || !strings.Contains(x.Why, "hint") {
					t.Errorf("%s is explained as %s: %s (%v)", id, x.Tier, x.Why, err)
				}
			}
			n := len(w.service.executions())
			w.tick()
			got := slices.Sorted(slices.Values(w.since(n)[:len(c.first)]))
			if !slices.Equal(got, c.first) {
				t.Errorf("%v: first %v, want %v", c.hint.Touched, got, c.first)
			}
			for _, id := range c.first {
				if why := w.stats(id).LastRun.Why; why != plan.TierHinted {
					t.Errorf("%s ran as %s", id, why)
				}
			}
		}
	})
}

// A query that is removed, or paused, after a hint is not asked again for it between two slots.
func TestHintOfWhatIsRemoved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("@every 1m", 30*time.Second, "rr"), same(t, time.Second))
		w.register("a")
		b := w.register("b")
		w.register("c")
		w.run()
		defer w.stop()
		until(90 * time.Second)
		w.hint(registry.Hint{All: true})
		time.Sleep(5 * time.Second)
		n := len(w.service.executions())
		b.Pause = &registry.Pause{At: time.Now(), By: "admin"}
		w.put(b)
		if err := w.ledger.Remove("q_a"); err != nil {
			t.Fatal(err)
		}
		until(2*time.Minute - time.Second)
		if got := w.since(n); len(got) == 0 || slices.Contains(got, "q_a") || slices.Contains(got, "q_b") {
			t.Errorf("asked after q_a was removed and q_b was paused: %v", got)
		}
	})
}

// A hint makes a query run in a slot although its policy does not have it due, but not
// if it is paused or waits for its min_interval; and only once.
func TestHintBeforeDue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 100*time.Second, "ttl:max=32:reset"), same(t, time.Second))
		w.register("free", about("http://x/a"))
		w.register("paused", about("http://x/a"), func(q *registry.Query) { q.Pause = &registry.Pause{By: "me"} })
		w.register("slow", about("http://x/a"), func(q *registry.Query) { q.Holders[0].MinInterval = registry.Duration(time.Hour) })
		w.run()
		defer w.stop()
		for range 12 { // the intervals of ttl grow
			w.tick()
		}
		for w.tick().Run > 0 {
		}
		free, slow := w.service.ran("q_free"), w.service.ran("q_slow")
		w.hint(touched("http://x/a"))
		if s := w.tick(); s.Run != 1 || s.Planned != 1 || w.service.ran("q_free") != free+1 || w.service.ran("q_slow") != slow ||
			w.service.ran("q_paused") != 0 {
			t.Errorf("after the hint: %+v", s)
		}
		if x, err := w.loop.Explain("q_free"); err != nil || x.Tier == plan.TierHinted {
			t.Errorf("the mark stays: %+v %v", x, err)
		}
		w.hint(registry.Hint{All: true})
		n := w.service.ran("q_free")
		w.tick()
		if w.service.ran("q_free") != n+1 {
			t.Error("a hint about everything brings nothing forward")
		}
	})
}

// A hint that arrives while a query runs may be about data that the query has not read:
// it counts for the next slot.
func TestHintWhileRunning(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 10*time.Second, "ttl:max=32:reset"), same(t, time.Second))
		w.register("a", about("http://x/a"))
		w.run()
		defer w.stop()
		for range 6 {
			w.tick()
		}
		for w.tick().Run > 0 {
		}
		w.hint(touched("http://x/a"))
		over := make(chan struct{})
		go func() {
			defer close(over)
			w.tick()
		}()
		synctest.Wait() // it runs
		w.hint(touched("http://x/a"))
		<-over
		n := w.service.ran("q_a")
		w.tick()
		if got := w.service.ran("q_a"); got != n+1 {
			t.Errorf("%d executions, want %d", got, n+1)
		}
	})
}

// With any sequence of hints the bound holds, and the other queries keep three quarters
// of their usual time, also if the policy believes hints that turn out to be true.
func TestHostileHints(t *testing.T) {
	for _, policy := range []string{"rr", "ttl:max=4:reset", "sjf", "hybrid"} {
		for _, width := range []int{1, 3} {
			t.Run(fmt.Sprint(policy, "/", width), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { hostile(t, policy, width) })
			})
		}
	}
}

func hostile(t *testing.T, policy string, width int) {
	const slots, budget = 60, 10 * time.Second
	run := func(hints bool) (others int, worst map[string]int) {
		e := endpoint("never", budget, policy)
		e.Concurrency = width
		w := newWorld(t, e, func(q *registry.Query, n int) reply {
			takes := time.Second
			if q.ID == "q_heavy" {
				takes = 7 * time.Second
			}
			return same(t, takes)(q, n)
		})
		for i, n := range names("", 40) {
			w.register(n, about(fmt.Sprint("http://x/", i)))
		}
		w.register("heavy", about("http://x/heavy"))
		w.run()
		defer w.stop()
		w.settled(41)
		random := rand.New(rand.NewPCG(7, 7))
		from, heavy := len(w.service.executions()), w.service.ran("q_heavy")
		for range slots {
			for i := 0; hints && i < 20; i++ {
				w.hint(touched("http://x/"+fmt.Sprint(random.IntN(4)), "http://x/heavy"))
				w.hint(registry.Hint{All: i == 7})
			}
			if s := w.tick(); s.Used > s.Budget+1e-9 {
				t.Fatalf("slot %d used %v of %v seconds", s.Number, s.Used, s.Budget)
			}
		}
		worst = map[string]int{"q_heavy": w.service.ran("q_heavy") - heavy}
		for _, id := range w.since(from) {
			if id > "q_00003" && id != "q_heavy" {
				others++
				worst[id]++
			}
		}
		return others, worst
	}
	without, ranWithout := run(false)
	with, ran := run(true)
	t.Logf("executions of the others: %d without hints, %d with", without, with)
	if with*4 < without*3 {
		t.Errorf("hints left the others %d executions of %d", with, without)
	}
	for id, n := range ranWithout {
		if n >= 4 && ran[id] < n/2 {
			t.Errorf("%s ran %d times instead of %d", id, ran[id], n)
		}
	}
}

// The memory of hints is bounded. Too many marked terms affect every query.
func TestHintsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const many = 10_050
		w := newWorld(t, endpoint("never", time.Hour, "ttl:max=32:reset"), same(t, time.Millisecond))
		for i, n := range names("", many) {
			w.register(n, about(fmt.Sprint("http://x/", i), "http://x/all"))
		}
		w.run()
		defer w.stop()
		if got := w.hint(touched("http://x/all")); !got.All || got.Affected != many {
			t.Errorf("more than can be told apart: %+v", got)
		}
		if got := w.hint(touched("http://x/1", "http://x/2")); got.All || got.Affected != 2 {
			t.Errorf("two: %+v", got)
		}
		if err := w.ledger.Remove("q_00001"); err != nil {
			t.Fatal(err)
		}
		if got := w.hint(touched("http://x/1", "http://x/2")); got.Affected != 1 || got.Queries != many-1 {
			t.Errorf("after a removal: %+v", got)
		}
	})
}
