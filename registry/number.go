// This file compares numbers as XSD writes them, with any number of digits.

package registry

import (
	"cmp"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

var numberForm = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

func isNumber(s string) bool { return numberForm.MatchString(s) }

// numberOf returns the text of a literal that is a number. INF is one by its datatype only.
func numberOf(t diff.Term) (string, bool) {
	if t.Kind != diff.Literal || t.Lang != "" {
		return "", false
	}
	if x := strings.TrimPrefix(t.Datatype, "http://www.w3.org/2001/XMLSchema#"); x == "double" || x == "float" {
		switch t.Value {
		case "INF", "+INF":
			return "1e999", true
		case "-INF":
			return "-1e999", true
		}
	}
	return t.Value, isNumber(t.Value)
}

// compareNumbers compares decimals exactly, and numbers with an exponent as doubles.
func compareNumbers(a, b string) int {
	if strings.ContainsAny(a+b, "eE") {
		return cmp.Compare(double(a), double(b))
	}
	x, y := signed(a), signed(b)
	if x.negative != y.negative {
		return cmp.Compare(sign(x.negative), sign(y.negative))
	}
	order := cmp.Or(cmp.Compare(len(x.whole), len(y.whole)), strings.Compare(x.whole, y.whole), strings.Compare(x.part, y.part))
	return order * sign(x.negative)
}

func double(s string) float64 {
	n, err := strconv.ParseFloat(s, 64) // beyond the largest double it is infinite
	if err != nil && !math.IsInf(n, 0) {
		return 0
	}
	return n
}

// A decimal is a number without the zeros that say nothing.
type decimal struct {
	negative    bool
	whole, part string
}

func signed(s string) (d decimal) {
	digits := strings.TrimLeft(s, "+-")
	whole, part, _ := strings.Cut(digits, ".")
	d.whole, d.part = strings.TrimLeft(whole, "0"), strings.TrimRight(part, "0")
	d.negative = s[0] == '-' && d.whole+d.part != ""
	return d
}

func sign(negative bool) int {
	if negative {
		return -1
	}
	return 1
}
