package scheduler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func indebted(slot string, budget, timeout time.Duration, width int) registry.Endpoint {
	e := endpoint(slot, budget, "rr")
	e.Rule, e.Timeout, e.Concurrency = plan.RuleDebt, registry.Duration(timeout), width
	return e
}

// longish takes 4 s, except that the n-th execution (from 0) of one query takes longer.
func longish(t testing.TB, id string, nth int, longer time.Duration) func(*registry.Query, int) reply {
	r := schedulertest.Rows(t, "same")
	return func(q *registry.Query, n int) reply {
		if q.ID == id && n == nth {
			return reply{longer, registry.Changed, r}
		}
		return reply{4 * time.Second, registry.Changed, r}
	}
}

type account struct{ Used, Repaid, Debt float64 }

func accounts(slots []scheduler.Slot) (list []account) {
	for _, s := range slots {
		list = append(list, account{s.Used, s.Repaid, s.Debt})
	}
	return list
}

// An execution exceeds the budget and finishes. The following slots repay the excess,
// at most half a budget each, and are strict until the debt is repaid.
func TestDebtIsRepaid(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, indebted("never", 10*time.Second, 30*time.Second, 1), longish(t, "q_a", 2, 24*time.Second))
		w.register("a")
		w.register("b")
		w.run()
		for range 7 {
			w.tick()
		}
		want := []account{
			{8, 0, 0},   // a leaves new queries 1 s of their 5 s: b starts, and may finish
			{8, 0, 0},   // a and b
			{24, 0, 14}, // a takes 20 s more than expected; nothing else starts
			{4, 5, 9},   // b; a would need 4 of the 1 s left of 5 s
			{4, 5, 4},   // a
			{4, 4, 0},   // b; 6 s were there
			{8, 0, 0},
		}
		if got := accounts(w.slots()); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("used, repaid, debt of the slots:\n got %v\nwant %v", got, want)
		}
		limits := []time.Duration{30, 30, 30, 30, 30, 5, 5, 30, 30, 30}
		for i, x := range w.service.executions() {
			if x.limit != limits[i]*time.Second {
				t.Errorf("execution %d had a limit of %s, want %d s", i, x.limit, limits[i])
			}
		}
		if x := w.stats("q_a"); x.Executions != 5 || x.Samples[2].Elapsed != 24*time.Second {
			t.Errorf("the long one did not finish: %+v", x)
		}
		w.stop()
	})
}

// Repayment continues after a restart and under the rule strict. An execution beyond
// its slot's budget is recorded as owed in full before it exceeds the budget, in case
// the process ends.
func TestDebtIsKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := indebted("never", 10*time.Second, 30*time.Second, 1)
		w := newWorld(t, e, longish(t, "q_a", 1, 24*time.Second))
		owes := func() time.Duration {
			n, err := w.ledger.Since(city, 0)
			if err != nil {
				t.Fatal(err)
			}
			return n.Last.Owes()
		}
		w.register("a")
		w.run()
		w.tick()
		ticked := make(chan scheduler.Slot)
		go func() { ticked <- w.tick() }()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if d := owes(); d != 0 {
			t.Errorf("with 2 s left of the budget %s are owed", d)
		}
		time.Sleep(2*time.Second - time.Millisecond)
		synctest.Wait()
		if d := owes(); d != 30*time.Second {
			t.Errorf("when the budget is nearly over %s are committed, want the timeout", d)
		}
		<-ticked
		if d, s := owes(), w.loop.State(); d != 14*time.Second || s.Debt != 14 {
			t.Errorf("afterwards %s are owed, and shown as %g s", d, s.Debt)
		}
		w.stop()

		w.open(e)
		w.run()
		// Its median is 14 s now: it waits until the debt is repaid.
		if s := w.tick(); s.Repaid != 5 || s.Debt != 9 || s.Run != 0 || s.Skipped != 1 {
			t.Errorf("after a restart: %+v", s)
		}
		e.Rule = plan.RuleStrict
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		if s := w.tick(); s.Repaid != 5 || s.Debt != 4 {
			t.Errorf("under strict: %+v", s)
		}
		if _, err := w.loop.Trial(t.Context(), &registry.Query{ID: "q_trial", Endpoint: city}); err != nil {
			t.Fatal(err)
		}
		if l := w.service.executions(); l[len(l)-1].limit != 3*time.Second {
			t.Errorf("a trial run has a limit of %s while 4 s of 10 s have to be repaid; half of the rest is 3 s", l[len(l)-1].limit)
		}
		w.stop()
	})
}

// Of several executions that exceed the budget, the first to start may finish within
// its timeout. The others are cut when they use up the budget without it.
func TestDebtOfSeveral(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "same")
		w := newWorld(t, indebted("never", 10*time.Second, 30*time.Second, 3), func(_ *registry.Query, n int) reply {
			return reply{[]time.Duration{time.Second, time.Hour, time.Second}[min(n, 2)], registry.Changed, r}
		})
		for _, n := range []string{"a", "b", "c"} {
			w.register(n)
		}
		w.run()
		w.tick()
		s := w.tick()
		// b and c take 5 s each, which is the budget; a takes its 30 s.
		if !near(s.Used, 40) || !near(s.Debt, 30) || s.Cut != 2 || s.Failed != 1 {
			t.Errorf("three that hang: %+v", s)
		}
		if x := w.stats("q_a"); x.LastRun.Outcome != registry.Timeout || x.LastRun.Elapsed != 30*time.Second {
			t.Errorf("a: %+v", x.LastRun)
		}
		for i, debt := range []float64{25, 20, 15, 10, 5, 0, 0} {
			if s := w.tick(); !near(s.Debt, debt) || !near(s.Repaid, min(5, 30-5*float64(i))) {
				t.Errorf("slot %d: %+v, want a debt of %g s", s.Number, s, debt)
			}
		}
		w.stop()
	})
}

// near tolerates the nanoseconds that are lost when times are divided.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// Many new queries that all exceed their share leave ranked queries half of each slot.
func TestDebtOfNewQueries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "same")
		w := newWorld(t, indebted("never", 10*time.Second, 30*time.Second, 1), func(q *registry.Query, _ int) reply {
			if q.ID < "q_n" {
				return reply{2 * time.Second, registry.Changed, r}
			}
			return reply{9 * time.Second, registry.Changed, r}
		})
		w.register("a")
		w.run()
		w.tick()
		for i := range 12 {
			w.register(fmt.Sprintf("n%02d", i))
			s := w.tick()
			if err := w.ledger.Remove(fmt.Sprintf("q_n%02d", i)); err != nil { // it would be ranked, and run alone
				t.Fatal(err)
			}
			if x := w.stats("q_a"); x.Last != s.Number {
				t.Errorf("slot %d did not run the ranked query: %+v", s.Number, s)
			}
		}
		for _, s := range w.slots() {
			if s.Debt > 30 || s.Repaid > 5 {
				t.Errorf("slot %+v", s)
			}
		}
		w.stop()
	})
}

// Two new queries at a time use more than the slot. After that ranked queries have
// their half, two at a time, and none is cut.
func TestDebtOfNewQueriesAtATime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "same")
		w := newWorld(t, indebted("never", 10*time.Second, 30*time.Second, 2), func(q *registry.Query, _ int) reply {
			if q.ID < "q_n" {
				return reply{time.Second, registry.Changed, r}
			}
			return reply{9 * time.Second, registry.Changed, r}
		})
		for i := range 8 {
			w.register(fmt.Sprint("a", i))
		}
		w.run()
		for w.tick().Complete > 0 && w.stats("q_a7").Executions == 0 {
		}
		w.register("n1")
		w.register("n2")
		if s := w.tick(); s.Cut != 0 || s.Run != 7 || !near(s.Used, 23) || !near(s.Debt, 13) {
			t.Errorf("2 new and 5 ranked ones: %+v", s)
		}
		w.stop()
	})
}

// TestLongDebtBound: in any sequence of slots, the endpoint is used for at most the sum of
// the budgets and one timeout, for any mix of queries.
func TestLongDebtBound(t *testing.T) {
	const budget = 10 * time.Second
	for i, c := range []struct {
		width    int
		timeout  time.Duration
		reckless bool
	}{
		{1, 30 * time.Second, false}, {1, 4 * time.Second, true}, {3, 30 * time.Second, false}, {3, 12 * time.Second, true},
	} {
		t.Run(fmt.Sprintf("concurrency=%d/timeout=%s", c.width, c.timeout), func(t *testing.T) {
			seed := uint64(20261121 + i)
			t.Logf("seed %d", seed)
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, indebted("@every 10s", budget, c.timeout, c.width), mix(t, seed, budget, false))
				w.service.reckless = c.reckless
				for _, n := range names("", 300) {
					w.register(n)
				}
				w.run()
				r := rand.New(rand.NewPCG(seed, 1))
				for time.Since(epoch()) < time.Hour {
					time.Sleep(time.Duration(1 + r.Int64N(int64(2*time.Second))))
					synctest.Wait()
					checkKilledNow(t, w, budget)
				}
				w.stop()
				checkDebt(t, w, budget, c.timeout)
			})
		})
	}
}

// checkKilledNow checks that the debt in the ledger is at any time at least the debt
// that a killed process would leave.
func checkKilledNow(t *testing.T, w *world, budget time.Duration) {
	t.Helper()
	var before, now scheduler.Slot // the last one that is over, and what is known of the one that runs
	for _, s := range w.slots() {
		if now = s; !s.Finished.IsZero() {
			before, now = s, scheduler.Slot{}
		}
	}
	known := before.Owes()
	if now.Number > 0 {
		known = now.Owes()
	}
	repaid := min(before.Owes(), budget/2)
	owes := before.Owes() - repaid + max(0, w.service.since(before.Finished)-(budget-repaid))
	if known < owes-time.Microsecond {
		t.Errorf("in slot %d %s are owed, the ledger knows of %s: %+v", before.Number+1, owes, known, now)
	}
}

func checkDebt(t *testing.T, w *world, budget, timeout time.Duration) {
	t.Helper()
	slots, seen := w.slots(), map[uint64]float64{}
	i := 0
	for _, x := range w.service.executions() {
		for slots[i].Finished.Before(x.end) {
			i++
		}
		seen[slots[i].Number] += x.end.Sub(x.start).Seconds()
	}
	k, debt, most, sum, low, over := budget.Seconds(), 0.0, 0.0, 0.0, 0.0, 0
	for _, s := range slots {
		if !near(seen[s.Number], s.Used) {
			t.Errorf("slot %d says that it used %g s, the endpoint has seen %g s", s.Number, s.Used, seen[s.Number])
		}
		if s.Repaid != min(debt, k/2) {
			t.Errorf("slot %d repays %g of %g s", s.Number, s.Repaid, debt)
		}
		rest, beyond := debt-s.Repaid, max(0, s.Used-(k-s.Repaid))
		if rest > 0 && !near(beyond, 0) {
			t.Errorf("slot %d exceeds its budget by %g s while %g s are owed: %+v", s.Number, beyond, rest, s)
		}
		if !near(beyond, 0) {
			over++
		}
		if !near(s.Debt, rest+beyond) || s.Lent != 0 {
			t.Errorf("slot %d owes %g s, want %g + %g: %+v", s.Number, s.Debt, rest, beyond, s)
		}
		debt = s.Debt
		sum += seen[s.Number] - k // over all slots so far
		most = max(most, sum-low)
		low = min(low, sum)
	}
	if most > timeout.Seconds()+1e-6 {
		t.Errorf("some slots in a row took %g s more than their budgets, the timeout is %s", most, timeout)
	}
	if over < 5 || len(slots) < 50 {
		t.Errorf("%d of %d slots went beyond their budget, which tells little", over, len(slots))
	}
	t.Logf("%d slots, %d beyond their budget, at most %.1f s more than the budgets in a row", len(slots), over, most)
}

// Explain says when a query waits for the end of a debt, and when that is.
func TestDebtIsExplained(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, indebted("@every 1m", 10*time.Second, 30*time.Second, 1), longish(t, "q_a", 1, 24*time.Second))
		w.register("a")
		w.run()
		until(90 * time.Second) // slots of minutes 0 and 1: 4 s, then 24 s; 14 s are owed
		w.register("b")
		x := w.explain("q_a")
		if x.Code != plan.CodeDebt || !strings.Contains(x.Why, "waits until the debt of 14s is repaid, 5s a slot") ||
			x.PassedOver != nil || !x.NextDue.Equal(epoch().Add(4*time.Minute)) {
			t.Errorf("it needs 14 s; slots repay 5, 5 and 4 s, and the third owes nothing more: %+v", x)
		}
		until(150 * time.Second)
		x = w.explain("q_a")
		if x.PassedOver == nil || !strings.Contains(x.PassedOver.Reason, "had 5s of its 10s") || !x.NextDue.Equal(epoch().Add(4*time.Minute)) {
			t.Errorf("passed over while a debt was repaid: %+v, %+v", x, x.PassedOver)
		}
		if x = w.explain("q_b"); !x.NextDue.Equal(epoch().Add(3*time.Minute)) || x.Code != plan.CodeOrder {
			t.Errorf("its 4 s fit what repaying leaves: %+v", x)
		}
		until(270 * time.Second)
		if s := w.stats("q_a"); s.Last != 5 {
			t.Errorf("predicted for minute 4, it ran last in slot %d", s.Last)
		}
		// Its 4 s fit in half a budget, but not in half of what a slot may have left.
		b := w.register("b", func(q *registry.Query) { q.Refreshes = 1 })
		if x = w.explain(b.ID); !strings.Contains(x.Why, "first among the ranked") {
			t.Errorf("a refresh under debt: %+v", x)
		}
		e := indebted("@every 1m", 10*time.Second, 30*time.Second, 1)
		e.Rule = plan.RuleStrict
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		if x = w.explain(b.ID); x.Code != plan.TierRefresh || !strings.Contains(x.Why, "those run first") {
			t.Errorf("a refresh under strict: %+v", x)
		}
		w.stop()
	})
}

// A profile's own budget cannot lend: only the endpoint's can.
func TestDebtOfProfile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := attentive("never", "mrsf")
		e.FallbackPolicy, e.Rule, e.Timeout = "ttl:max=64:reset", plan.RuleDebt, registry.Duration(30*time.Second)
		var longer atomic.Bool
		r := schedulertest.Rows(t, "same")
		w := newWorld(t, e, func(*registry.Query, int) reply {
			if longer.Load() {
				return reply{20 * time.Second, registry.Changed, r}
			}
			return reply{time.Second, registry.Changed, r}
		})
		q := w.register("a")
		w.run()
		for range 31 {
			w.tick()
		}
		longer.Store(true)
		w.wantAs(registry.Profile{ID: "p_thrifty", Endpoint: city, Budget: registry.Duration(2 * time.Second), CreatedAt: time.Now(),
			Items: []registry.Item{{Query: q.ID, When: registry.When{Every: slotsOf(4), Slack: slotsOf(3)}}}})
		claimed := 0
		for range 8 {
			s := w.tick()
			if claimed += s.Claimed; s.ClaimedSeconds > 2 {
				t.Errorf("slot %d: %d claimed, %g s", s.Number, s.Claimed, s.ClaimedSeconds)
			}
		}
		if claimed == 0 {
			t.Error("nothing was claimed")
		}
		w.stop()
	})
}

// If the ledger does not record in time that a slot may exceed its budget, every
// running execution is cut at the end of the budget.
func TestDebtNeedsItsRecord(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			takes time.Duration
			want  account
			cut   int
		}{
			{800 * time.Millisecond, account{24, 0, 14}, 0}, // begun a second ahead
			{1200 * time.Millisecond, account{10, 0, 0}, 1},
		} {
			ledger := &slow{Memory: &schedulertest.Memory{}}
			e := indebted("never", 10*time.Second, 30*time.Second, 1)
			w := newWorld(t, e, longish(t, "q_a", 1, 24*time.Second))
			w.ledger = ledger.Memory
			var err error
			if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: ledger, Executor: w.service}); err != nil {
				t.Fatal(err)
			}
			w.register("a")
			w.run()
			w.tick()
			ledger.record = c.takes
			if s := w.tick(); fmt.Sprint(accounts([]scheduler.Slot{s})) != fmt.Sprint([]account{c.want}) || s.Cut != c.cut {
				t.Errorf("commits take %s: %+v", c.takes, s)
			}
			w.stop()
		}
	})
}
