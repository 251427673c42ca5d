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
)

// Configurations returns the spellings of a study's policies: those of the paper's
// tables in their order, then newer ones, the server's default among them.
func Configurations() []string {
	return []string{
		"cv", "edf", "rates", "ljf:lambda=0.5", "ljf:lambda=1", "rr", "sjf:lambda=1", "sjf:lambda=0.5", "cr:lambda=0", "cr:lambda=0.5", "dj",
		"ttl:max=32:half", "ttl:max=32:reset", "ttl:max=64:half", "ttl:max=128:half", "ttl:max=128:reset", "ttl:max=256:half",
		"sqrt", registry.DefaultPolicy,
	}
}

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
		out = append(out, twoDigits(most/part))
	}
	return slices.Compact(out)
}

// twoDigits rounds a time up to two significant digits of milliseconds.
func twoDigits(d time.Duration) time.Duration {
	unit := time.Millisecond
	for d >= 100*unit {
		unit *= 10
	}
	return max(time.Millisecond, (d+unit-1)/unit*unit)
}

// A Study is an arena with one rule and one trace, whose report is a page.
type Study struct {
	Arena
	Compare bool // show the paper's values beside ours, where it has the policy and the budget

	world *Simulator
	name  string // of the trace
}

// NewStudy returns a study of the configurations and further policies.
func NewStudy(rule string, budgets []time.Duration, more ...string) *Study {
	s := &Study{Arena: Arena{Rules: []string{rule}, Budgets: budgets}}
	for _, p := range append(Configurations(), more...) {
		if !slices.Contains(s.Policies, p) {
			s.Policies = append(s.Policies, p)
		}
	}
	return s
}

// published returns the paper's values of a policy under a budget, nil if there are none or they are not shown.
func (s *Study) published(policy string, budget time.Duration) *Reference {
	list := Published()
	i := slices.IndexFunc(list, func(r Reference) bool { return r.Policy == policy && r.Budget == budget })
	if i < 0 || !s.Compare {
		return nil
	}
	return &list[i]
}

// Run runs all policies over the trace. It calls done after each.
func (s *Study) Run(ctx context.Context, name string, t *trace.Trace, done func(Row)) error {
	s.world, s.name = NewSimulator(t), name
	return s.run(ctx, name, s.world, done)
}

// Write writes report.html, which is complete in itself, and beside it every plot
// as SVG, and all rows as JSON. The same study gives the same bytes.
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
	var lines, page bytes.Buffer
	if err := figure.WriteLines(&lines, s.rows); err != nil {
		return err
	}
	if err := s.html(&page, pictures); err != nil {
		return err
	}
	files["study.jsonl"], files["report.html"] = lines.Bytes(), page.Bytes()
	return figure.WriteFiles(dir, files)
}

// rowsOf returns the rows under one budget.
func (s *Study) rowsOf(budget time.Duration) (out []*Row) {
	for _, p := range s.Policies {
		out = append(out, s.row(s.name, Setup{Policy: p, Budget: budget, Rule: s.Rules[0]}))
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
