package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/scheduler/plan"
)

// Two results change in slot 1 and again in slot 2, and each request takes a second. With a
// second a slot, two of the four versions can be found. Under overrun, two requests of a second
// may run in each slot, if the first of them ends within its second.
func TestBound(t *testing.T) {
	tr := readTrace(t, `{"queries":2,"revisions":2,"exec_ms":[[1000,1000],[1000,1000],[1000,1000]],"changes":[
		{"id":0,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[3]}]},
		{"id":1,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[3]}]}]}`)
	for _, c := range []struct {
		rule   string
		budget time.Duration
		want   int
	}{
		{plan.RuleStrict, 999 * time.Millisecond, 0}, {plan.RuleStrict, time.Second, 2}, {plan.RuleStrict, 1500 * time.Millisecond, 3},
		{plan.RuleStrict, 2 * time.Second, 4}, {plan.RuleOverrun, 500 * time.Millisecond, 3}, {plan.RuleOverrun, time.Second, 4},
		{plan.RuleDebt, time.Second, 0},
	} {
		if got := NewSimulator(tr).Bound(c.rule, c.budget); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.rule, c.budget, got, c.want)
		}
	}
}

// No schedule of a small trace finds more than the bound: neither the best of all that fit
// into the budget nor what policies with and without knowledge of the future find.
func TestNothingPassesTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, s := tracetest.Draw(t), drawSetup(t)
		s.Policy = rapid.SampledFrom([]string{"cv", "edf", "rates", "rr", "hybrid"}).Draw(t, "policy")
		w := NewSimulator(tr)
		bound := w.Bound(s.Rule, s.Budget)
		if s.Rule == plan.RuleDebt {
			return
		}
		if bound > w.changes {
			t.Fatalf("%d of %d changes", bound, w.changes)
		}
		row, err := w.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if row.Relevant > bound {
			t.Fatalf("%+v finds %d, the bound is %d", s, row.Relevant, bound)
		}
		if s.Rule != plan.RuleStrict {
			return
		}
		if most, ok := most(tr, s.Budget); ok && most > bound {
			t.Fatalf("a schedule finds %d, the bound is %d", most, bound)
		}
	})
}

// most returns the most versions that a schedule finds, by trying all, if there are few.
func most(tr *trace.Trace, budget time.Duration) (best int, ok bool) {
	type run struct{ version, slot, ms int }
	var runs []run
	versions := 0
	for _, s := range tr.Series {
		for v := 1; v < len(s.Versions); v++ {
			end := tr.Revisions + 1
			if v+1 < len(s.Versions) {
				end = s.Versions[v+1].Rev
			}
			for r := s.Versions[v].Rev; r < end; r++ {
				runs = append(runs, run{versions, r, int(tr.Times[r][s.Query])})
			}
			versions++
		}
	}
	if len(runs) > 14 {
		return 0, false
	}
	for set := range 1 << len(runs) {
		left, found := make([]int, tr.Revisions+1), map[int]bool{}
		fits := true
		for i, x := range runs {
			if set>>i&1 == 1 {
				left[x.slot] += x.ms
				found[x.version] = true
				fits = fits && left[x.slot] <= int(budget.Milliseconds())
			}
		}
		if fits {
			best = max(best, len(found))
		}
	}
	return best, true
}

// The table says the bound once for each budget, and the rows have it.
func TestRowsHaveTheBound(t *testing.T) {
	var setups []Setup
	for _, p := range []string{"edf", "rr"} {
		for _, b := range []time.Duration{4 * time.Second, 8 * time.Second} {
			setups = append(setups, Setup{Policy: p, Budget: b, Rule: plan.RuleStrict})
		}
	}
	rows, err := NewSimulator(readTrace(t, tiny)).RunAll(t.Context(), setups, func(Row) {})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := WriteTable(&text, rows); err != nil {
		t.Fatal(err)
	}
	for _, b := range []int{4, 8} {
		if want := fmt.Sprintf("No schedule finds more than 4 changes with %d s a slot (strict).\n", b); strings.Count(text.String(), want) != 1 {
			t.Errorf("%s does not have %q once", text.String(), want)
		}
	}
	if rows[0].Bound != 4 || rows[0].Relevant != 4 {
		t.Errorf("edf finds %d of %d", rows[0].Relevant, rows[0].Bound)
	}
}

// What the next change overwrites first runs first, so edf finds a change that cv misses.
func TestDeadlineFindsMore(t *testing.T) {
	tr := readTrace(t, `{"queries":2,"revisions":3,"exec_ms":[[1,1],[1000,1000],[1000,1000],[1000,1000]],"changes":[
		{"id":0,"initial":[1],"versions":[{"rev":1,"rows":[2]}]},
		{"id":1,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[3]}]}]}`)
	for policy, want := range map[string]int{"cv": 2, "edf": 3} {
		got := simulate(t, tr, Setup{Policy: policy, Budget: time.Second, Rule: plan.RuleStrict})
		if got.Relevant != want {
			t.Errorf("%s finds %d, want %d", policy, got.Relevant, want)
		}
	}
}
