package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/bench/figure"
)

// A tableColumn is one column of a study's tables.
type tableColumn struct {
	name, meaning string
	digits        int
	best          int // 1: the largest is best, -1: the smallest, 0: neither
	of            func(*Row) float64
	paper         func(*Reference) float64 // negative if it is not given; nil: the paper has no such column
}

func count(n int) float64 { return float64(n) }

// tableColumns are the columns of the paper, followed by ours.
var tableColumns = []tableColumn{
	{"total", "complete executions", 0, 0, func(r *Row) float64 { return count(r.Total) },
		func(r *Reference) float64 { return count(r.Total) }},
	{"irrelevant", "executions that found the result they had before", 0, 0, func(r *Row) float64 { return count(r.Irrelevant) },
		func(r *Reference) float64 { return count(r.Total - r.Relevant) }},
	{"relevant", "executions that found a change", 0, 1, func(r *Row) float64 { return count(r.Relevant) },
		func(r *Reference) float64 { return count(r.Relevant) }},
	{"eff. %", "effectivity: relevant of total", 2, 1, func(r *Row) float64 { return 100 * r.Effectivity },
		func(r *Reference) float64 { return 100 * count(r.Relevant) / max(1, count(r.Total)) }},
	{"abs delay", "slots during which results were stale, summed over all results", 0, -1,
		func(r *Row) float64 { return count(r.AbsDelay) }, func(r *Reference) float64 { return count(r.AbsDelay) }},
	{"max delay", "the longest of these, in slots", 0, -1, func(r *Row) float64 { return count(r.MaxDelay) },
		func(r *Reference) float64 { return count(r.MaxDelay) }},
	{"abs miss", "changes that no execution found, because a later change came first", 0, -1,
		func(r *Row) float64 { return count(r.AbsMiss) }, func(r *Reference) float64 { return count(r.AbsMiss) }},
	{"max miss", "most changes of one query missed in a row", 0, -1, func(r *Row) float64 { return count(r.MaxMiss) },
		func(r *Reference) float64 { return count(r.MaxMiss) }},
	{"distinct", "queries that were executed at least once", 0, 0, func(r *Row) float64 { return count(r.Distinct) }, nil},
	{"cut", "executions ended by the budget, in no other column", 0, 0, func(r *Row) float64 { return count(r.Cut) }, nil},
	{"used s", "seconds that all executions took", 0, 0, func(r *Row) float64 { return r.Used }, nil},
	{"age", "slots since a result was last fetched, the mean over all results and slots", 1, -1, func(r *Row) float64 { return r.Age }, nil},
	{"fresh %", "share of the slots in which a result was current, the mean over the results that change", 2, 1,
		func(r *Row) float64 { return 100 * r.Fresh }, nil},
	{"req/found", "requests for each change found", 1, -1, func(r *Row) float64 { n, _ := r.PerChange(); return n }, nil},
	{"ms/found", "milliseconds of requests for each change found", 1, -1, func(r *Row) float64 {
		_, s := r.PerChange()
		return 1000 * s
	}, nil},
	{"over s", "most seconds beyond the budget in one slot", 1, 0, func(r *Row) float64 { return r.MaxOverrun }, nil},
}

// isBest reports whether no row has a better value of a column, the yardsticks left out, which no endpoint can run.
func (m tableColumn) isBest(r *Row, all []*Row) bool {
	return m.best != 0 && !yardstick(r.Policy) && !slices.ContainsFunc(all, func(o *Row) bool {
		return !yardstick(o.Policy) && float64(m.best)*m.of(o) > float64(m.best)*m.of(r)
	})
}

// decimal writes a number with commas and so many decimal places.
func decimal(v float64, digits int) string {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', digits, 64), ".")
	n, err := strconv.Atoi(whole)
	if err != nil {
		return whole
	}
	if fraction == "" {
		return figure.Thousands(n)
	}
	return figure.Thousands(n) + "." + fraction
}

// percentDifference writes by how many per cent a value differs from another one.
func percentDifference(v, from float64) string {
	if from <= 0 || v == from {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(v/from-1))
}

// traced is a row with its trace.
type traced struct {
	Trace string `json:"trace"` // its name
	Sum   string `json:"sum,omitempty"`
	Row
}
