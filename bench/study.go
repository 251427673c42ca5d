package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler"
)

// Configurations are the policies of a study as they are spelled: those of the
// paper's tables in their order, and then those that came after it, as far as
// the scheduler knows them.
func Configurations() []string {
	wanted := []string{
		"cv", "ljf:lambda=0.5", "ljf:lambda=1", "rr", "sjf:lambda=1", "sjf:lambda=0.5", "cr:lambda=0", "cr:lambda=0.5", "dj",
		"ttl:max=32:half", "ttl:max=32:reset", "ttl:max=64:half", "ttl:max=128:half", "ttl:max=128:reset", "ttl:max=256:half",
		"sqrt", "hybrid:d=32:h=8", "hybrid:d=64:h=4", "hybrid:d=256:h=4", "hybrid:d=256:h=8",
	}
	return slices.DeleteFunc(wanted, func(p string) bool {
		_, err := scheduler.ParsePolicy(p)
		return err != nil
	})
}

// Budgets are those of the paper's tables: as good as unlimited, roughly what
// all changed queries take at most, and scarce.
func Budgets() []time.Duration {
	return []time.Duration{1000 * time.Second, 50 * time.Second, 10 * time.Second}
}

// Plan lists the setups of a study, budget by budget.
func Plan(rule string) []Setup {
	var out []Setup
	for _, b := range Budgets() {
		for _, p := range Configurations() {
			out = append(out, Setup{Policy: p, Budget: b, Rule: rule})
		}
	}
	return out
}

// A Study is what a report shows.
type Study struct {
	Trace string // what it is called
	Rule  string
	World *World
	Rows  []Row
}

// RunStudy plays all setups of a study.
func RunStudy(ctx context.Context, name string, t *Trace, rule string, done func(Row)) (*Study, error) {
	s := &Study{Trace: name, Rule: rule, World: NewWorld(t)}
	var err error
	s.Rows, err = s.World.SimulateAll(ctx, Plan(rule), done)
	return s, err
}

// Write writes report.html, which needs nothing else, and beside it every plot
// as SVG, PDF and PNG and all rows as CSV and JSON. The same study gives the same
// bytes.
func (s *Study) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{}
	var pictures []picture
	for _, f := range s.figures() {
		p, err := f.draw()
		if err != nil {
			return fmt.Errorf("plot %s: %w", f.name, err)
		}
		files[f.name+".svg"], files[f.name+".pdf"], files[f.name+".png"] = p.svg, p.pdf, p.png
		pictures = append(pictures, p)
	}
	var csv, lines, page bytes.Buffer
	if err := WriteCSV(&csv, s.Rows); err != nil {
		return err
	}
	if err := WriteRows(&lines, s.Rows); err != nil {
		return err
	}
	if err := s.html(&page, pictures); err != nil {
		return err
	}
	files["study.csv"], files["study.jsonl"], files["report.html"] = csv.Bytes(), lines.Bytes(), page.Bytes()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf are the rows of one budget.
func (s *Study) rowsOf(budget time.Duration) (out []*Row) {
	for i := range s.Rows {
		if s.Rows[i].BudgetMS == budget.Milliseconds() {
			out = append(out, &s.Rows[i])
		}
	}
	return out
}

// shown picks the policies that fit one plot of lines.
func (s *Study) shown(budget time.Duration) (out []*Row) {
	for _, r := range s.rowsOf(budget) {
		switch r.Policy {
		case "cv", "rr", "sjf:lambda=0.5", "cr:lambda=0", "dj", "ttl:max=32:reset", "ttl:max=256:half", "hybrid:d=32:h=8", "hybrid:d=256:h=4":
			out = append(out, r)
		}
	}
	return out
}
