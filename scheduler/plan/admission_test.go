package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// estimated returns a ranked query of a known cost.
func estimated(id string, cost time.Duration) (registry.Query, policy.Stats) {
	return query(id), policy.Stats{Last: 1, Executions: 1, Samples: []policy.Sample{{Slot: 1, Elapsed: cost}}, Policy: "rr"}
}

// begun begins slot 2 with a budget of 10 s and queries "a", "b", … of these costs; 0
// is a new query.
func begun(width int, seconds ...float64) (*Planner, *SlotBudget) {
	p := New(named("rr"), 10*time.Second)
	for i, c := range seconds {
		id := string(rune('a' + i))
		if c == 0 {
			p.put(query(id), policy.Stats{})
			continue
		}
		p.put(estimated(id, time.Duration(c*float64(time.Second))))
	}
	p.begin(2, noon, 0)
	return p, newSlotBudget(p, width, time.Hour, 0)
}

func started(s *SlotBudget, now time.Time) string {
	list := ""
	for r := s.Next(now); r != nil; r = s.Next(now) {
		list += fmt.Sprintf("%s:%v ", r.c.Query.ID, r.limit)
	}
	return list
}

// TestFirstAboveBudgetRunsAlone checks that the first query starts although it exceeds
// the budget, with all of it as its limit, and that no other query starts, however
// small.
func TestFirstAboveBudgetRunsAlone(t *testing.T) {
	_, s := begun(1, 15, 1, 1)
	r := s.Next(noon)
	if r == nil || r.c.Query.ID != "a" || r.limit != 10*time.Second || !r.whole {
		t.Fatalf("first is %+v", r)
	}
	if n, cost := (&SlotBudget{p: s.p}).Preview(); n == 0 || cost == 0 {
		t.Error("what is left would run in another slot")
	}
	s.Finish(r, registry.Answer{Outcome: registry.Unchanged, Elapsed: time.Millisecond}, false)
	if got := started(s, noon); got != "" {
		t.Errorf("beside it started %s", got)
	}
	// The same with room for several at a time.
	_, s = begun(4, 15, 1, 1)
	if got := started(s, noon); got != "a:10s " {
		t.Errorf("started %s", got)
	}
	// Elsewhere in the order it is passed over.
	_, s = begun(4, 1, 15, 1)
	if got := started(s, noon); got != "a:10s c:10s " {
		t.Errorf("started %s", got)
	}
}

// TestFirstIsOne checks that an execution that took no time still counts as the first:
// later queries have to fit, whatever their tier.
func TestFirstIsOne(t *testing.T) {
	for name, seconds := range map[string][]float64{"ranked": {1, 15, 12, 2}, "new": {0, 15, 12, 2}} {
		_, s := begun(1, seconds...)
		r := s.Next(noon)
		if r == nil || r.c.Query.ID != "a" {
			t.Fatalf("%s: first is %+v", name, r)
		}
		if _, whole := s.Finish(r, registry.Answer{Outcome: registry.Unchanged}, false); whole || s.used != 0 {
			t.Fatalf("%s: it used %s", name, s.used)
		}
		// 15 and 12 s do not fit the 10 that are left.
		if got := started(s, noon); got != "d:10s " {
			t.Errorf("%s: then started %s", name, got)
		}
	}
}

// TestReserve checks that the expected time of running executions is reserved.
func TestReserve(t *testing.T) {
	// 4 + 4 s are promised; 3 s do not fit the other 2, 2 s do.
	_, s := begun(4, 4, 4, 3, 2)
	if got := started(s, noon); got != "a:10s b:10s d:10s " {
		t.Errorf("started %s", got)
	}
	// After 5 s the first two overrun their estimates: 3 × 5 s are more than
	// there is, all are to be cut.
	if cut, _ := s.over(noon.Add(5 * time.Second)); len(cut) != 3 {
		t.Errorf("%d are cut", len(cut))
	}
	if _, wait := s.over(noon); wait > 10*time.Second/3 {
		t.Errorf("it would look again after %s only", wait)
	}
	// A new query may take all of its tier's 5 s, so 6 s do not fit beside it.
	_, s = begun(4, 0, 6, 5)
	if got := started(s, noon); got != "a:5s c:10s " {
		t.Errorf("started %s", got)
	}
}

// TestCrumbs checks that a tiny rest of the budget starts nothing if several
// executions may run: each would be cut at once and the next one started, thousands of
// times.
func TestCrumbs(t *testing.T) {
	p, s := begun(2, 0, 0, 0)
	s.used, s.front = p.share-time.Microsecond, p.share-time.Microsecond
	if got := started(s, noon); got != "" {
		t.Errorf("a microsecond started %s", got)
	}
	p, s = begun(1, 0, 0)
	s.used, s.front = p.share-time.Microsecond, p.share-time.Microsecond
	if got := s.Next(noon); got == nil || got.limit != time.Microsecond {
		t.Error("one at a time, a new query starts while its tier has anything left")
	}
}

// TestCharged checks that a slot pays for trial runs first, and that the rest counts
// as the whole budget.
func TestCharged(t *testing.T) {
	p, _ := begun(1, 8, 2)
	p.end(noon)
	p.begin(3, noon, 0)
	s := newSlotBudget(p, 1, time.Hour, 3*time.Second)
	r := s.Next(noon)
	if r == nil || r.c.Query.ID != "a" || r.limit != 7*time.Second || r.whole {
		t.Errorf("first is %+v", r)
	}
	if a, whole := s.Finish(r, registry.Answer{Outcome: registry.Cut, Elapsed: 7 * time.Second}, false); whole ||
		a.Elapsed != 7*time.Second || s.used != p.budget {
		t.Errorf("cut by the rest of a budget counts as whole: %v, used %s", whole, s.used)
	}
}

// TestReserveOnCredit checks that an execution of unknown cost on credit reserves the
// share that was available for it, not its limit. So others use the rest of the slot
// if one ends early.
func TestReserveOnCredit(t *testing.T) {
	p := New(named("rr"), 10*time.Second)
	p.SetBudget(RuleDebt, 10*time.Second)
	for id, cost := range map[string]time.Duration{"a": 4 * time.Second, "b": time.Second, "c": 3 * time.Second} {
		q, x := estimated(id, cost)
		if id == "b" {
			x.Floor = 3 * time.Second // it was cut
		}
		p.put(q, x)
	}
	p.begin(2, noon, 0)
	s := newSlotBudget(p, 3, 30*time.Second, 0)
	a := s.Next(noon)
	if got := fmt.Sprint(a.c.Query.ID, a.limit, " ", started(s, noon)); got != "a40s b:40s " {
		t.Fatalf("started %s", got)
	}
	later := noon.Add(time.Second)
	s.Finish(a, registry.Answer{Outcome: registry.Unchanged, Elapsed: time.Second}, false)
	// 10 s, less 1 that were used and the 6 of b. It has 40 less 1 and 1.
	if got := started(s, later); got != "c:38s " {
		t.Errorf("then started %q", got)
	}
}

// TestRepaying checks that a slot repays at most half a budget and is strict while
// more is owed, that the first query then waits if it does not fit, and that the slot
// has credit again after that.
func TestRepaying(t *testing.T) {
	for _, c := range []struct {
		debt         float64
		repaid, owes float64
		starts       string
	}{
		{0, 0, 0, "a:40s "},              // 12 s: alone, with 10 s and 30 on credit
		{3, 3, 0, "a:37s "},              // with 7 s and 30
		{5, 5, 0, "a:35s "},              // half the budget and 30
		{5.5, 5, 0.5, "b:5s c:5s d:5s "}, // a waits; no limit exceeds 5 s
		{100, 5, 95, "b:5s c:5s d:5s "},  // the same with any larger debt
	} {
		p := New(named("rr"), 10*time.Second)
		p.SetBudget(RuleDebt, 10*time.Second)
		p.debt = seconds(c.debt)
		for i, cost := range []time.Duration{12, 3, 2, 4} {
			p.put(estimated(string(rune('a'+i)), cost*time.Second))
		}
		p.begin(2, noon, 0)
		s := newSlotBudget(p, 1, 30*time.Second, 0)
		if s.repaid != seconds(c.repaid) || s.owes != seconds(c.owes) || s.budget != 10*time.Second-s.repaid || s.share != s.budget/2 {
			t.Errorf("of %g s it repays %s and owes %s, with a budget of %s", c.debt, s.repaid, s.owes, s.budget)
		}
		got := ""
		for r := s.Next(noon); r != nil; r = s.Next(noon) {
			got += fmt.Sprintf("%s:%v ", r.c.Query.ID, r.limit)
			s.Finish(r, registry.Answer{Outcome: registry.Unchanged}, false) // in no time
		}
		if got != c.starts {
			t.Errorf("with a debt of %g s it starts %q, want %q", c.debt, got, c.starts)
		}
		if s.debt() != s.owes {
			t.Errorf("%s are owed in the end, want %s", s.debt(), s.owes)
		}
	}
}

// TestDebtOfManyBudgets checks that the forecast of a query takes no longer if the
// debt is many budgets, and that it ends if the budget cannot be halved.
func TestDebtOfManyBudgets(t *testing.T) {
	naive := func(p *Planner, cost time.Duration, c *item) (n uint64) {
		n = 1
		for debt := p.debt; debt > 0; n++ {
			r := min(debt, p.budget-p.budget/2)
			have := p.budget - r
			debt -= r
			if c.in != &p.ranked {
				have /= 2
			}
			if cost < have && (debt == 0 || c.Estimate <= have-cost) {
				return n
			}
			cost = max(0, cost-have)
		}
		share := p.budget
		if c.in != &p.ranked {
			share = p.share
		}
		return n + uint64(cost/max(1, share))
	}
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	upTo := func(n int) time.Duration { return time.Duration(r.IntN(n + 1)) }
	for range 20_000 {
		p := New(named("rr"), 0)
		p.SetBudget(RuleDebt, 1+upTo(12))
		p.debt = upTo(60)
		c := &item{in: &p.ranked}
		if r.IntN(2) == 0 {
			c.in = &p.fresh
		}
		c.Estimate = upTo(15)
		cost := upTo(80)
		if got, want := p.covers(cost, c, c.in), naive(p, cost, c); got != want {
			t.Fatalf("seed %d: budget %d, debt %d, cost %d, estimate %d, ranked %t: slot %d, want %d",
				seed, p.budget, p.debt, cost, c.Estimate, c.in == &p.ranked, got, want)
		}
	}
	p := New(named("rr"), 0)
	p.SetBudget(RuleDebt, 1)
	p.debt = 1000 * time.Hour
	if got, want := p.covers(0, &item{}, &p.ranked), uint64(p.debt)+1; got != want {
		t.Errorf("a debt of %d budgets: due in slot %d, want %d", p.debt, got, want)
	}
}

// TestStretchOfLeastBudget checks that the recorded stretch of hybrid's deadlines is a
// number under any budget.
func TestStretchOfLeastBudget(t *testing.T) {
	for _, spelling := range []string{"hybrid", "hybrid:d=3"} {
		for _, budget := range []time.Duration{1, 2, 3, time.Microsecond} {
			chosen, err := parse(spelling)
			if err != nil {
				t.Fatal(err)
			}
			p := New(chosen, budget)
			for i := range 9 {
				p.put(estimated(fmt.Sprintf("q%d", i), time.Second))
			}
			p.begin(7, time.Unix(0, 0), time.Minute)
			// The default of 256 slots is enough for nine executions, one a slot.
			if s := p.ranking.Stretch; s == 0 && spelling == "hybrid" {
				continue
			} else if !(s >= 1) || math.IsInf(s, 0) {
				t.Errorf("%s, a budget of %s: deadlines are stretched %g times", spelling, budget, s)
			}
		}
	}
}
