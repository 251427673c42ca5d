package merge

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// longestDecimal is the length of the longest number that is compared as a sort key.
const longestDecimal = 1000

// distinguishable reports whether SPARQL defines which of two different terms
// comes first in a sequence, and endpoints keep to it. Virtuoso mixes IRIs and
// literals in a sequence that depends on the other solutions.
func distinguishable(a, b diff.Term) bool {
	if a.Kind != b.Kind {
		return a.Kind == diff.Unbound || b.Kind == diff.Unbound
	}
	switch a.Kind {
	case diff.Unbound, diff.Blank:
		return false
	case diff.IRI:
		return true
	}
	if a.Datatype != b.Datatype || a.Lang != b.Lang || a.Lang != "" {
		return false
	}
	switch name := strings.TrimPrefix(a.Datatype, xsd); name {
	case "", "string":
		return true
	case "integer", "decimal", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger":
		x, y := decimal(a.Value), decimal(b.Value)
		return x != nil && y != nil && x.Cmp(y) != 0
	case "double", "float":
		x, err := strconv.ParseFloat(a.Value, 64)
		y, failed := strconv.ParseFloat(b.Value, 64)
		return err == nil && failed == nil && (x < y || x > y)
	case "date", "dateTime":
		return isUTC(a.Value) && isUTC(b.Value) && len(a.Value) == len(b.Value)
	}
	return false
}

// decimal returns the number of a lexical form, nil if it has an exponent or more than longestDecimal
// characters. An exponent is not valid here, and a short one could fill the memory.
func decimal(lexical string) *big.Rat {
	if len(lexical) > longestDecimal || strings.Trim(lexical, "+-.0123456789") != "" {
		return nil
	}
	x, ok := new(big.Rat).SetString(lexical)
	if !ok {
		return nil
	}
	return x
}

// isUTC reports whether the lexical form of a date or time ends with Z, so that
// two different ones of equal length are different points in time.
func isUTC(lexical string) bool { return strings.HasSuffix(lexical, "Z") }
