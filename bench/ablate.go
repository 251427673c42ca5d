package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler"
)

// Ablations are hybrid as it is, hybrid with one part left out each, and the
// policies to compare with, as they are spelled. Deadlines are the same
// throughout, except in the form without deadlines.
func Ablations(deadlines string) []string {
	out := []string{deadlines}
	for _, d := range scheduler.Policies() {
		if d.Name != "hybrid" {
			continue
		}
		for _, p := range d.Params {
			for _, form := range p.Values[min(1, len(p.Values)):] { // the first leaves nothing out
				out = append(out, deadlines+":"+form)
			}
		}
	}
	return append(out, "rr", "cr:lambda=0", "dj", "ttl:max=32:reset", "ttl:max=256:half", "sqrt", "cv")
}

// An Ablation compares policies over several traces, by what Row has of each.
type Ablation struct {
	Traces   []string
	Policies []string
	Rows     [][]Row // by trace, then by policy
}

// Ablate plays each policy over one more trace.
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

// WriteTable writes a line for each policy, and for each trace how many changes
// it found, of how many there are, how long results were stale in all and at
// most, in slots. The policy that found most, apart from the clairvoyant, has a
// star.
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

// WriteJSON writes one object a line: a Row with the trace's name.
func (a *Ablation) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	for i, name := range a.Traces {
		for _, r := range a.Rows[i] {
			if err := e.Encode(traced{name, r}); err != nil {
				return err
			}
		}
	}
	return nil
}
