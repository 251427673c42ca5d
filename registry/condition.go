package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// A Condition compares the value of a variable with a constant: as numbers if
// both are numbers, else as text. An unbound variable meets no condition. Value
// is a string, a number or a boolean. What is not a number meets no comparison with a number,
// except !=. A json.Number may have any number of digits.
type Condition struct {
	Var   string `json:"var"`
	Op    string `json:"op"`
	Value any    `json:"value"`
}

var operators = []string{"=", "!=", "<", "<=", ">", ">=", "contains", "starts"}

// Check returns an error if the condition is invalid.
func (c Condition) Check() error {
	if !slices.Contains(operators, c.Op) {
		return fmt.Errorf("op %q is not one of %s", c.Op, strings.Join(operators, ", "))
	}
	if _, ok := c.text(); !ok {
		return errors.New("value must be a string, a number or a boolean")
	}
	return nil
}

// text is the constant as text; false if Value has another type.
func (c Condition) text() (string, bool) {
	switch v := c.Value.(type) {
	case string:
		return v, true
	case json.Number:
		return string(v), isNumber(string(v))
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), !math.IsNaN(v)
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// Meets reports whether a term meets the condition.
func (c Condition) Meets(t diff.Term) bool {
	if t.Kind == diff.Unbound {
		return false
	}
	text, _ := c.text()
	switch c.Op {
	case "contains":
		return strings.Contains(t.Value, text)
	case "starts":
		return strings.HasPrefix(t.Value, text)
	}
	order := strings.Compare(t.Value, text)
	if value, ok := numberOf(t); ok && c.comparable() && isNumber(text) {
		order = compareNumbers(value, text)
	} else if c.number() {
		return c.Op == "!="
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
	}
	return order >= 0
}

// number reports whether the constant is a number, and not the text of one.
func (c Condition) number() bool {
	switch c.Value.(type) {
	case float64, json.Number:
		return true
	}
	return false
}

// comparable reports whether the constant may be a number, which a boolean is
// not.
func (c Condition) comparable() bool {
	_, truth := c.Value.(bool)
	return !truth
}

// TripleVars are the variable names of a triple's positions in conditions.
var TripleVars = []string{"subject", "predicate", "object"}

// AskVar is the variable name of an ASK query's answer in conditions.
const AskVar = "boolean"

// RowVars returns the variables of rows. The rows of a graph are its triples, with the variables TripleVars.
// The row of an ASK query is its answer, with the variable AskVar. Those of a SELECT query have vars.
func RowVars(form diff.Form, vars []string) []string {
	switch {
	case form == diff.Ask:
		return []string{AskVar}
	case form.Graph():
		return TripleVars
	}
	return vars
}

// Added reports whether a change adds a row that meets all conditions, with the variables of RowVars.
// Without conditions every change qualifies.
func Added(d *diff.Delta, where []Condition) bool {
	if len(where) == 0 {
		return true
	}
	if d.Form == diff.Ask {
		answer := diff.Term{Kind: diff.Literal, Value: strconv.FormatBool(d.Boolean)}
		return MeetAll(where, RowVars(d.Form, nil), []diff.Term{answer})
	}
	vars := RowVars(d.Form, d.Vars)
	return slices.ContainsFunc(d.Added, func(row []byte) bool {
		return MeetAll(where, vars, diff.RowTerms(d.Form, d.Vars, row))
	})
}

// MeetAll reports whether a row, given by its terms and their variables, meets all
// conditions.
func MeetAll(where []Condition, vars []string, terms []diff.Term) bool {
	for _, c := range where {
		at := slices.Index(vars, c.Var)
		if at < 0 || at >= len(terms) || !c.Meets(terms[at]) {
			return false
		}
	}
	return true
}
