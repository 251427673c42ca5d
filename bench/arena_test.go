package bench

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

// Of the 8 signs of 1, 2, 3, two have a sum as far from 0 as 6. No signs of 2, 1, −2 have a sum
// nearer to 0 than theirs. Of the 1,024 signs of ten equal differences, two are as far.
func TestPairedTest(t *testing.T) {
	for _, c := range []struct {
		differences []float64
		want        float64
	}{{[]float64{1, 2, 3}, 0.25}, {[]float64{2, 1, -2}, 1}, {nil, 1}, {[]float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, 2. / 1024}} {
		if got := pairedTest(c.differences); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %g, want %g", c.differences, got, c.want)
		}
	}
	// Of more than 16, all count. The sum of 32 signs is as far from 0 as 8 with probability 0.2153.
	var many []float64
	for i := range 32 {
		many = append(many, float64(1-2*(i%2)))
	}
	if p := pairedTest(many); p != 1 {
		t.Errorf("differences that cancel out: %g, want 1", p)
	}
	for i := range 4 {
		many[16+2*i+1] = 1
	}
	if p := pairedTest(many); math.Abs(p-0.2153) > 0.01 {
		t.Errorf("differences of which the last do not cancel out: %g, want 0.2153", p)
	}
}

// An arena that is read again simulates only what is missing, and writes the same files.
func TestArena(t *testing.T) {
	dir := t.TempDir()
	a := &Arena{Rules: []string{plan.RuleStrict}, Budgets: []time.Duration{5 * time.Second, 9 * time.Second},
		Policies: []string{"hybrid", "rr", "rates"}}
	runs := 0
	for _, name := range []string{"a", "b"} {
		a.Enter(name, readTrace(t, tiny))
		if err := a.Run(t.Context(), name, readTrace(t, tiny), func(Row) { runs++ }); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Write(dir); err != nil || runs != 12 {
		t.Fatalf("%d runs, %v", runs, err)
	}
	files := map[string]string{}
	for _, name := range []string{"arena.jsonl", "arena.md", "arena-found-strict.svg", "arena-fresh-strict.svg"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(b)
	}
	again := &Arena{Rules: a.Rules, Budgets: a.Budgets, Policies: append(a.Policies, "dj")}
	if err := again.Read(strings.NewReader(files["arena.jsonl"])); err != nil {
		t.Fatal(err)
	}
	if got := again.Missing("b"); len(got) != 2 || got[0].Policy != "dj" {
		t.Errorf("missing: %+v", got)
	}
	again.Policies = a.Policies
	if err := again.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s is another after reading, %v", name, err)
		}
	}
	if n := again.Enter("a", readTrace(t, tiny)); n != 0 {
		t.Errorf("%d rows of the same history are dropped", n)
	}
	longer := readTrace(t, tiny)
	longer.Times[len(longer.Times)-1][0]++
	if n := again.Enter("a", longer); n != 6 || len(again.Missing("a")) != 6 || len(again.Missing("b")) != 0 {
		t.Errorf("%d rows of another history are dropped; missing: %+v, %+v", n, again.Missing("a"), again.Missing("b"))
	}
	if again.Drop([]string{"rr"}); len(again.Missing("b")) != 2 {
		t.Errorf("missing after a policy changed: %+v", again.Missing("b"))
	}
	if !strings.Contains(files["arena.md"], "| `rr` | 2 |") {
		t.Errorf("the tables are\n%s", files["arena.md"])
	}
	if err := again.Read(strings.NewReader("{")); err == nil {
		t.Error("half a row is read")
	}
}

// Two traces: the second finds less with 7 s than with 5 s, and half of what rates finds. A recording has a budget of its own,
// and another policy that finds more.
func TestArenaGoals(t *testing.T) {
	a := &Arena{Budgets: []time.Duration{7 * time.Second, 5 * time.Second}, Policies: []string{"hybrid", "rates", "dj", "rr", "hybrid:d=1024"},
		Recorded: map[string][]time.Duration{"c": {6 * time.Second}}, rows: []traced{
			{"a", "", Row{Policy: "hybrid", BudgetMS: 5000, Rule: "strict", Metrics: Metrics{Relevant: 80, MaxDelay: 9, AbsDelay: 40}}},
			{"b", "", Row{Policy: "hybrid", BudgetMS: 5000, Rule: "strict", Metrics: Metrics{Relevant: 60, MaxDelay: 7, AbsDelay: 60}}},
			{"a", "", Row{Policy: "hybrid", BudgetMS: 7000, Rule: "strict", Bound: 120, Metrics: Metrics{Relevant: 90, MaxDelay: 4, AbsDelay: 20}}},
			{"b", "", Row{Policy: "hybrid", BudgetMS: 7000, Rule: "strict", Metrics: Metrics{Relevant: 50, MaxDelay: 5, AbsDelay: 30}}},
			{"a", "", Row{Policy: "rates", BudgetMS: 7000, Rule: "strict", Metrics: Metrics{Relevant: 100}}},
			{"b", "", Row{Policy: "rates", BudgetMS: 7000, Rule: "strict", Metrics: Metrics{Relevant: 100}}},
			{"c", "", Row{Policy: "hybrid", BudgetMS: 6000, Rule: "strict", Metrics: Metrics{Relevant: 30}}},
			{"c", "", Row{Policy: "rr", BudgetMS: 6000, Rule: "strict", Metrics: Metrics{Relevant: 20}}},
			{"c", "", Row{Policy: "dj", BudgetMS: 6000, Rule: "strict", Metrics: Metrics{Relevant: 40}}},
			{"c", "", Row{Policy: "hybrid:d=1024", BudgetMS: 6000, Rule: "strict", Metrics: Metrics{Relevant: 60}}},
		}}
	a.Rules = []string{"strict"}
	for name, want := range map[string]int{"b": 7, "c": 1, "d": 10} {
		if got := a.Missing(name); len(got) != want {
			t.Errorf("%s misses %d: %+v", name, len(got), got)
		}
	}
	var text strings.Builder
	a.goals(&text, "strict")
	for _, want := range []string{"| 5 s | 2 | 70 | – | | | | | | | 0 of 0 | 9 | 50 |",
		"| 6 s | 1 | 30 | – | | | | 75.0 | 75.0 | 75.0 | 0 of 0 | 0 | 0 |",
		"| 7 s | 2 | 70 | 75.0 | 70.0 | 50.0 | 90.0 | | | | 1 of 2 | 5 | 25 |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in%s", want, text.String())
		}
	}
}

// A policy is known by what it spells itself, however it is written.
func TestCompetitors(t *testing.T) {
	got, err := Competitors("hybrid,cr,cr:lambda=0,rr,hybrid")
	if want := []string{"hybrid", "cr:lambda=0", "rr"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := Competitors("rr,nothing"); err == nil {
		t.Errorf("%q", got)
	}
}
