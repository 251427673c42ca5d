package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler"
)

// Ablations returns the spellings of hybrid, of hybrid without each of its parts,
// and of the policies to compare with. All forms of hybrid have the same longest wait,
// except the one without it.
func Ablations(hybrid string) []string {
	out := []string{hybrid}
	for _, d := range scheduler.Policies() {
		if d.Name != "hybrid" {
			continue
		}
		for _, p := range d.Params {
			for _, form := range p.Values[min(1, len(p.Values)):] { // the first leaves nothing out
				out = append(out, hybrid+":"+form)
			}
		}
	}
	return append(out, "rr", "cr:lambda=0", "dj", "ttl:max=32:reset", "ttl:max=256:half", "sqrt", "cv")
}

// An Ablation compares policies over several traces.
type Ablation struct {
	Traces   []string
	Policies []string
	Rows     [][]Row // by trace, then by policy
}

// Ablate runs each policy over one more trace.
func (a *Ablation) Ablate(ctx context.Context, name string, t *trace.Trace, budget time.Duration, rule string, done func(Row)) error {
	var setups []Setup
	for _, p := range a.Policies {
		setups = append(setups, Setup{Policy: p, Budget: budget, Rule: rule})
	}
	rows, err := NewSimulator(t).RunAll(ctx, setups, done)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.Traces, a.Rows = append(a.Traces, name), append(a.Rows, rows)
	return nil
}

// WriteTable writes a line for each policy. For each trace it has the changes found
// and the slots for which results were stale, in total and at most. A star marks the
// policy that found most, the clairvoyant policy excluded.
func (a *Ablation) WriteTable(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprint(tab, "policy")
	best := make([]int, len(a.Traces))
	for i, name := range a.Traces {
		all := a.Rows[i][0].Relevant + a.Rows[i][0].AbsMiss
		fmt.Fprintf(tab, "\t%s: found of %d\tstale\tat most", name, all)
		best[i] = slices.IndexFunc(a.Rows[i], func(r Row) bool { return r.Relevant == mostFound(a.Rows[i]) && r.Policy != clairvoyant })
	}
	fmt.Fprintln(tab)
	for p, policy := range a.Policies {
		fmt.Fprint(tab, policy)
		for i := range a.Traces {
			r, star := &a.Rows[i][p], ""
			if p == best[i] {
				star = " *"
			}
			fmt.Fprintf(tab, "\t%d%s\t%d\t%d", r.Relevant, star, r.AbsDelay, r.MaxDelay)
		}
		fmt.Fprintln(tab)
	}
	return tab.Flush()
}

func mostFound(rows []Row) (n int) {
	for _, r := range rows {
		if r.Policy != clairvoyant {
			n = max(n, r.Relevant)
		}
	}
	return n
}

// WriteJSON writes one object a line: a Row with the name of its trace.
func (a *Ablation) WriteJSON(w io.Writer) error { return writeTraced(w, a.Traces, a.Rows) }
