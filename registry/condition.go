package registry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// A Condition compares a variable's value with a constant: as numbers when both
// are numbers, as text otherwise. An unbound variable meets no condition. Value
// is a string, a number or a boolean.
type Condition struct {
	Var   string `json:"var"`
	Op    string `json:"op"`
	Value any    `json:"value"`
}

var operators = []string{"=", "!=", "<", "<=", ">", ">=", "contains", "starts"}

// Check says what is wrong with a condition.
func (c Condition) Check() error {
	if !slices.Contains(operators, c.Op) {
		return fmt.Errorf("op %q is not one of %s", c.Op, strings.Join(operators, ", "))
	}
	if _, ok := c.text(); !ok {
		return errors.New("value must be a string, a number or a boolean")
	}
	return nil
}

// text is the constant as it is compared with other texts.
func (c Condition) text() (string, bool) {
	switch v := c.Value.(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), !math.IsNaN(v)
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// Meets says whether a term meets the condition.
func (c Condition) Meets(t diff.Term) bool {
	if t.Kind == diff.Unbound {
		return false
	}
	text, _ := c.text()
	order := strings.Compare(t.Value, text)
	if a, ok := numeric(t.Value); ok {
		if b, ok := numeric(text); ok && c.comparable() {
			order = ordered(a, b)
		}
	}
	switch c.Op {
	case "=":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "contains":
		return strings.Contains(t.Value, text)
	}
	return strings.HasPrefix(t.Value, text)
}

// comparable says that the constant may be a number; a boolean is none.
func (c Condition) comparable() bool {
	_, truth := c.Value.(bool)
	return !truth
}

func numeric(s string) (float64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && n == n
}

func ordered(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TripleVars are the names by which conditions call the places of a triple.
var TripleVars = []string{"subject", "predicate", "object"}

// AskVar is the name by which conditions call the answer of an ASK query.
const AskVar = "boolean"

// Added says whether a change adds a row that meets all conditions. Of a graph
// the rows are triples, with the variables of TripleVars; of an ASK query the
// answer is the row, with the variable AskVar. Without conditions every change
// will do.
func Added(d *diff.Delta, where []Condition) bool {
	if len(where) == 0 {
		return true
	}
	if d.Form == diff.Ask {
		answer := diff.Term{Kind: diff.Literal, Value: strconv.FormatBool(d.Boolean)}
		return meetAll(where, []string{AskVar}, []diff.Term{answer})
	}
	vars := d.Vars
	if d.Form.Graph() {
		vars = TripleVars
	}
	return slices.ContainsFunc(d.Added, func(row []byte) bool {
		return meetAll(where, vars, diff.RowTerms(d.Form, d.Vars, row))
	})
}

func meetAll(where []Condition, vars []string, terms []diff.Term) bool {
	for _, c := range where {
		at := slices.Index(vars, c.Var)
		if at < 0 || at >= len(terms) || !c.Meets(terms[at]) {
			return false
		}
	}
	return true
}
