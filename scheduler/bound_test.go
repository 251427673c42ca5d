package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// mix makes each query cheap, expensive, more expensive than the budget, hanging,
// failing or of varying cost. A calm mix has few expensive queries.
func mix(t testing.TB, seed uint64, budget time.Duration, calm bool) func(*registry.Query, int) reply {
	still := schedulertest.Rows(t, "still")
	other := schedulertest.Rows(t, "other")
	return func(q *registry.Query, n int) reply {
		r := rand.New(rand.NewPCG(seed, uint64(character(q.ID))))
		kind := r.IntN(100)
		if calm && kind >= 92 && r.IntN(10) > 0 {
			kind = 0
		}
		r = rand.New(rand.NewPCG(seed+uint64(n), uint64(character(q.ID))))
		short := time.Duration(1+r.IntN(20)) * time.Millisecond
		switch {
		case kind < 80:
			return reply{short, registry.Changed, still}
		case kind < 84: // changes at every execution
			return reply{short, registry.Changed, []reply{{result: still}, {result: other}}[n%2].result}
		case kind < 88:
			return reply{short, registry.Failed, nil}
		case kind < 90:
			return reply{short, registry.Rejected, nil}
		case kind < 92:
			return reply{short, registry.Partial, nil}
		case kind < 95: // varying from nothing to nearly the budget
			return reply{time.Duration(r.Float64() * float64(budget)), registry.Changed, still}
		case kind < 97: // more expensive than the share of new queries
			return reply{budget*6/10 + short, registry.Changed, still}
		case kind < 98:
			return reply{2 * budget, registry.Changed, still}
		case kind < 99:
			return reply{24 * time.Hour, registry.Changed, still}
		}
		return reply{0, registry.Throttled, nil}
	}
}

func character(id string) (n uint32) {
	for _, c := range id {
		n = n*31 + uint32(c)
	}
	return n
}

// completes reports whether a query of the mix can complete within a budget.
func completes(r func(*registry.Query, int) reply, q registry.Query, budget time.Duration) bool {
	for n := range 4 {
		if x := r(&q, n); !x.outcome.Complete() || x.takes > budget {
			return false
		}
	}
	return true
}

// checkBound compares the executions that the service saw with the limits of the slots.
func checkBound(t *testing.T, w *world, budget time.Duration, width int) {
	t.Helper()
	if w.service.most > width {
		t.Errorf("%d executions at a time, %d are allowed", w.service.most, width)
	}
	slots, used := w.slots(), map[uint64]time.Duration{}
	i := 0
	for _, x := range w.service.executions() {
		for i < len(slots) && slots[i].Finished.Before(x.end) {
			i++
		}
		if i == len(slots) || x.start.Before(slots[i].Started) {
			t.Fatalf("an execution from %s to %s lies in no slot", x.start, x.end)
		}
		used[slots[i].Number] += x.end.Sub(x.start)
	}
	for i, s := range slots {
		if s.Number != uint64(i+1) {
			t.Fatalf("slot %d has number %d", i+1, s.Number)
		}
		if used[s.Number] > budget {
			t.Errorf("slot %d used %s of %s: %+v", s.Number, used[s.Number], budget, s)
		}
		if d := used[s.Number].Seconds() - s.Used; d > 1e-9 || d < -1e-9 {
			t.Errorf("slot %d says that it used %g s, the endpoint has seen %s", s.Number, s.Used, used[s.Number])
		}
		if s.Run != s.Complete+s.Failed+s.Cut {
			t.Errorf("slot %d does not add up: %+v", s.Number, s)
		}
	}
}

// TestBound: no slot exceeds its budget or the endpoint's concurrency, for any mix of
// slow, failing and cheap queries, on the grid and with many concurrent ticks.
func TestBound(t *testing.T) {
	const queries = 10_000
	for i, c := range []struct {
		width    int
		policy   string
		reckless bool
		ticks    bool
	}{
		{1, "rr", false, false},
		{1, "ttl:max=32:reset", true, true},
		{3, "rr", true, false},
		{4, "ttl:max=8:half", false, true},
	} {
		t.Run(fmt.Sprintf("concurrency=%d/policy=%s/ticks=%v", c.width, c.policy, c.ticks), func(t *testing.T) {
			seed := uint64(20261120 + i)
			t.Logf("seed %d", seed)
			bubble.Test(t, func(t *testing.T) {
				const budget = 10 * time.Second
				e := endpoint("@every 10s", budget, c.policy)
				e.Concurrency = c.width
				w := newWorld(t, e, mix(t, seed, budget, i%2 == 0))
				w.service.reckless = c.reckless
				for _, n := range names("", queries) {
					w.register(n)
				}
				w.run()
				if c.ticks {
					storm(w, seed)
				} else {
					until(20 * time.Minute)
				}
				w.stop()
				checkBound(t, w, budget, c.width)
				if n := len(w.slots()); n < 100 {
					t.Errorf("only %d slots", n)
				}
				complete := 0
				for _, s := range w.slots() {
					complete += s.Complete
				}
				t.Logf("%d complete executions in %d slots", complete, len(w.slots()))
			})
		})
	}
}

// storm ticks from several goroutines at random times for a while.
func storm(w *world, seed uint64) {
	done := make(chan struct{})
	const sides = 5
	for i := range sides {
		go func() {
			defer func() { done <- struct{}{} }()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 25 {
				w.tick()
				time.Sleep(time.Duration(r.IntN(int(20 * time.Second))))
			}
		}()
	}
	for range sides {
		<-done
	}
}

// TestLongEveryQueryRuns: under rr, every query that can complete within the budget, or
// on credit within the timeout, does so repeatedly, even beside queries that cannot,
// many new queries and many refresh requests.
func TestLongEveryQueryRuns(t *testing.T) {
	const budget, timeout = 10 * time.Second, 30 * time.Second
	for _, c := range []struct {
		rule   string
		width  int
		within time.Duration
	}{{plan.RuleStrict, 1, budget}, {plan.RuleStrict, 3, budget}, {plan.RuleDebt, 1, timeout}, {plan.RuleDebt, 3, timeout}} {
		width := c.width
		t.Run(fmt.Sprintf("rule=%s/concurrency=%d", c.rule, width), func(t *testing.T) {
			seed := uint64(7 + width)
			t.Logf("seed %d", seed)
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("never", budget, "rr")
				e.Concurrency, e.Rule = width, c.rule
				if c.rule == plan.RuleDebt {
					e.Timeout = registry.Duration(timeout)
				}
				replies := mix(t, seed, budget, false)
				w := newWorld(t, e, func(q *registry.Query, n int) reply {
					if strings.HasPrefix(q.ID, "q_new") { // 5 a slot take 5 to 10 s, their tier has 5 s
						r := replies(q, n)
						r.takes = time.Second + time.Duration(character(q.ID))%time.Second
						return r
					}
					return replies(q, n)
				})
				var old []registry.Query
				for _, n := range names("", 150) {
					old = append(old, w.register(n))
				}
				w.run()
				const slots = 300
				r := rand.New(rand.NewPCG(seed, 0))
				for i := range slots {
					for k := range 5 { // more than its tier can take
						w.register(fmt.Sprintf("new%05d-%d", i, k))
						if i >= 20 {
							if err := w.ledger.Remove(fmt.Sprintf("q_new%05d-%d", i-20, k)); err != nil {
								t.Fatal(err)
							}
						}
					}
					x := &old[r.IntN(len(old))]
					x.Refreshes++
					w.put(*x)
					w.tick()
				}
				w.stop()
				if c.rule == plan.RuleDebt {
					checkDebt(t, w, budget, timeout)
				} else {
					checkBound(t, w, budget, width)
				}
				n, worst := 0, uint64(0)
				for _, q := range old {
					if !completes(replies, q, c.within) {
						continue
					}
					n++
					s := w.stats(q.ID)
					if s.Executions < 2 {
						t.Errorf("%s, which takes %s, has completed %d times in %d slots: %+v", q.ID, replies(&q, 0).takes, s.Executions, slots, s.LastRun)
					}
					worst = max(worst, slots-s.Last)
				}
				if n < 100 {
					t.Errorf("only %d queries can complete", n)
				}
				t.Logf("%d queries can complete; the one longest ago did so %d slots before the end", n, worst)
			})
		})
	}
}

// A query that costs more than the budget cannot block the endpoint: it skips more and
// more slots.
func TestDearQueryDoesNotWedge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const budget = 10 * time.Second
		r := schedulertest.Rows(t, "x")
		w := newWorld(t, endpoint("never", budget, "rr"), func(q *registry.Query, n int) reply {
			if q.ID == "q_hangs" {
				return reply{24 * time.Hour, registry.Changed, r}
			}
			return reply{time.Second, registry.Changed, r}
		})
		w.register("a")
		w.register("hangs")
		w.run()
		var whole []uint64
		for range 40 {
			s := w.tick()
			if s.Cut == 1 && s.Run == 1 && s.Used == s.Budget {
				whole = append(whole, s.Number)
			}
		}
		w.stop()
		// Slot 1: a runs, and the hanging query gets the rest of its tier's share, 4 s:
		// cut. After that it is ranked first, because it was never completed. Slot 2:
		// it gets the whole budget. It skips 2^1−1 = 1 slot and runs in slot 4; then it
		// skips 3 (slot 8), 7 (slot 16) and 15 (slot 32).
		if got := fmt.Sprint(whole); got != "[2 4 8 16 32]" {
			t.Errorf("it had the slots %s to itself", got)
		}
		if s := w.stats("q_a"); s.Executions < 30 {
			t.Errorf("the other one was executed %d times in 40 slots", s.Executions)
		}
	})
}

// An expensive execution within the budget completes although it exceeds the share of
// new queries.
func TestDearBaselineCompletes(t *testing.T) {
	for _, width := range []int{1, 2, 4} {
		bubble.Test(t, func(t *testing.T) {
			r := schedulertest.Rows(t, "x")
			e := endpoint("never", 10*time.Second, "ttl:max=32:reset")
			e.Concurrency = width
			w := newWorld(t, e, func(*registry.Query, int) reply { return reply{9 * time.Second, registry.Changed, r} })
			for _, n := range names("", 6) {
				w.register(n)
			}
			w.run()
			for range 40 {
				w.tick()
			}
			w.stop()
			for _, n := range names("q_", 6) {
				if s := w.stats(n); s.Executions == 0 {
					t.Errorf("concurrency %d: %s never completed: %+v", width, n, s)
				}
			}
			checkBound(t, w, 10*time.Second, width)
		})
	}
}

// The loop waits for an executor that ends late, and sleeps meanwhile. Otherwise time
// would not advance in this bubble.
func TestStubbornExecutor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.Concurrency = 2
		w := newWorld(t, e, same(t, time.Hour))
		w.service.reckless, w.service.stubborn = true, 3*time.Second
		w.register("a")
		w.register("b")
		w.run()
		// Two new queries at a time use up the share of 5 s in 2.5 s.
		if s := w.tick(); s.Cut != 2 || s.Finished.Sub(s.Started) != 5500*time.Millisecond || s.Used > s.Budget {
			t.Errorf("the slot: %+v", s)
		}
		w.stop()
	})
}

// The endpoint's timeout for one execution counts as a failure; the end of the budget
// does not.
func TestTimeoutIsNoCut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.Timeout = registry.Duration(2 * time.Second)
		w := newWorld(t, e, same(t, time.Hour))
		w.register("a")
		w.run()
		s := w.tick()
		if s.Failed != 1 || s.Cut != 0 || s.Used != 2 {
			t.Errorf("the slot: %+v", s)
		}
		if x := w.stats("q_a"); x.LastRun.Outcome != registry.Timeout || x.Failures != 1 || x.LastRun.Error == "" {
			t.Errorf("the query: %+v", x)
		}
		w.stop()
	})
}

var _ scheduler.Executor = (*service)(nil)

// With a gap, trial runs and executions of slots come one after the other: the gap begins when a request has ended.
func TestTrialsAreAloneWithAGap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 40*time.Second, "rr")
		e.Concurrency, e.MinGap = 4, registry.Duration(time.Second)
		w := newWorld(t, e, same(t, 5*time.Second))
		w.register("a")
		w.register("b")
		w.run()
		var trials sync.WaitGroup
		for range 3 {
			trials.Go(func() {
				if _, err := w.loop.Trial(t.Context(), &registry.Query{ID: "trial", Endpoint: city}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(2 * time.Minute)
		trials.Wait()
		w.stop()
		if w.service.most != 1 || w.service.ran("trial") != 3 || w.service.ran("q_a") < 2 {
			t.Errorf("%d at a time, %d trial runs, %d executions", w.service.most, w.service.ran("trial"), w.service.ran("q_a"))
		}
	})
}
