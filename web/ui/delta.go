package ui

import (
	"github.com/freshet/freshet/diff"
)

// A delta says in a few words what a change was.
type delta struct{ Plus, Minus, Rest string }

func deltaOf(d *diff.Delta, baseline bool) delta {
	if d == nil {
		return delta{}
	}
	rows := func(n int) string {
		if d.Form.Graph() {
			return plural(n, "triple", "triples")
		}
		return plural(n, "row", "rows")
	}
	switch {
	case d.Form == diff.Ask && baseline:
		return delta{Plus: word(d.Boolean), Rest: "first result"}
	case d.Form == diff.Ask:
		return delta{Plus: word(d.Boolean), Minus: "was " + word(d.Previous)}
	case baseline:
		return delta{Rest: "first result, " + rows(d.NewLen)}
	}
	out := delta{Rest: "of " + rows(max(d.NewLen, d.OldLen))}
	if n := len(d.Added); n > 0 {
		out.Plus = "+" + count(n)
	}
	if n := len(d.Removed); n > 0 {
		out.Minus = minus + count(n)
	}
	if d.Ordered {
		out.Rest = "ordered, " + rows(d.NewLen)
	}
	return out
}

func word(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
