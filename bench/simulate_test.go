package bench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/scheduler/plan"
)

// readTrace parses the exchange format.
func readTrace(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func simulate(t testing.TB, tr *trace.Trace, s Setup) Row {
	t.Helper()
	row, err := NewSimulator(tr).Run(context.Background(), s)
	if err != nil {
		t.Fatalf("%s %s %s: %v", s.Policy, s.Budget, s.Rule, err)
	}
	return row
}

// tiny has three queries of 4 s each over five revisions. Query 0 changes in
// revisions 1, 2 and 4 and is back at its first result in 4; query 1 changes in
// 3; query 2 never.
const tiny = `{"queries":3,"revisions":5,
"exec_ms":[[4000,4000,4000],[4000,4000,4000],[4000,4000,4000],[4000,4000,4000],[4000,4000,4000],[4000,4000,4000]],
"changes":[{"id":0,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[3]},{"rev":4,"rows":[1]}]},
           {"id":1,"initial":[7,7],"versions":[{"rev":3,"rows":[7,8]}]}]}`

// Round robin with room for one query a slot executes 0, 1, 2, 0, 1.
//
//	slot 1: query 0, version 2 instead of 1: relevant, stale since 1, delay 0.
//	slot 2: query 1, no change. slot 3: query 2, no change.
//	slot 4: query 0 holds 2, is 1 (3 was passed over): relevant, stale since 2,
//	        delay 2, one change passed over.
//	slot 5: query 1, changed in 3: relevant, delay 2.
//
// All four changes less three relevant executions: one missed. The ages after the slots are
// 0, 1, 2, 0, 1 and 1, 0, 1, 2, 0 and 1, 2, 0, 1, 2. Queries 0 and 1 change, and are stale in
// the slots 2, 3 and 3, 4.
func TestTinyRoundRobin(t *testing.T) {
	got := simulate(t, readTrace(t, tiny), Setup{Policy: "rr", Budget: 4 * time.Second, Rule: plan.RuleOverrun, Schedule: true})
	want := Row{
		Policy: "rr", Params: map[string]any{}, BudgetMS: 4000, Rule: "overrun",
		Metrics: Metrics{
			Total: 5, Relevant: 3, Irrelevant: 2, Effectivity: 0.6, AbsDelay: 4, MaxDelay: 2, AbsDelayDetected: 4,
			MaxDelayDetected: 2, AbsMiss: 1, MaxMiss: 1, Distinct: 3, Used: 20,
			Age: 14. / 15, Fresh: 0.6,
		},
		Slots: [][]int{{0}, {1}, {2}, {0}, {1}}, Cuts: [][2]int{},
	}
	got.Delays = nil
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Clairvoyant with 5 s a slot under overrun may run two queries of 4 s.
//
//	slots 1 and 2: query 0, delay 0 each. slot 3: query 1. slot 4: query 0.
func TestTinyClairvoyant(t *testing.T) {
	got := simulate(t, readTrace(t, tiny), Setup{Policy: "cv", Budget: 5 * time.Second, Rule: plan.RuleOverrun, Schedule: true})
	want := Metrics{Total: 4, Relevant: 4, Effectivity: 1, Distinct: 2, Used: 16, Age: 23. / 15, Fresh: 1}
	if d := cmp.Diff(want, got.Metrics); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff([][]int{{0}, {0}, {1}, {0}, {}}, got.Slots); d != "" {
		t.Errorf("slots -want +got:\n%s", d)
	}
}

// A change and its revert in between are not relevant, and both are passed
// over. Executed in slots 2 (still [1] after 1: [2], 2: [1]) and 4.
//
//	slot 2: the old version again, two changes pending: irrelevant, 2 passed.
//	slot 4: version [3] since 3: relevant, delay 1. At the end (revision 5)
//	nothing is stale.
func TestTinyRevert(t *testing.T) {
	tr := readTrace(t, `{"queries":2,"revisions":4,"exec_ms":[[1,1],[1000,2000],[1000,2000],[1000,2000],[1000,2000]],
"changes":[{"id":0,"initial":[1],"versions":[{"rev":1,"rows":[2]},{"rev":2,"rows":[1]},{"rev":3,"rows":[3]}]}]}`)
	y := newTally(NewSimulator(tr), time.Second)
	for slot := 1; slot <= 4; slot++ {
		y.begin()
		if slot%2 == 0 {
			y.play(plan.Played{Query: 0, Outcome: "unchanged", Elapsed: time.Second})
		}
		y.end(0)
	}
	got := y.finish()
	want := Metrics{Total: 2, Relevant: 1, Irrelevant: 1, Effectivity: 0.5, AbsDelay: 1, MaxDelay: 1, AbsDelayDetected: 1,
		MaxDelayDetected: 1, AbsMiss: 2, MaxMiss: 2, Distinct: 1, Used: 2, Age: 1.5, Fresh: 0.5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int{1}, y.delays); diff != "" {
		t.Errorf("delays -want +got:\n%s", diff)
	}
}

// Strict cuts what exceeds the budget: the only query takes 3 s of 2 s. It is
// cut in slot 1 with the whole budget and left out of the next slot (2^1 − 1),
// cut again in slot 3 and left out of three.
func TestTinyCuts(t *testing.T) {
	tr := readTrace(t, `{"queries":1,"revisions":7,"exec_ms":[[1000],[3000],[3000],[3000],[3000],[3000],[3000],[3000]],"changes":[]}`)
	got := simulate(t, tr, Setup{Policy: "rr", Budget: 2 * time.Second, Rule: plan.RuleStrict, Schedule: true})
	if d := cmp.Diff(Metrics{Cut: 3, Used: 6, Age: 4, Fresh: 1}, got.Metrics); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff([][2]int{{1, 0}, {3, 0}, {7, 0}}, got.Cuts); d != "" {
		t.Errorf("cuts -want +got:\n%s", d)
	}
}

// A simulation charges an execution that has a gap, and counts it as failed only.
func TestGapsAreFailures(t *testing.T) {
	tr := readTrace(t, `{"queries":3,"revisions":4,"exec_ms":[[9,2,3],[1,9,3],[1,9,3],[1,2,3],[1,2,3]],
"changes":[{"id":0,"initial":[1],"versions":[{"rev":4,"rows":[0]}]},{"id":1,"initial":[0],"versions":[{"rev":3,"rows":[1]}]}],
"gaps":[{"rev":0,"id":0,"outcome":"error"},{"rev":1,"id":1,"outcome":"partial"}]}`)
	row := simulate(t, tr, Setup{Policy: "rr", Budget: time.Second, Rule: plan.RuleStrict})
	if row.Failed != 1 || row.Relevant != 2 || row.Total != 11 {
		t.Errorf("failed %d, relevant %d, total %d; want 1, 2 and 11", row.Failed, row.Relevant, row.Total)
	}
}

// |{1,1,2} ∩ {1,2,2}| = 2, |∪| = 4: distance 1 − 2/4.
func TestJaccard(t *testing.T) {
	for _, c := range []struct {
		a, b []int64
		want float64
	}{
		{[]int64{1, 1, 2}, []int64{2, 1, 2}, 0.5},
		{nil, nil, 0},
		{nil, []int64{1}, 1},
		{[]int64{2, 1}, []int64{1, 2}, 0},
	} {
		if got := jaccard(c.a, c.b); got != c.want {
			t.Errorf("%v, %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

// Where queries of one template change alike, what is known about the others of it helps, and a query alone with its template is
// told nothing.
func TestWarmByTemplate(t *testing.T) {
	tr, err := trace.Generate(t.Context(), tracetest.Small(200, 120), 3)
	if err != nil {
		t.Fatal(err)
	}
	tr.Templates = slices.Repeat([]int{1}, tr.Queries)
	for _, s := range tr.Series {
		tr.Templates[s.Query] = min(len(s.Versions), 8)
	}
	tr.Templates[0] = 9
	w, found := NewSimulator(tr), map[string]int{}
	for _, warm := range []string{"", WarmTemplate} {
		row, err := w.Run(t.Context(), Setup{Policy: "hybrid", Budget: 200 * time.Millisecond, Rule: plan.RuleStrict, Warm: warm})
		if err != nil {
			t.Fatal(err)
		}
		found[warm] = row.Relevant
	}
	if found[WarmTemplate] < found[""]*21/20 {
		t.Errorf("changes found: %v", found)
	}
	tr.Templates = nil
	s := Setup{Policy: "hybrid", Budget: time.Second, Rule: plan.RuleStrict, Warm: WarmTemplate}
	if _, err := NewSimulator(tr).Run(t.Context(), s); err == nil {
		t.Error("templates that are not there are taken")
	}
}

// A policy that begins with what it has learnt before finds more in a scarce budget, and more still if nothing of that is lost.
func TestWarm(t *testing.T) {
	tr, err := trace.Generate(t.Context(), tracetest.Small(200, 120), 3)
	if err != nil {
		t.Fatal(err)
	}
	w, found := NewSimulator(tr), map[string]int{}
	for _, warm := range []string{"", WarmImport, WarmState} {
		row, err := w.Run(t.Context(), Setup{Policy: "hybrid", Budget: 200 * time.Millisecond, Rule: plan.RuleStrict, Warm: warm})
		if err != nil {
			t.Fatal(err)
		}
		found[warm] = row.Relevant
	}
	if found[WarmImport] < found[""]*21/20 || found[WarmState] < found[WarmImport] {
		t.Errorf("changes found: %v", found)
	}
	if err := (Setup{Policy: "hybrid", Budget: time.Second, Rule: plan.RuleStrict, Warm: "hot"}).Check(); err == nil {
		t.Error("an unknown warmth is taken")
	}
}
