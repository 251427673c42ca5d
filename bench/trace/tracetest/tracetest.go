// Package tracetest makes traces for tests.
package tracetest

import (
	"pgregory.net/rapid"

	"github.com/freshet/freshet/bench/trace"
)

// Draw draws a small trace. Versions repeat and come back.
func Draw(t *rapid.T) *trace.Trace {
	n, revs := rapid.IntRange(1, 6).Draw(t, "queries"), rapid.IntRange(1, 20).Draw(t, "revisions")
	tr := &trace.Trace{Queries: n, Revisions: revs, Ordered: rapid.Bool().Draw(t, "ordered")}
	for range revs + 1 {
		row := make([]int32, n)
		for q := range row {
			row[q] = int32(rapid.IntRange(1, 9).Draw(t, "ms")) * 100
		}
		tr.Times = append(tr.Times, row)
	}
	rows := rapid.SliceOfN(rapid.Int64Range(0, 2), 0, 3)
	for q := range n {
		if rapid.Bool().Draw(t, "constant") {
			continue
		}
		s := trace.Series{Query: q, Versions: []trace.Version{{Rows: rows.Draw(t, "initial")}}}
		for rev := 1; rev <= revs; rev++ {
			if rapid.IntRange(0, 2).Draw(t, "changes") == 0 {
				s.Versions = append(s.Versions, trace.Version{Rev: rev, Rows: rows.Draw(t, "rows")})
			}
		}
		tr.Series = append(tr.Series, s)
	}
	if err := tr.Seal(); err != nil {
		t.Fatal(err)
	}
	return tr
}

// Small describes a small dataset of so many queries and revisions.
func Small(queries, revisions int) trace.Target {
	return trace.Target{
		Queries: queries, Forms: map[string]int{"ASK": 3, "SELECT": queries - 3}, Revisions: revisions, Empty: revisions / 6, Changing: 16,
		Changes: 150, Once: 4, Twice: 3, Most: revisions * 2 / 3, Crowd: 10, Interval: 4, Deviation: 7,
		Total: [2]float64{60, 120}, Affected: 30, Burst: [2]int{10, 20},
	}
}
