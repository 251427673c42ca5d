package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// Configurations returns the spellings of a study's policies: those of the paper's
// tables in their order, then newer ones, the server's default among them. It leaves
// out policies that the scheduler does not know.
func Configurations() []string {
	wanted := []string{
		"cv", "edf", "rates", "ljf:lambda=0.5", "ljf:lambda=1", "rr", "sjf:lambda=1", "sjf:lambda=0.5", "cr:lambda=0", "cr:lambda=0.5", "dj",
		"ttl:max=32:half", "ttl:max=32:reset", "ttl:max=64:half", "ttl:max=128:half", "ttl:max=128:reset", "ttl:max=256:half",
		"sqrt", registry.DefaultPolicy,
	}
	return slices.DeleteFunc(wanted, func(p string) bool {
		_, err := scheduler.ParsePolicy(p)
		return err != nil
	})
}

// waits are hybrid with other waits. They hardly differ where the budget is not scarce,
// where a simulation takes longest.
func waits() []string { return []string{"hybrid:d=32", "hybrid:d=1024"} }

// PaperBudgets returns the budgets of the paper's tables: practically unlimited, about the
// most that all changed queries of a slot take, and scarce.
func PaperBudgets() []time.Duration {
	return []time.Duration{1000 * time.Second, 50 * time.Second, 10 * time.Second}
}

// Budgets returns budgets for a trace: what all queries take in its costliest slot, a tenth
// and a fiftieth of it, at least a millisecond. They have two significant digits.
func Budgets(t *trace.Trace) []time.Duration {
	w, most := NewSimulator(t), time.Millisecond
	for _, s := range w.totals {
		most = max(most, s.cost)
	}
	var out []time.Duration
	for _, part := range []time.Duration{1, 10, 50} {
		unit := time.Millisecond
		for most/part >= 100*unit {
			unit *= 10
		}
		out = append(out, (most/part+unit-1)/unit*unit)
	}
	return slices.Compact(out)
}

// Plan lists the setups of a study by budget: the configurations, hybrid with other
// waits for the smallest budget, and then further policies, each once.
func Plan(rule string, budgets []time.Duration, more ...string) []Setup {
	var out []Setup
	for _, b := range budgets {
		seen := map[string]bool{}
		list := Configurations()
		if b == slices.Min(budgets) {
			list = append(list, waits()...)
		}
		for _, p := range append(list, more...) {
			if !seen[p] {
				out = append(out, Setup{Policy: p, Budget: b, Rule: rule})
			}
			seen[p] = true
		}
	}
	return out
}

// A Study runs the same setups over one or several traces. Its plots show the first
// trace, its tables the means of all traces.
type Study struct {
	Rule    string
	Compare bool       // show the paper's values beside ours, where it has the policy and the budget
	Traces  []string   // names
	Rows    [][]Row    // by trace, in the order of the plan
	World   *Simulator // of the first trace

	plan []Setup
}

// NewStudy returns a study without traces.
func NewStudy(plan []Setup) *Study {
	s := &Study{plan: plan}
	if len(plan) > 0 {
		s.Rule = plan[0].Rule
	}
	return s
}

// budgets returns the budgets of the plan in its order, each once.
func (s *Study) budgets() (out []time.Duration) {
	for _, x := range s.plan {
		if !slices.Contains(out, x.Budget) {
			out = append(out, x.Budget)
		}
	}
	return out
}

// published returns the paper's values of a policy under a budget, nil if they are not shown.
func (s *Study) published(policy string, budget time.Duration) *Reference {
	if !s.Compare {
		return nil
	}
	return find(Published(), policy, budget.Milliseconds())
}

// Add runs all setups over one more trace. It calls done after each.
func (s *Study) Add(ctx context.Context, name string, t *trace.Trace, done func(Row)) error {
	w := NewSimulator(t)
	rows, err := w.RunAll(ctx, s.plan, done)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if s.World == nil {
		s.World = w
	} else {
		for i := range rows {
			rows[i].Detail = Detail{}
		}
	}
	s.Traces, s.Rows = append(s.Traces, name), append(s.Rows, rows)
	return nil
}

// Write writes report.html, which is complete in itself, and beside it every plot
// as SVG, and all rows as CSV and JSON. The same study gives the same bytes.
func (s *Study) Write(dir string) error {
	files := map[string][]byte{}
	var pictures []figure.Picture
	for _, f := range s.figures() {
		p, err := f.Draw()
		if err != nil {
			return fmt.Errorf("plot %s: %w", f.Name, err)
		}
		p.AddTo(files)
		pictures = append(pictures, p)
	}
	var csv, lines, page bytes.Buffer
	if err := s.csv(&csv); err != nil {
		return err
	}
	if err := writeTraced(&lines, s.Traces, s.Rows); err != nil {
		return err
	}
	if err := s.html(&page, pictures); err != nil {
		return err
	}
	files["study.csv"], files["study.jsonl"], files["report.html"] = csv.Bytes(), lines.Bytes(), page.Bytes()
	return figure.WriteFiles(dir, files)
}

// rowsOf returns the rows of the first trace under one budget.
func (s *Study) rowsOf(budget time.Duration) (out []*Row) {
	for i := range s.Rows[0] {
		if s.Rows[0][i].BudgetMS == budget.Milliseconds() {
			out = append(out, &s.Rows[0][i])
		}
	}
	return out
}

// shown selects the policies that fit into one plot of lines.
func (s *Study) shown(budget time.Duration) (out []*Row) {
	for _, r := range s.rowsOf(budget) {
		switch r.Policy {
		case "cv", "edf", "rates", "rr", "sjf:lambda=0.5", "cr:lambda=0", "dj", "ttl:max=32:reset", "ttl:max=256:half", registry.DefaultPolicy:
			out = append(out, r)
		}
	}
	return out
}
