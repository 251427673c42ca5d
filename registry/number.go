// This file compares numbers as XSD writes them, with any number of digits.

package registry

import (
	"cmp"
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
			return "1e2147483647", true
		case "-INF":
			return "-1e2147483647", true
		}
	}
	return t.Value, isNumber(t.Value)
}

// compareNumbers compares the numbers as they are written, not as doubles.
func compareNumbers(a, b string) int {
	x, y := signed(a), signed(b)
	if x.sign != y.sign || x.sign == 0 {
		return cmp.Compare(x.sign, y.sign)
	}
	return x.sign * cmp.Or(cmp.Compare(x.point, y.point), strings.Compare(x.digits, y.digits))
}

// A decimal is sign × 0.digits × 10^point, without zeros around the digits.
type decimal struct {
	sign   int // 0 for zero
	digits string
	point  int
}

func signed(s string) (d decimal) {
	d.sign = 1
	if s[0] == '-' {
		d.sign = -1
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimLeft(s, "+-")), "e")
	whole, part, _ := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		kept := strings.TrimLeft(part, "0")
		d.point, part = len(kept)-len(part), kept
	}
	if d.digits = strings.TrimRight(whole+part, "0"); d.digits == "" {
		return decimal{}
	}
	n, _ := strconv.ParseInt(exponent, 10, 32) // beyond its range it is the largest or the smallest
	d.point += len(whole) + int(n)
	return d
}
