package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// Merged requests use no more than the budget of a slot. With them a policy that asks for
// all queries in turn executes more and finds more changes.
func TestLongMergedSimulations(t *testing.T) {
	target := tracetest.Small(1000, 120)
	target.Total, target.Interval, target.Deviation = [2]float64{100, 150}, 5, 9
	tr, err := trace.Generate(t.Context(), target, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := NewSimulator(tr)
	for _, rule := range []string{plan.RuleStrict, plan.RuleDebt} {
		for _, p := range []string{"hybrid", "rr", "cv"} {
			s := Setup{Policy: p, Budget: 2 * time.Second, Rule: rule, Timeout: 20 * time.Second}
			alone := run(t, w, s)
			if alone.Requests != 0 {
				t.Errorf("%s, %s: %d requests without merging", p, rule, alone.Requests)
			}
			for _, s.Merge = range []string{registry.MergeValues, registry.MergeAuto} {
				row := run(t, w, s)
				if row.MaxOverrun > 0 && rule == plan.RuleStrict || row.Used > 2*120+20 {
					t.Errorf("%s, %s, merge %s: %g s used, %g s too much in a slot", p, rule, s.Merge, row.Used, row.MaxOverrun)
				}
				if p != clairvoyant && row.Requests >= row.Total || p == "rr" && (row.Total <= alone.Total || row.Relevant <= alone.Relevant) {
					t.Errorf("%s, %s, merge %s: %d requests, %d executions find %d changes; alone %d find %d",
						p, rule, s.Merge, row.Requests, row.Total, row.Relevant, alone.Total, alone.Relevant)
				}
			}
		}
	}
}

func run(t *testing.T, w *Simulator, s Setup) Row {
	t.Helper()
	row, err := w.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// Requests for each change found are counted alike with merged requests and without: those that were cut or failed, too.
func TestPerChange(t *testing.T) {
	m := Metrics{Total: 10, Cut: 3, Failed: 2, Relevant: 5, Used: 20}
	if requests, seconds := m.PerChange(); requests != 3 || seconds != 4 {
		t.Errorf("%g requests and %g seconds, want 3 and 4", requests, seconds)
	}
	m.Requests = 4
	if requests, _ := m.PerChange(); requests != 0.8 {
		t.Errorf("%g requests, some of them merged, want 0.8", requests)
	}
}

// A merged request takes a time for itself and parts of the members' times, as the trace
// says.
func TestMergeCost(t *testing.T) {
	tr := readTrace(t, `{"queries":3,"revisions":1,"exec_ms":[[1000,2000,4000],[100,200,400]],"changes":[],
		"templates":[1,1,0],"merge_cost":{"request_ms":5,"values":0.5,"probe":0.1}}`)
	m := NewSimulator(tr).merged(registry.MergeAuto)
	if got := m.Cost(1, "values", []int{0, 1}); got != 155*time.Millisecond {
		t.Errorf("values: %s", got)
	}
	if got := m.Cost(0, "probe", []int{0, 1}); got != 305*time.Millisecond {
		t.Errorf("probe: %s", got)
	}
	if m.Template(0) != m.Template(1) || m.Template(2) != "" || m.Rows(1) != 201 {
		t.Errorf("templates %q %q %q, %d rows", m.Template(0), m.Template(1), m.Template(2), m.Rows(1))
	}
}

// Settings that cannot merge say so.
func TestMergingNeedsTemplatesAndARule(t *testing.T) {
	s := Setup{Policy: "rr", Budget: time.Second, Rule: plan.RuleStrict, Merge: registry.MergeAuto}
	if _, err := NewSimulator(readTrace(t, tiny)).Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no templates") {
		t.Errorf("without templates: %v", err)
	}
	s.Rule = plan.RuleOverrun
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "strict") {
		t.Errorf("rule overrun: %v", err)
	}
	s.Merge = "often"
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "probe") {
		t.Errorf("merge often: %v", err)
	}
}
