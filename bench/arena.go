package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
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
	// Recorded has budgets by the names of traces for which Budgets are none.
	Recorded map[string][]time.Duration
	rows     []traced
	sums     map[string]string // by the names of traces: of their content
}

// Parts returns budgets for a recorded trace: a fortieth of what all queries take in a slot in the mean, and 2, 4, 8, 16 and 24
// times as much. They have two significant digits, and are at least a millisecond.
func Parts(t *trace.Trace) (out []time.Duration) {
	sum := time.Duration(0)
	for _, s := range NewSimulator(t).totals[1:] {
		sum += s.cost
	}
	for _, n := range []time.Duration{1, 2, 4, 8, 16, 24} {
		out = append(out, twoDigits(sum*n/40/time.Duration(max(1, t.Revisions))))
	}
	return slices.Compact(out)
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

// Competitors reads a list of policies, separated by commas, and returns each once, as it spells itself.
func Competitors(list string) (out []string, err error) {
	for _, spelling := range SplitPolicies(list) {
		p, err := scheduler.ParsePolicy(spelling)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, p.String()) {
			out = append(out, p.String())
		}
	}
	return out, nil
}

// Enter names a trace. It drops the rows of another one that had the name before, and returns their number.
func (a *Arena) Enter(name string, t *trace.Trace) int {
	if a.sums == nil {
		a.sums = map[string]string{}
	}
	sum, before := t.Sum(), len(a.rows)
	a.sums[name] = sum
	a.rows = slices.DeleteFunc(a.rows, func(r traced) bool { return r.Trace == name && r.Sum != sum })
	return before - len(a.rows)
}

// Drop drops the rows of some policies.
func (a *Arena) Drop(policies []string) {
	a.rows = slices.DeleteFunc(a.rows, func(r traced) bool { return slices.Contains(policies, r.Policy) })
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
	budgets := a.Budgets
	if own, has := a.Recorded[name]; has {
		budgets = own
	}
	for _, rule := range a.Rules {
		for _, b := range budgets {
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
		if r := &a.rows[i]; r.is(s) && r.Trace == name {
			return &r.Row
		}
	}
	return nil
}

// is reports whether a row is of a setup.
func (r *traced) is(s Setup) bool {
	return r.Policy == s.Policy && r.BudgetMS == s.Budget.Milliseconds() && r.Rule == s.Rule
}

// Run adds the missing rows of a trace.
func (a *Arena) Run(ctx context.Context, name string, t *trace.Trace, done func(Row)) error {
	return a.run(ctx, name, NewSimulator(t), done)
}

func (a *Arena) run(ctx context.Context, name string, w *Simulator, done func(Row)) error {
	rows, err := w.RunAll(ctx, a.Missing(name), done)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, r := range rows {
		a.rows = append(a.rows, traced{name, a.sums[name], r})
	}
	return nil
}

// Write writes arena.jsonl, which has all rows, arena.md, and for each rule a figure.
func (a *Arena) Write(dir string) error {
	var lines, text bytes.Buffer
	if err := figure.WriteLines(&lines, a.rows); err != nil {
		return err
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

// budgets lists all budgets, the smallest first.
func (a *Arena) budgets() []time.Duration {
	all := slices.Concat(a.Budgets, slices.Concat(slices.Collect(maps.Values(a.Recorded))...))
	slices.Sort(all)
	return slices.Compact(all)
}

// traces lists the names of the traces that have a row of a setup and of the default policy.
func (a *Arena) traces(s Setup) (out []string) {
	own := s
	own.Policy = registry.DefaultPolicy
	for i := range a.rows {
		if r := &a.rows[i]; r.is(s) && a.row(r.Trace, own) != nil {
			out = append(out, r.Trace)
		}
	}
	return out
}

// ofBound returns the changes found in per cent of the bound, NaN without one.
func ofBound(r *Row) float64 {
	if r.Bound == 0 {
		return math.NaN()
	}
	return 100 * float64(r.Relevant) / float64(r.Bound)
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
		{name: "% of bound", digits: 1, of: ofBound},
		{name: "stale", of: func(r *Row) float64 { return float64(r.AbsDelay) }},
		{name: "most", of: func(r *Row) float64 { return float64(r.MaxDelay) }},
		{name: "fresh %", digits: 2, of: func(r *Row) float64 { return 100 * r.Fresh }},
		{name: "age", digits: 1, of: func(r *Row) float64 { return r.Age }},
		{name: "req/found", digits: 1, of: func(r *Row) float64 { n, _ := r.PerChange(); return n }},
		{name: "s/found", digits: 2, of: func(r *Row) float64 { _, n := r.PerChange(); return n }},
	}
	for _, b := range a.budgets() {
		fmt.Fprintf(w, "\n### %s, %s\n\n| policy | traces |", rule, seconds(b))
		for _, c := range columns {
			fmt.Fprintf(w, " %s |", c.name)
		}
		fmt.Fprintf(w, " found by %s less this | p |\n|%s\n", registry.DefaultPolicy, strings.Repeat("---|", len(columns)+4))
		for _, p := range a.Policies {
			s := Setup{Policy: p, Budget: b, Rule: rule}
			names := a.traces(s)
			if len(names) == 0 {
				continue
			}
			fmt.Fprintf(w, "| `%s` | %d |", p, len(names))
			for _, c := range columns {
				m, d := figure.MeanDeviation(a.column(s, c.of))
				if math.IsNaN(m) {
					fmt.Fprint(w, " – |")
					continue
				}
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

// goals writes how near the default policy comes to one that knows how often each result changes, and to the best other one
// that an endpoint can run, on how many traces it finds at least 99.5 % of what it finds with the next smaller budget, and
// its delays.
func (a *Arena) goals(w io.Writer, rule string) {
	fmt.Fprintf(w, "\n## %s\n\n| budget | traces | found | %% of bound | %% of rates | from | to "+
		"| %% of best other | from | to | not less | most | stale |\n|%s\n", rule, strings.Repeat("---|", 13))
	before := map[string]*Row{} // by trace: with the next smaller budget
	for _, b := range a.budgets() {
		own := Setup{Policy: registry.DefaultPolicy, Budget: b, Rule: rule}
		var found, bound, known, best, most, stale []float64
		more, compared := 0, 0
		for _, name := range a.traces(own) {
			r := a.row(name, own)
			if r.Bound > 0 {
				bound = append(bound, ofBound(r))
			}
			found = append(found, float64(r.Relevant))
			most, stale = append(most, float64(r.MaxDelay)), append(stale, float64(r.AbsDelay))
			other := 0
			for _, p := range a.Policies {
				s := own
				if s.Policy = p; p == "rates" {
					if k := a.row(name, s); k != nil {
						known = append(known, 100*float64(r.Relevant)/float64(max(1, k.Relevant)))
					}
				} else if k := a.row(name, s); k != nil && !yardstick(p) && !ours(p) {
					other = max(other, k.Relevant)
				}
			}
			if other > 0 {
				best = append(best, 100*float64(r.Relevant)/float64(other))
			}
			if k := before[name]; k != nil {
				compared++
				if float64(r.Relevant) >= 0.995*float64(k.Relevant) {
					more++
				}
			}
			before[name] = r
		}
		if len(found) == 0 {
			continue
		}
		mean := func(list []float64, digits int) string {
			if len(list) == 0 {
				return "–"
			}
			m, _ := figure.MeanDeviation(list)
			return decimal(m, digits)
		}
		part := func(list []float64) string {
			if len(list) == 0 {
				return " | | |"
			}
			return fmt.Sprintf(" %s | %.1f | %.1f |", mean(list, 1), slices.Min(list), slices.Max(list))
		}
		fmt.Fprintf(w, "| %s | %d | %s | %s |%s%s %d of %d | %.0f | %s |\n",
			seconds(b), len(found), mean(found, 0), mean(bound, 1), part(known), part(best), more, compared, slices.Max(most), mean(stale, 0))
	}
}

// ours reports whether a policy is the default one, with any parameters.
func ours(policy string) bool {
	name, _, _ := strings.Cut(policy, ":")
	return name == registry.DefaultPolicy
}

// pairedTest is the probability that the mean of some differences is as far from 0 as it is,
// if each could as well have the other sign: the exact permutation test of pairs. Of more than
// 16 differences it tries 65,536 random combinations of signs, which are always the same.
//
// Source: R. A. Fisher, "The design of experiments", 1935, section 21.
func pairedTest(differences []float64) float64 {
	n := len(differences)
	sum := func(flips func(i int) bool) (s float64) {
		for i, d := range differences {
			if flips(i) {
				d = -d
			}
			s += d
		}
		return max(s, -s)
	}
	least := sum(func(int) bool { return false }) - 1e-9
	far, all := 0, 1<<min(n, 16)
	r := rand.New(rand.NewPCG(1, 2))
	for signs := range all {
		flips := func(i int) bool { return signs>>i&1 == 1 }
		if n > 16 {
			flips = func(int) bool { return r.Uint64()&1 == 1 }
		}
		if sum(flips) >= least {
			far++
		}
	}
	if n > 16 { // the given signs are one combination
		far, all = far+1, all+1
	}
	return float64(far) / float64(all)
}

// figures are, for a rule, the changes found and the longest delays by the budget.
func (a *Arena) figures(rule string) []figure.Figure {
	// limit is the same number of the bound, nil if there is none.
	draw := func(name, title, unit string, of, limit func(*Row) float64) figure.Figure {
		return figure.Figure{Name: "arena-" + name + "-" + rule, Caption: title, Make: func() (*plot.Plot, error) {
			p := figure.New(title+" ("+rule+")", "seconds a slot (logarithmic)", unit)
			figure.Logarithmic(&p.X)
			l := figure.Lines{Strong: registry.DefaultPolicy}
			line := func(name, policy string, of func(*Row) float64) error {
				var points plotter.XYs
				for _, b := range a.budgets() {
					if m, _ := figure.MeanDeviation(a.column(Setup{Policy: policy, Budget: b, Rule: rule}, of)); !math.IsNaN(m) {
						points = append(points, plotter.XY{X: b.Seconds(), Y: m})
					}
				}
				if len(points) < 2 {
					return nil
				}
				return l.Add(name, points)
			}
			for _, policy := range a.Policies {
				if err := line(short(policy), policy, of); err != nil {
					return nil, err
				}
			}
			if limit != nil {
				if err := line("bound", registry.DefaultPolicy, limit); err != nil {
					return nil, err
				}
			}
			l.AddTo(p)
			return figure.Padded(p), nil
		}}
	}
	share := func(n int, r *Row) float64 { return 100 * float64(n) / float64(max(1, r.Relevant+r.AbsMiss)) }
	return []figure.Figure{
		draw("found", "Changes found", "% of what is there to find", func(r *Row) float64 { return share(r.Relevant, r) },
			func(r *Row) float64 {
				if r.Bound == 0 {
					return math.NaN()
				}
				return share(r.Bound, r)
			}),
		draw("fresh", "Time in which results are fresh", "%", func(r *Row) float64 { return 100 * r.Fresh }, nil),
	}
}
