package bench

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := make([]Row, len(setups))
	next := make(chan int)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range min(len(setups), runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := range next {
				row, err := w.Run(ctx, setups[i])
				mu.Lock()
				rows[i] = row
				if err != nil && failed == nil {
					failed = fmt.Errorf("%s, budget %s: %w", setups[i].Policy, setups[i].Budget, err)
					cancel()
				} else if err == nil {
					done(row)
				}
				mu.Unlock()
			}
		})
	}
	for i := range setups {
		next <- i
	}
	close(next)
	wait.Wait()
	if failed == nil {
		w.setBounds(rows)
	}
	return rows, failed
}

// WriteRows writes rows as JSON, one object a line.
func WriteRows(w io.Writer, rows []Row) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// rowColumns are the columns of the CSV, in the order of the JSON members.
var rowColumns = []struct {
	name string
	get  func(*Row) string
}{
	{"policy", func(r *Row) string { return r.Policy }},
	{"params", func(r *Row) string { return spellParams(r.Params) }},
	{"budget_ms", func(r *Row) string { return strconv.FormatInt(r.BudgetMS, 10) }},
	{"rule", func(r *Row) string { return r.Rule }},
	{"total", func(r *Row) string { return strconv.Itoa(r.Total) }},
	{"relevant", func(r *Row) string { return strconv.Itoa(r.Relevant) }},
	{"irrelevant", func(r *Row) string { return strconv.Itoa(r.Irrelevant) }},
	{"effectivity", func(r *Row) string { return number(r.Effectivity) }},
	{"abs_delay", func(r *Row) string { return strconv.Itoa(r.AbsDelay) }},
	{"max_delay", func(r *Row) string { return strconv.Itoa(r.MaxDelay) }},
	{"abs_delay_detected", func(r *Row) string { return strconv.Itoa(r.AbsDelayDetected) }},
	{"max_delay_detected", func(r *Row) string { return strconv.Itoa(r.MaxDelayDetected) }},
	{"abs_miss", func(r *Row) string { return strconv.Itoa(r.AbsMiss) }},
	{"max_miss", func(r *Row) string { return strconv.Itoa(r.MaxMiss) }},
	{"distinct", func(r *Row) string { return strconv.Itoa(r.Distinct) }},
	{"cut", func(r *Row) string { return strconv.Itoa(r.Cut) }},
	{"failed", func(r *Row) string { return strconv.Itoa(r.Failed) }},
	{"used", func(r *Row) string { return number(r.Used) }},
	{"max_overrun", func(r *Row) string { return number(r.MaxOverrun) }},
	{"max_debt", func(r *Row) string { return number(r.MaxDebt) }},
	{"merge", func(r *Row) string { return r.Merge }},
	{"requests", func(r *Row) string { return strconv.Itoa(cmp.Or(r.Requests, r.Total)) }},
	{"age", func(r *Row) string { return number(r.Age) }},
	{"fresh", func(r *Row) string { return number(r.Fresh) }},
	{"requests_per_change", func(r *Row) string { n, _ := r.PerChange(); return number(n) }},
	{"seconds_per_change", func(r *Row) string { _, s := r.PerChange(); return number(s) }},
	{"bound", func(r *Row) string { return strings.TrimPrefix(strconv.Itoa(r.Bound), "0") }},
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// spellParams lists parameters as name=value, sorted by name.
func spellParams(params map[string]any) string {
	var list []string
	for name, v := range params {
		list = append(list, fmt.Sprint(name, "=", v))
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}

// WriteCSV writes rows below their column names, without schedules.
func WriteCSV(w io.Writer, rows []Row) error {
	c := csv.NewWriter(w)
	head := make([]string, len(rowColumns))
	for i, k := range rowColumns {
		head[i] = k.name
	}
	if err := c.Write(head); err != nil {
		return err
	}
	for _, r := range rows {
		line := make([]string, len(rowColumns))
		for i, k := range rowColumns {
			line[i] = k.get(&r)
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
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
