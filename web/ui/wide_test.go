package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
)

// wideTable returns a result of n columns.
func wideTable(t testing.TB, n int, value string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	var vars []string
	var row []diff.Term
	for i := range n {
		vars = append(vars, fmt.Sprintf("v%d", i))
		row = append(row, diff.Term{Kind: diff.Literal, Value: value})
	}
	if err := b.SetVars(vars); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if err := b.Row(row...); err != nil {
			t.Fatal(err)
		}
	}
	res, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Pages show some columns of a wide result and the number of all columns: in the result, in changes
// and in differences.
func TestWideResults(t *testing.T) {
	r := newRig(t)
	q := r.history("wide", wideTable(t, 4000, "one"), wideTable(t, 4000, "two"))
	for _, at := range []string{queryPath(q.ID), queryPath(q.ID) + "/changes/2", queryPath(q.ID) + "?a=1&b=2"} {
		a := r.get(at).status(200).has("?v49<", "The first 50 of "+count(4000)+" columns are shown")
		if strings.Contains(a.body, "?v50<") || len(a.body) > 1<<20 {
			t.Errorf("%s: %d bytes", at, len(a.body))
		}
	}
}
