package diff_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/diff/growth"
)

func blankNode(format string, args ...any) diff.Term {
	return diff.Term{Kind: diff.Blank, Value: fmt.Sprintf(format, args...)}
}

func resource(format string, args ...any) diff.Term {
	return diff.Term{Kind: diff.IRI, Value: fmt.Sprintf("http://x/"+format, args...)}
}

// columns returns the variables of a wide result.
func columns(n int) []string {
	vars := make([]string, n)
	for i := range vars {
		vars[i] = fmt.Sprint("v", i)
	}
	return vars
}

// A hostile is a shape of rows or triples that is hard to label.
type hostile struct {
	form    diff.Form
	options diff.Options
	least   int // number of nodes of the smallest instance
	rows    func(n int) (vars []string, rows [][]diff.Term)
}

var hostileGraphs = map[string]hostile{
	"one wide row": {diff.Select, diff.Options{}, 1000, func(n int) ([]string, [][]diff.Term) {
		row := make([]diff.Term, n)
		for i := range row {
			row[i] = blankNode("%d", i)
		}
		return columns(n), [][]diff.Term{row}
	}},
	"one node in a wide row": {diff.Select, diff.Options{}, 1000, func(n int) ([]string, [][]diff.Term) {
		row := make([]diff.Term, n)
		for i := range row {
			row[i] = blankNode("%d", i%2*i)
		}
		return columns(n), [][]diff.Term{row}
	}},
	"wide rows that share nodes": {diff.Select, diff.Options{}, 1000, func(n int) ([]string, [][]diff.Term) {
		rows := make([][]diff.Term, 3)
		for i := range rows {
			for k := range n {
				rows[i] = append(rows[i], blankNode("%d", (k+i)%n))
			}
		}
		return columns(n), rows
	}},
	"wide rows that mirror each other": {diff.Select, diff.Options{Ordered: true, OrderKeys: []string{"v0"}}, 500,
		func(n int) ([]string, [][]diff.Term) {
			rows := make([][]diff.Term, 2)
			for k := range n {
				rows[0] = append(rows[0], blankNode("%d", k))
				rows[1] = append(rows[1], blankNode("%d", n-1-k))
			}
			for i := range rows {
				rows[i][0] = resource("tie")
			}
			return columns(n), rows
		}},
	"many rows of many nodes": {diff.Select, diff.Options{}, 10, func(n int) ([]string, [][]diff.Term) {
		var rows [][]diff.Term
		for i := range n {
			row := []diff.Term{resource("%d", i)}
			for k := range 100 {
				row = append(row, blankNode("%d.%d", i, k))
			}
			rows = append(rows, row)
		}
		return columns(101), rows
	}},
	"a star": {diff.Construct, diff.Options{}, 250, func(n int) ([]string, [][]diff.Term) {
		var rows [][]diff.Term
		for i := range n {
			rows = append(rows, []diff.Term{blankNode("hub"), resource("p"), blankNode("%d", i)})
		}
		return nil, rows
	}},
	"a ring": {diff.Construct, diff.Options{}, 500, func(n int) ([]string, [][]diff.Term) {
		var rows [][]diff.Term
		for i := range n {
			rows = append(rows, []diff.Term{blankNode("%d", i), resource("p"), blankNode("%d", (i+1)%n)})
		}
		return nil, rows
	}},
	"long literals between nodes": {diff.Select, diff.Options{}, 100, func(n int) ([]string, [][]diff.Term) {
		long := diff.Term{Kind: diff.Literal, Value: strings.Repeat("x", 4000)}
		var rows [][]diff.Term
		for i := range n {
			rows = append(rows, []diff.Term{blankNode("%d", i), long, blankNode("%d", (i+1)%n), blankNode("%d", (i+2)%n)})
		}
		return columns(4), rows
	}},
	"a complete graph": {diff.Construct, diff.Options{}, 12, func(n int) ([]string, [][]diff.Term) {
		var rows [][]diff.Term
		for i := range n * n {
			if i/n != i%n {
				rows = append(rows, []diff.Term{blankNode("%d", i/n), resource("p"), blankNode("%d", i%n)})
			}
		}
		return nil, rows
	}},
}

// The cost of labelling blank nodes grows linearly with the size of a result, whatever
// its structure.
func TestLongLabellingIsNotQuadratic(t *testing.T) {
	for name, h := range hostileGraphs {
		t.Run(name, func(t *testing.T) {
			growth.Check(t, growth.Sizes(h.least/2, func(n int) growth.Input {
				vars, rows := h.rows(n)
				b := build(t, h, vars, rows)
				return growth.Input{Size: b.Size(), Work: func() { build(t, h, vars, rows) }}
			})...)
		})
	}
}

func build(t testing.TB, h hostile, vars []string, rows [][]diff.Term) *diff.Result {
	b := diff.NewBuilder(h.form, h.options)
	if h.form == diff.Select {
		if err := b.SetVars(vars); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range rows {
		if h.form == diff.Select {
			_ = b.Row(row...)
		} else {
			_ = b.Triple(row[0], row[1], row[2])
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Labels of rows with many nodes depend neither on the received labels nor on the order
// of the rows.
func TestWideRowsAreCanonical(t *testing.T) {
	for name, h := range hostileGraphs {
		if h.form != diff.Select {
			continue
		}
		t.Run(name, func(t *testing.T) {
			vars, rows := h.rows(40)
			other := make([][]diff.Term, len(rows))
			for i, row := range rows {
				to := i
				if !h.options.Ordered {
					to = len(rows) - 1 - i
				}
				for _, x := range row {
					if x.Kind == diff.Blank {
						x.Value = "other" + x.Value
					}
					other[to] = append(other[to], x)
				}
			}
			a, b := build(t, h, vars, rows), build(t, h, vars, other)
			if !bytes.Equal(a.Document(), b.Document()) {
				t.Errorf("approximate %t\n%.2000s\n%.2000s", a.Approximate(), a.Document(), b.Document())
			}
		})
	}
}

// Rows of results JSON may differ in every property that the decoder learns.
func TestLongDecodingJSONIsNotQuadratic(t *testing.T) {
	const document = `{"head":{"vars":[%s]},"results":{"bindings":[%s]}}`
	for name, c := range map[string]struct {
		least   int
		options diff.Options
		body    func(n int) (vars, rows []string)
	}{
		"variables and empty rows": {5000, diff.Options{}, func(n int) (vars, rows []string) {
			for i := range n {
				vars, rows = append(vars, fmt.Sprintf(`"v%d"`, i)), append(rows, "{}")
			}
			return vars, rows
		}},
		"keys and empty rows": {5000, diff.Options{Ordered: true, OrderKeys: columns(10000)}, func(n int) (vars, rows []string) {
			for i := range 10000 {
				vars = append(vars, fmt.Sprintf(`"v%d"`, i))
			}
			for range n * 20 {
				rows = append(rows, "{}")
			}
			return vars, rows
		}},
		"a row with everything bound": {2000, diff.Options{Ordered: true, OrderKeys: columns(2000)}, func(n int) (vars, rows []string) {
			var row []string
			for i := range n {
				vars = append(vars, fmt.Sprintf(`"v%d"`, i))
				row = append(row, fmt.Sprintf(`"v%d":{"type":"literal","value":"x"}`, n-1-i))
			}
			all := "{" + strings.Join(row, ",") + "}"
			return vars, []string{all, all}
		}},
		"the same empty row": {20000, diff.Options{}, func(n int) (vars, rows []string) {
			return []string{`"v"`}, slices.Repeat([]string{"{}"}, n)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			growth.Check(t, growth.Sizes(c.least, func(n int) growth.Input {
				vars, rows := c.body(n)
				body := fmt.Appendf(nil, document, strings.Join(vars, ","), strings.Join(rows, ","))
				return growth.Input{Size: len(body), Work: func() {
					if _, err := diff.DecodeJSON(body, diff.Select, c.options); err != nil {
						t.Fatal(err)
					}
				}}
			})...)
		})
	}
}

// Comparing is not quadratic in the number of repetitions of a row, nor in the changes
// to the order of rows.
func TestLongComparingIsNotQuadratic(t *testing.T) {
	for name, row := range map[string]func(i, n int, new bool) int{
		"one row, repeated": func(_, _ int, new bool) int {
			if new {
				return 1
			}
			return 0
		},
		"half of them": func(i, n int, new bool) int {
			if new && i < n/2 {
				return 1
			}
			return 0
		},
		"reversed": func(i, n int, new bool) int {
			if new {
				return n - i
			}
			return i
		},
		"two in turn": func(i, n int, new bool) int {
			if new {
				return i % 2
			}
			return i / (n/2 + 1)
		},
	} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ordered=%t", name, ordered), func(t *testing.T) {
				growth.Check(t, growth.Sizes(1000, func(n int) growth.Input {
					make := func(new bool) *diff.Result {
						var rows [][]diff.Term
						for i := range n {
							rows = append(rows, []diff.Term{resource("%d", row(i, n, new))})
						}
						return build(t, hostile{form: diff.Select, options: diff.Options{Ordered: ordered}}, []string{"v"}, rows)
					}
					return growth.Input{Size: make(false).Size() + make(true).Size(), Work: func() { diff.Compare(make(false), make(true)) }}
				})...)
			})
		}
	}
}
