package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// An Offer is a condition of an alert rule about a row of a result, or about a result.
type Offer struct {
	Key     string // among the offers of a row
	Kind    string // row, cell, above, below, new, rows, any, or answer of an ASK query
	Var     string // of cell, above and below
	Limit   bool   // it compares with a number
	Summary string // of the rule
	when    func(limit string) string
}

// When returns the condition. The limit is a number, if the offer compares with one.
func (o Offer) When(limit string) string { return o.when(limit) }

const xsd = "http://www.w3.org/2001/XMLSchema#"

// numeric are the datatypes of numbers.
var numeric = map[string]bool{xsd + "integer": true, xsd + "decimal": true, xsd + "double": true, xsd + "float": true,
	xsd + "int": true, xsd + "long": true,
	xsd + "nonNegativeInteger": true, xsd + "positiveInteger": true, xsd + "short": true, xsd + "byte": true, xsd + "unsignedInt": true}

// longestKey is the number of bytes of a value that a condition compares.
const longestKey = 400

// Offers returns the conditions about a row, which is nil for none, and about a result.
func Offers(form diff.Form, vars []string, row []diff.Term) (list []Offer) {
	if form == diff.Ask {
		return []Offer{{Key: "any", Kind: "answer", when: constant("changed"), Summary: "the answer changed"}}
	}
	vars = registry.RowVars(form, vars)
	keys := keysOf(row)
	if row != nil {
		list = append(list, Offer{Key: "row", Kind: "row", when: constant("removed" + variables(vars, keys) + where(vars, row, keys)),
			Summary: say(row, keys) + " is gone"})
	}
	for i, t := range row {
		others := slices.DeleteFunc(slices.Clone(keys), func(k int) bool { return k == i })
		if len(others) == 0 {
			others = comparable(row, i)
		}
		about := cmp.Or(say(row, others), "the result") + ": " + vars[i]
		list = append(list, Offer{Key: fmt.Sprintf("cell%d", i), Kind: "cell", Var: vars[i],
			when: constant("changed ?" + vars[i] + where(vars, row, others)), Summary: about + " is now ?" + vars[i]})
		if t.Kind != diff.Literal || !numeric[t.Datatype] {
			continue
		}
		for kind, op := range map[string]string{"above": ">", "below": "<"} {
			list = append(list, Offer{Key: fmt.Sprint(kind, i), Kind: kind, Var: vars[i], Limit: true, Summary: about + " is ?" + vars[i],
				when: func(limit string) string {
					return "?" + vars[i] + " " + op + " " + limit + strings.Replace(where(vars, row, others), " where ", " and ", 1)
				}})
		}
	}
	slices.SortStableFunc(list, func(a, b Offer) int { return cmp.Compare(a.rank(), b.rank()) })
	all := ""
	for _, name := range vars {
		all += ", ?" + name
	}
	return append(list, Offer{Key: "new", Kind: "new", when: constant("added" + variables(vars, keys)), Summary: "new: " +
		strings.TrimPrefix(all, ", ")},
		Offer{Key: "rows", Kind: "rows", Limit: true, when: func(limit string) string { return "rows > " + limit }, Summary: "?rows rows"},
		Offer{Key: "any", Kind: "any", when: constant("changed"), Summary: "?added added, ?removed removed"})
}

// rank orders the offers: the row, its cells, and their numbers.
func (o Offer) rank() int { return slices.Index([]string{"row", "cell", "above", "below"}, o.Kind) }

func constant(s string) func(string) string { return func(string) string { return s } }

// keysOf returns the columns that say what a row is about: its IRIs, else its texts, else all that can be
// compared.
func keysOf(row []diff.Term) []int {
	for _, names := range []func(t diff.Term) bool{
		func(t diff.Term) bool { return t.Kind == diff.IRI },
		func(t diff.Term) bool { return t.Kind == diff.Literal && t.Datatype == "" },
	} {
		var keys []int
		for _, i := range comparable(row, -1) {
			if names(row[i]) {
				keys = append(keys, i)
			}
		}
		if keys != nil {
			return keys
		}
	}
	return comparable(row, -1)
}

// comparable returns the columns, except one, whose values a condition can compare.
func comparable(row []diff.Term, except int) (list []int) {
	for i, t := range row {
		if i != except && (t.Kind == diff.IRI || t.Kind == diff.Literal) && len(t.Value) <= longestKey && len(list) < 4 {
			list = append(list, i)
		}
	}
	return list
}

// variables returns the variables of columns, " ?a ?b".
func variables(vars []string, columns []int) (s string) {
	for _, i := range columns {
		s += " ?" + vars[i]
	}
	return s
}

// where returns the condition that columns have the values of a row, " where ?a = …", "" without columns.
func where(vars []string, row []diff.Term, columns []int) (s string) {
	for n, i := range columns {
		value := strconv.Quote(row[i].Value)
		if row[i].Kind == diff.IRI && !strings.ContainsAny(row[i].Value, "<> \t") {
			value = "<" + row[i].Value + ">"
		} else if numeric[row[i].Datatype] && (registry.Condition{Op: "=", Value: json.Number(row[i].Value)}).Check() == nil {
			value = row[i].Value
		}
		s += map[bool]string{true: " where ?", false: " and ?"}[n == 0] + vars[i] + " = " + value
	}
	return s
}

// say returns the values of columns for a summary, in which question marks begin variables.
func say(row []diff.Term, columns []int) string {
	var list []string
	for _, i := range columns {
		text := row[i].Value
		if row[i].Kind == diff.IRI {
			text = Namer(Plain).name(text)
		}
		list = append(list, Line(strings.ReplaceAll(text, "?", ""), mostSide))
	}
	return strings.Join(list, ", ")
}
