package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A played is a small world in which every answer is listed.
type played struct {
	times   [][]time.Duration // by slot and query
	changed [][]bool
}

func drawPlayed(t *rapid.T) played {
	n, slots := rapid.IntRange(1, 8).Draw(t, "queries"), rapid.IntRange(1, 25).Draw(t, "slots")
	var w played
	for range slots + 1 {
		times, changed := make([]time.Duration, n), make([]bool, n)
		for q := range n {
			times[q] = time.Duration(rapid.IntRange(0, 9).Draw(t, "ms")) * time.Millisecond
			changed[q] = rapid.IntRange(0, 4).Draw(t, "changed") == 0
		}
		w.times, w.changed = append(w.times, times), append(w.changed, changed)
	}
	return w
}

func (w played) Execute(q int, slot, last uint64) plan.Known {
	k := plan.Known{Outcome: registry.Unchanged, Elapsed: w.times[slot][q]}
	for i := last + 1; i <= slot; i++ {
		if w.changed[i][q] {
			k.Outcome, k.Jaccard = registry.Changed, 1/float64(2+q)
		}
	}
	return k
}

func (w played) Total(slot uint64) (cost, longest time.Duration, ok bool) {
	for _, d := range w.times[slot] {
		cost, longest = cost+d, max(longest, d)
	}
	return cost, longest, true
}

func (w played) queries() []registry.Query {
	out := make([]registry.Query, len(w.times[0]))
	for i := range out {
		out[i].ID = fmt.Sprintf("q%03d", i)
	}
	return out
}

// replay lists the executions of every slot; nil means all of them.
func (w played) replay(t rapid.TB, policy, rule string, budget time.Duration, ranked bool) [][]plan.Played {
	p, err := scheduler.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := plan.NewReplay(plan.ReplayConfig{
		Policy: p, Rule: rule, Budget: budget, Queries: w.queries(), World: w, Ranked: ranked,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]plan.Played, len(w.times)-1)
	for i := range out {
		list := []plan.Played{}
		if !r.Slot(func(x plan.Played) { list = append(list, x) }) {
			out[i] = list
		}
	}
	return out
}

// TestReplayWithoutRanking checks that a slot that is not ranked because it holds
// everything has the same effect on later slots as a ranked one.
func TestReplayWithoutRanking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPlayed(t)
		policy := rapid.SampledFrom([]string{"rr", "sjf", "ljf", "cr:lambda=0.5", "dj", "ttl:max=4:half", "hybrid"}).Draw(t, "policy")
		rule := rapid.SampledFrom(plan.Rules()).Draw(t, "rule")
		budget := time.Duration(rapid.IntRange(1, 60).Draw(t, "budget")) * time.Millisecond
		quick, full := w.replay(t, policy, rule, budget, false), w.replay(t, policy, rule, budget, true)
		for i, list := range quick {
			if list != nil {
				if d := cmp.Diff(full[i], list); d != "" {
					t.Fatalf("%s %s %s, slot %d (-ranked +quick):\n%s", policy, rule, budget, i+1, d)
				}
				continue
			}
			seen := map[int]bool{}
			for _, x := range full[i] {
				seen[x.Query] = x.Outcome.Complete()
			}
			for q := range w.times[0] {
				if !seen[q] {
					t.Fatalf("%s %s %s: slot %d is said to hold everything, query %d did not complete", policy, rule, budget, i+1, q)
				}
			}
		}
	})
}

// TestReplayLeavesOut checks that sqrt leaves out what hardly changes also in slots that hold everything.
func TestReplayLeavesOut(t *testing.T) {
	const queries, slots = 49, 100
	var w played
	for range slots + 1 {
		times, changed := slices.Repeat([]time.Duration{20 * time.Millisecond}, queries), slices.Repeat([]bool{true}, queries)
		changed[0] = false
		w.times, w.changed = append(w.times, times), append(w.changed, changed)
	}
	quick, full := w.replay(t, "sqrt", plan.RuleStrict, time.Second, false), w.replay(t, "sqrt", plan.RuleStrict, time.Second, true)
	all := 0
	for i := range quick {
		all += len(full[i])
		if d := cmp.Diff(full[i], quick[i]); d != "" {
			t.Fatalf("slot %d (-ranked +quick):\n%s", i+1, d)
		}
	}
	if all == queries*slots {
		t.Error("sqrt leaves nothing out")
	}
}

// TestReplayRemembersCuts checks that a query that was cut is estimated higher than it
// ever took, and so may not fit a slot that could execute everything.
func TestReplayRemembersCuts(t *testing.T) {
	ms := func(times ...time.Duration) []time.Duration {
		for i := range times {
			times[i] *= time.Millisecond
		}
		return times
	}
	w := played{times: [][]time.Duration{ms(0, 3, 0), ms(0, 5, 3), ms(0, 0, 4)}, changed: [][]bool{make([]bool, 3), make([]bool, 3),
		make([]bool, 3)}}
	// Slot 1: 0 and 2 take 3 ms, so 1 is cut after 4, which is its estimate now.
	// Slot 2: 0 and 2 take 4 ms, and 4 do not fit the 3 that are left.
	for _, ranked := range []bool{false, true} {
		slots := w.replay(t, "sjf", plan.RuleStrict, 7*time.Millisecond, ranked)
		if len(slots[1]) != 2 {
			t.Errorf("ranked %v: slot 2 executes %v, want queries 0 and 2", ranked, slots[1])
		}
	}
}

// TestReplayNarrowsWhatRests checks that a query is in the order only once. It was cut
// with the whole budget and rests until slot 3, in which the policy leaves it out
// because its result has not changed. In slot 4 it is stale again.
func TestReplayNarrowsWhatRests(t *testing.T) {
	const n, slots = 2, 6
	stale := [slots + 1][n]bool{1: {true}, 4: {true}, 5: {true, true}} // by slot
	w := played{}
	for range slots + 1 {
		w.times = append(w.times, []time.Duration{2 * time.Millisecond, time.Millisecond})
		w.changed = append(w.changed, make([]bool, n))
	}
	w.times[1][0] = 20 * time.Millisecond
	for slot, row := range stale {
		copy(w.changed[slot], row[:])
	}
	oracle := func(slot uint64, c *policy.Candidate) policy.Foresight {
		for q, x := range w.queries() {
			if x.ID == c.Query.ID && stale[slot][q] {
				return policy.Foresight{Since: slot, Cost: w.times[slot][q]}
			}
		}
		return policy.Foresight{}
	}
	cv, err := policy.Parse(policy.Yardsticks(), "cv")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{plan.RuleStrict, plan.RuleOverrun} {
		r, err := plan.NewReplay(plan.ReplayConfig{
			Policy: policy.Foresee(cv, oracle), Rule: rule, Budget: 10 * time.Millisecond, Queries: w.queries(), World: w, Ranked: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		first := "0 cut"
		if rule == plan.RuleOverrun {
			first = "0 changed"
		}
		want := []string{1: first, 2: "", 3: "", 4: "0 changed", 5: "1 changed, 0 changed", 6: ""}
		for slot := 1; slot <= slots; slot++ {
			var list []string
			r.Slot(func(x plan.Played) { list = append(list, fmt.Sprint(x.Query, " ", x.Outcome)) })
			if got := strings.Join(list, ", "); got != want[slot] {
				t.Errorf("%s, slot %d executes %q, want %q", rule, slot, got, want[slot])
			}
		}
	}
}

// TestReplayBudget checks that no slot exceeds its budget under strict, and that only
// the last execution of a slot exceeds it under overrun.
func TestReplayBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPlayed(t)
		policy := rapid.SampledFrom([]string{"rr", "sjf", "ljf", "cr", "dj", "ttl", "hybrid:d=4"}).Draw(t, "policy")
		budget := time.Duration(rapid.IntRange(1, 40).Draw(t, "budget")) * time.Millisecond
		for i, list := range w.replay(t, policy, plan.RuleStrict, budget, true) {
			used := time.Duration(0)
			for _, x := range list {
				used += x.Elapsed
			}
			if used > budget {
				t.Fatalf("strict, slot %d uses %s of %s", i+1, used, budget)
			}
		}
		for i, list := range w.replay(t, policy, plan.RuleOverrun, budget, true) {
			used := time.Duration(0)
			for k, x := range list {
				if used >= budget {
					t.Fatalf("overrun, slot %d starts execution %d after %s of %s", i+1, k+1, used, budget)
				}
				used += x.Elapsed
			}
		}
	})
}

func TestReplayRefuses(t *testing.T) {
	p, err := scheduler.ParsePolicy("rr")
	if err != nil {
		t.Fatal(err)
	}
	w := played{times: [][]time.Duration{{1, 1}}, changed: [][]bool{{false, false}}}
	good := plan.ReplayConfig{Policy: p, Rule: plan.RuleStrict, Budget: 1, Queries: w.queries(), World: w}
	if _, err := plan.NewReplay(good); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*plan.ReplayConfig){
		"rule":   func(c *plan.ReplayConfig) { c.Rule = "lax" },
		"budget": func(c *plan.ReplayConfig) { c.Budget = 0 },
		"order":  func(c *plan.ReplayConfig) { c.Queries[0], c.Queries[1] = c.Queries[1], c.Queries[0] },
	} {
		c := good
		c.Queries = w.queries()
		edit(&c)
		if _, err := plan.NewReplay(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestReplayDebt checks any replay under debt. Every slot repays what it can, at most
// half its budget. Nothing exceeds what is left while more is owed. Consecutive slots
// stay within their budgets and one overrun. Under rr every query that can complete
// does so again within the slots that the repayment takes.
func TestReplayDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPlayed(t)
		policy := rapid.SampledFrom([]string{"rr", "rr", "sjf", "ljf", "cr", "dj", "ttl", "hybrid:d=4"}).Draw(t, "policy")
		budget := time.Duration(rapid.IntRange(1, 40).Draw(t, "budget")) * time.Millisecond
		timeout := time.Duration(rapid.IntRange(0, 12).Draw(t, "timeout")) * time.Millisecond
		p, err := scheduler.ParsePolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		r, err := plan.NewReplay(plan.ReplayConfig{
			Policy: p, Rule: plan.RuleDebt, Budget: budget, Timeout: timeout, Queries: w.queries(), World: w, Ranked: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		var debt, sum, low, longest time.Duration
		last := make([]int, len(w.times[0]))
		for slot := 1; slot < len(w.times); slot++ {
			repaid := min(debt, budget/2)
			var used, beyond time.Duration
			r.Slot(func(x plan.Played) {
				before := beyond
				used += x.Elapsed
				beyond = max(0, used-(budget-repaid))
				longest = max(longest, beyond-before)
				if timeout > 0 && x.Elapsed > timeout {
					t.Fatalf("slot %d: query %d takes %s, the timeout is %s", slot, x.Query, x.Elapsed, timeout)
				}
				if x.Outcome.Complete() {
					last[x.Query] = slot
				}
			})
			rest := debt - repaid
			if rest > 0 && beyond > 0 {
				t.Fatalf("slot %d: %s are owed, and it exceeds its budget by %s", slot, rest, beyond)
			}
			if debt = rest + beyond; r.Debt() != debt {
				t.Fatalf("slot %d ends with a debt of %s, want %s", slot, r.Debt(), debt)
			}
			sum += used - budget
			if sum-low > longest {
				t.Fatalf("slot %d: some slots in a row took %s more than their budgets, the longest overrun is %s", slot, sum-low, longest)
			}
			low = min(low, sum)
			if policy != "rr" || timeout > 0 {
				continue
			}
			patience := len(last) * (2 + int(2*longest/budget))
			for q, at := range last {
				if slot-at > patience {
					t.Fatalf("query %d has waited from slot %d to slot %d", q, at, slot)
				}
			}
		}
	})
}

// TestReplayDebtLikeStrict checks that debt and strict are the same if estimates are
// right and everything fits.
func TestReplayDebtLikeStrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawPlayed(t)
		budget := 9 * time.Millisecond // the longest
		for i := range w.times {
			w.times[i] = w.times[0]
		}
		policy := rapid.SampledFrom([]string{"rr", "sjf", "cr", "dj", "ttl", "hybrid:d=4"}).Draw(t, "policy")
		strict, lent := w.replay(t, policy, plan.RuleStrict, budget, true), w.replay(t, policy, plan.RuleDebt, budget, true)
		if fmt.Sprint(strict) != fmt.Sprint(lent) {
			t.Fatalf("%s:\nstrict %v\ndebt   %v", policy, strict, lent)
		}
	})
}

// TestReplayRepaysUnranked checks that a slot that could hold everything also repays.
func TestReplayRepaysUnranked(t *testing.T) {
	w := played{}
	for _, ms := range []time.Duration{1, 3, 1, 1} { // slot 0 is t0
		times := make([]time.Duration, 5)
		for q := range times {
			times[q] = ms * time.Millisecond
		}
		w.times, w.changed = append(w.times, times), append(w.changed, make([]bool, 5))
	}
	p, err := scheduler.ParsePolicy("rr")
	if err != nil {
		t.Fatal(err)
	}
	r, err := plan.NewReplay(plan.ReplayConfig{
		Policy: p, Rule: plan.RuleDebt, Budget: 10 * time.Millisecond, Queries: w.queries(), World: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	// Slot 1: 3 + 3 + 3, and the fourth, expected to take the 1 ms left, 3: 2 too
	// many. Slot 2 has 8 for 5, slot 3 can hold everything and owes nothing.
	for slot, want := range []struct {
		all  bool
		ran  int
		debt time.Duration
	}{{false, 4, 2 * time.Millisecond}, {false, 5, 0}, {true, 0, 0}} {
		n := 0
		all := r.Slot(func(plan.Played) { n++ })
		if all != want.all || n != want.ran || r.Debt() != want.debt {
			t.Errorf("slot %d: everything %v, %d executions, %s owed; want %+v", slot+1, all, n, r.Debt(), want)
		}
	}
}
