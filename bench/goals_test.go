package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// Goals are what the default policy should reach on traces that its constants were
// not chosen on:
//
//   - A larger budget finds at least 99.5 % of what each smaller one finds.
//   - It finds at least 99 % of the best other policy, except the clairvoyant one.
//   - The longest delay is at most 320 slots from 7 s per slot.
//   - Under the rule strict, it finds at least 88 % of the clairvoyant policy with 10 s
//     per slot, and 97 % with 20 s.
type Goals struct {
	Policies []string // to compare with
	Budgets  []time.Duration
	Rules    []string
	Merge    string // registry.Endpoint.Merge of all but the clairvoyant policy, empty is off
	Traces   []string
	Rows     [][]Row // by trace; for each rule and budget the default policy, then Policies
}

const (
	goalMore    = 0.995
	goalBest    = 0.99
	goalDelay   = 320
	delayBudget = 7 * time.Second
)

// goalClairvoyant is the part of the clairvoyant policy's changes to find, by budget.
var goalClairvoyant = map[time.Duration]float64{10 * time.Second: 0.88, 20 * time.Second: 0.97}

// Setups lists the simulations of one trace.
func (g *Goals) Setups() (all []Setup) {
	for _, rule := range g.Rules {
		for _, b := range g.Budgets {
			for _, p := range append([]string{registry.DefaultPolicy}, g.Policies...) {
				s := Setup{Policy: p, Budget: b, Rule: rule, Merge: g.Merge}
				if p == clairvoyant { // what it executes has changed, which no merged request confirms
					s.Merge = ""
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// Add runs all policies over one more trace.
func (g *Goals) Add(ctx context.Context, name string, t *trace.Trace, done func(Row)) error {
	rows, err := NewSimulator(t).RunAll(ctx, g.Setups(), done)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	g.Traces, g.Rows = append(g.Traces, name), append(g.Rows, rows)
	return nil
}

// A goalLine is one budget under one rule: the fractions reached on each trace.
type goalLine struct {
	found                    []int
	best, cv                 []float64 // of the best other policy and of the clairvoyant one
	delay                    int       // the longest of all traces
	more, close, near, bound int       // traces that reach a goal
}

// line summarises the traces for a rule and a budget, by their indexes.
func (g *Goals) line(rule, budget int) (l goalLine) {
	group := 1 + len(g.Policies)
	at := func(rows []Row, b int) []Row {
		i := (rule*len(g.Budgets) + b) * group
		return rows[i : i+group]
	}
	for _, rows := range g.Rows {
		own, others, most := at(rows, budget)[0], at(rows, budget)[1:], 0
		l.found, l.delay = append(l.found, own.Relevant), max(l.delay, own.MaxDelay)
		for b := range budget {
			most = max(most, at(rows, b)[0].Relevant)
		}
		l.more += one(float64(own.Relevant) >= goalMore*float64(most))
		best := float64(own.Relevant) / float64(max(1, mostFound(others)))
		l.best = append(l.best, best)
		l.close += one(best >= goalBest)
		l.bound += one(own.MaxDelay <= goalDelay || g.Budgets[budget] < delayBudget)
		if i := slices.IndexFunc(others, func(r Row) bool { return r.Policy == clairvoyant }); i >= 0 {
			cv := float64(own.Relevant) / float64(max(1, others[i].Relevant))
			l.cv = append(l.cv, cv)
			l.near += one(cv >= goalClairvoyant[g.Budgets[budget]])
		}
	}
	return l
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// WriteTable writes a line for each rule and budget: the mean of the changes found, the
// smallest and the largest percentage of the best other policy and of the clairvoyant
// one, the longest delay, and on how many traces each goal is reached.
func (g *Goals) WriteTable(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tab, "rule\tbudget\tfound\tmore\t% of best\treached\t% of cv\treached\tlongest\treached")
	for r, rule := range g.Rules {
		for b, budget := range g.Budgets {
			l, of := g.line(r, b), len(g.Traces)
			fmt.Fprintf(tab, "%s\t%s\t%d\t%d/%d\t%s\t%d/%d", rule, budget, mean(l.found), l.more, of, percents(l.best), l.close, of)
			fmt.Fprintf(tab, "\t%s", percents(l.cv))
			if goalClairvoyant[budget] > 0 && rule == plan.RuleStrict && len(l.cv) > 0 {
				fmt.Fprintf(tab, "\t%d/%d", l.near, of)
			} else {
				fmt.Fprint(tab, "\t")
			}
			fmt.Fprintf(tab, "\t%d\t%d/%d\n", l.delay, l.bound, of)
		}
	}
	return tab.Flush()
}

func mean(list []int) (sum int) {
	for _, n := range list {
		sum += n
	}
	return sum / max(1, len(list))
}

// percents writes the smallest and the largest of some fractions.
func percents(list []float64) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f–%.1f", 100*slices.Min(list), 100*slices.Max(list))
}

// mostFound is the most changes that a policy without knowledge of the future finds.
func mostFound(rows []Row) (n int) {
	for _, r := range rows {
		if r.Policy != clairvoyant {
			n = max(n, r.Relevant)
		}
	}
	return n
}
