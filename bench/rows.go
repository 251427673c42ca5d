package bench

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/freshet/freshet/bench/figure"
)

// RunAll runs several setups, as many at a time as there are processors, and returns
// their rows with bounds in the order of the setups. It calls done after each setup, one call at
// a time.
func (w *Simulator) RunAll(ctx context.Context, setups []Setup, done func(Row)) ([]Row, error) {
	for _, s := range setups {
		if err := s.Check(); err != nil {
			return nil, err
		}
	}
	rows := make([]Row, len(setups))
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range setups {
		all.Go(func() error {
			row, err := w.Run(ctx, s)
			if err != nil {
				return fmt.Errorf("%s, budget %s: %w", s.Policy, s.Budget, err)
			}
			mu.Lock()
			defer mu.Unlock()
			rows[i] = row
			done(row)
			return nil
		})
	}
	err := all.Wait()
	if err == nil {
		w.setBounds(rows)
	}
	return rows, err
}

// WriteCSV writes rows with the columns of WriteTable, and all digits.
func WriteCSV(w io.Writer, rows []Row) error {
	lines := [][]string{{"policy", "budget_ms", "rule", "merge", "requests", "bound"}}
	for _, k := range tableColumns {
		lines[0] = append(lines[0], k.name)
	}
	for _, r := range rows {
		line := []string{r.Policy, strconv.FormatInt(r.BudgetMS, 10), r.Rule, r.Merge, strconv.Itoa(cmp.Or(r.Requests, r.Total)),
			strings.TrimPrefix(strconv.Itoa(r.Bound), "0")}
		for _, k := range tableColumns {
			line = append(line, strconv.FormatFloat(k.of(&r), 'g', -1, 64))
		}
		lines = append(lines, line)
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// WriteTable writes rows as a text table with the columns of a study. Rows that say how
// requests are merged have two more columns. Below are the bounds.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	merges := slices.ContainsFunc(rows, func(r Row) bool { return r.Merge != "" })
	fmt.Fprint(t, "policy\tbudget\t")
	if merges {
		fmt.Fprint(t, "merge\trequests\t")
	}
	for _, k := range tableColumns {
		fmt.Fprint(t, k.name, "\t")
	}
	fmt.Fprintln(t)
	for i := range rows {
		fmt.Fprintf(t, "%s\t%g s\t", rows[i].Policy, float64(rows[i].BudgetMS)/1000)
		if merges {
			fmt.Fprintf(t, "%s\t%s\t", rows[i].Merge, figure.Thousands(cmp.Or(rows[i].Requests, rows[i].Total)))
		}
		for _, k := range tableColumns {
			fmt.Fprint(t, decimal(k.of(&rows[i]), k.digits), "\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	said := map[string]bool{}
	for _, r := range rows {
		line := fmt.Sprintf("No schedule finds more than %s changes with %g s a slot (%s).\n", figure.Thousands(r.Bound),
			float64(r.BudgetMS)/1000, r.Rule)
		if r.Bound > 0 && !said[line] {
			fmt.Fprint(w, line)
			said[line] = true
		}
	}
	return nil
}

// SplitPolicies splits a list of spellings at its commas. A comma before a digit is
// part of a spelling.
func SplitPolicies(list string) []string {
	var out []string
	for _, word := range strings.Split(list, ",") {
		word = strings.TrimSpace(word)
		if n := len(out); n > 0 && word != "" && word[0] >= '0' && word[0] <= '9' {
			out[n-1] += "," + word
			continue
		}
		out = append(out, word)
	}
	return out
}
