package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An Arena compares policies over several traces, trace by trace. Its rows can be read again,
// so that another policy needs only its own simulations.
type Arena struct {
	Rules    []string
	Budgets  []time.Duration
	Policies []string
	rows     []traced
}

// Contestants returns the spellings of all policies of this program, yardsticks included,
// without those for profiles and signals.
func Contestants() (out []string) {
	for _, d := range scheduler.Policies() {
		if p, err := scheduler.ParsePolicy(d.Spelling()); err == nil && !scheduler.MindsIntervals(d.Spelling()) && d.Name != "signals" {
			out = append(out, p.String())
		}
	}
	return out
}

// Read adds the rows of an earlier run.
func (a *Arena) Read(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var t traced
		if err := d.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("rows of an earlier run: %w", err)
		}
		a.rows = append(a.rows, t)
	}
}

// Missing lists the simulations of a trace that have no row.
func (a *Arena) Missing(name string) (out []Setup) {
	for _, rule := range a.Rules {
		for _, b := range a.Budgets {
			for _, p := range a.Policies {
				if s := (Setup{Policy: p, Budget: b, Rule: rule}); a.row(name, s) == nil {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func (a *Arena) row(name string, s Setup) *Row {
	for i := range a.rows {
		if r := &a.rows[i]; r.Trace == name && r.Policy == s.Policy && r.BudgetMS == s.Budget.Milliseconds() && r.Rule == s.Rule {
			return &r.Row
		}
	}
	return nil
}

// Run adds the missing rows of a trace.
func (a *Arena) Run(ctx context.Context, name string, t *trace.Trace, done func(Row)) error {
	rows, err := NewSimulator(t).RunAll(ctx, a.Missing(name), done)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, r := range rows {
		a.rows = append(a.rows, traced{name, r})
	}
	return nil
}

// Write writes arena.jsonl, which has all rows, arena.md, and for each rule a figure.
func (a *Arena) Write(dir string) error {
	var lines, text bytes.Buffer
	for _, r := range a.rows {
		if err := writeTraced(&lines, []string{r.Trace}, [][]Row{{r.Row}}); err != nil {
			return err
		}
	}
	files := map[string][]byte{}
	for _, rule := range a.Rules {
		for _, f := range a.figures(rule) {
			p, err := f.Draw()
			if err != nil {
				return fmt.Errorf("figure %s: %w", f.Name, err)
			}
			p.AddTo(files)
		}
		a.goals(&text, rule)
		a.table(&text, rule)
	}
	files["arena.jsonl"], files["arena.md"] = lines.Bytes(), text.Bytes()
	return figure.WriteFiles(dir, files)
}

// traces lists the names of the traces that have a row of a setup and of the default policy.
func (a *Arena) traces(s Setup) (out []string) {
	own := s
	own.Policy = registry.DefaultPolicy
	for _, r := range a.rows {
		if !slices.Contains(out, r.Trace) && a.row(r.Trace, s) != nil && a.row(r.Trace, own) != nil {
			out = append(out, r.Trace)
		}
	}
	return out
}

// column collects a number of a setup, one for each trace.
func (a *Arena) column(s Setup, of func(*Row) float64) (out []float64) {
	for _, name := range a.traces(s) {
		out = append(out, of(a.row(name, s)))
	}
	return out
}

// table writes what each policy reaches under a rule, with a paired test against the default.
func (a *Arena) table(w io.Writer, rule string) {
	columns := []tableColumn{
		{name: "found", of: func(r *Row) float64 { return float64(r.Relevant) }},
		{name: "stale", of: func(r *Row) float64 { return float64(r.AbsDelay) }},
		{name: "most", of: func(r *Row) float64 { return float64(r.MaxDelay) }},
		{name: "fresh %", digits: 2, of: func(r *Row) float64 { return 100 * r.Fresh }},
		{name: "age", digits: 1, of: func(r *Row) float64 { return r.Age }},
	}
	for _, b := range a.Budgets {
		fmt.Fprintf(w, "\n**%s, %s**\n\n| policy | traces |", rule, seconds(b))
		for _, c := range columns {
			fmt.Fprintf(w, " %s |", c.name)
		}
		fmt.Fprintf(w, " found by %s less this | p |\n|%s\n", registry.DefaultPolicy, "---|---|---|---|---|---|---|---|---|")
		for _, p := range a.Policies {
			s := Setup{Policy: p, Budget: b, Rule: rule}
			names := a.traces(s)
			if len(names) == 0 {
				continue
			}
			fmt.Fprintf(w, "| `%s` | %d |", p, len(names))
			for _, c := range columns {
				m, d := figure.MeanDeviation(a.column(s, c.of))
				fmt.Fprintf(w, " %s ± %s |", decimal(m, c.digits), decimal(d, c.digits))
			}
			own := s
			own.Policy = registry.DefaultPolicy
			var less []float64
			for _, name := range names {
				less = append(less, float64(a.row(name, own).Relevant-a.row(name, s).Relevant))
			}
			if p == registry.DefaultPolicy {
				fmt.Fprint(w, " | |\n")
				continue
			}
			m, _ := figure.MeanDeviation(less)
			fmt.Fprintf(w, " %+.0f | %.3f |\n", m, pairedTest(less))
		}
	}
}

// goals writes how near the default policy comes to one that knows how often each result changes, on how
// many traces it finds at least 99.5 % of what it finds with the next smaller budget, and its delays.
func (a *Arena) goals(w io.Writer, rule string) {
	fmt.Fprintf(w, "\n**%s, %s**\n\n| budget | traces | found | %% of rates | from | to | not less | most | stale |\n|%s\n",
		rule, registry.DefaultPolicy, strings.Repeat("---|", 9))
	var before Setup
	budgets := slices.Sorted(slices.Values(a.Budgets))
	for _, b := range budgets {
		own := Setup{Policy: registry.DefaultPolicy, Budget: b, Rule: rule}
		knowing := own
		knowing.Policy = "rates"
		var found, part, most, stale []float64
		more, compared := 0, 0
		for _, name := range a.traces(own) {
			r := a.row(name, own)
			found, most, stale = append(found, float64(r.Relevant)), append(most, float64(r.MaxDelay)), append(stale, float64(r.AbsDelay))
			if k := a.row(name, knowing); k != nil {
				part = append(part, 100*float64(r.Relevant)/float64(max(1, k.Relevant)))
			}
			if k := a.row(name, before); k != nil {
				compared++
				if float64(r.Relevant) >= 0.995*float64(k.Relevant) {
					more++
				}
			}
		}
		if before = own; len(found) == 0 {
			continue
		}
		mean := func(list []float64, digits int) string {
			m, _ := figure.MeanDeviation(list)
			return decimal(m, digits)
		}
		knows := " | | |"
		if len(part) > 0 {
			knows = fmt.Sprintf(" %s | %.1f | %.1f |", mean(part, 1), slices.Min(part), slices.Max(part))
		}
		fmt.Fprintf(w, "| %s | %d | %s |%s %d of %d | %.0f | %s |\n",
			seconds(b), len(found), mean(found, 0), knows, more, compared, slices.Max(most), mean(stale, 0))
	}
}

// pairedTest is the probability that the mean of some differences is as far from 0 as it is,
// if each could as well have the other sign: the exact permutation test of pairs. Of more than
// 16 differences it tries the first 16.
//
// Source: R. A. Fisher, "The design of experiments", 1935, section 21.
func pairedTest(differences []float64) float64 {
	differences = differences[:min(16, len(differences))]
	sum := func(signs int) (s float64) {
		for i, d := range differences {
			if signs>>i&1 == 1 {
				d = -d
			}
			s += d
		}
		return max(s, -s)
	}
	far, all := 0, 1<<len(differences)
	for signs := range all {
		if sum(signs) >= sum(0)-1e-9 {
			far++
		}
	}
	return float64(far) / float64(all)
}

// figures are, for a rule, the changes found and the longest delays by the budget.
func (a *Arena) figures(rule string) []figure.Figure {
	draw := func(name, title, unit string, of func(*Row) float64) figure.Figure {
		return figure.Figure{Name: "arena-" + name + "-" + rule, Caption: title, Make: func() (*plot.Plot, error) {
			p := figure.New(title+" ("+rule+")", "seconds a slot (logarithmic)", unit)
			figure.Logarithmic(&p.X)
			l := figure.Lines{Strong: registry.DefaultPolicy}
			for _, policy := range a.Policies {
				var points plotter.XYs
				for _, b := range a.Budgets {
					if list := a.column(Setup{Policy: policy, Budget: b, Rule: rule}, of); len(list) > 0 {
						m, _ := figure.MeanDeviation(list)
						points = append(points, plotter.XY{X: b.Seconds(), Y: m})
					}
				}
				if len(points) > 1 {
					if err := l.Add(short(policy), points); err != nil {
						return nil, err
					}
				}
			}
			l.AddTo(p)
			return figure.Padded(p), nil
		}}
	}
	return []figure.Figure{
		draw("found", "Changes found", "% of what is there to find",
			func(r *Row) float64 { return 100 * float64(r.Relevant) / float64(max(1, r.Relevant+r.AbsMiss)) }),
		draw("fresh", "Time in which results are fresh", "%", func(r *Row) float64 { return 100 * r.Fresh }),
	}
}
