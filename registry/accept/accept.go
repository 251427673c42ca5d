// Package accept chooses the representation of an answer that a client prefers (RFC 9110).
package accept

import (
	"slices"
	"strconv"
	"strings"
)

// A clause is one media range of Accept with its weight.
type clause struct {
	typ, sub string
	params   int // number of parameters; a more specific range wins
	q        float64
}

// Limits that no legitimate client exceeds.
const (
	maxAccept  = 4096 // bytes
	maxClauses = 64
)

// Choose returns the index of the offer that best matches the Accept fields, -1 if
// none does. Offers are listed in order of preference; without Accept the first one is
// used. An offer is a media type and its aliases, which match only explicitly, never
// by a wildcard.
func Choose(accept []string, offers ...[]string) int {
	clauses := parseAccept(strings.Join(accept, ","))
	if len(clauses) == 0 {
		return 0
	}
	best, weight := -1, 0.0
	for i, o := range offers {
		if q := quality(clauses, o); q > weight {
			best, weight = i, q
		}
	}
	return best
}

// quality returns the quality of an offer: that of the most specific matching range.
func quality(clauses []clause, names []string) float64 {
	q, exact := 0.0, -1
	for _, c := range clauses {
		e := -1
		for i, name := range names {
			typ, sub, _ := strings.Cut(name, "/")
			if x := c.exactness(typ, sub); i == 0 || x >= 2 {
				e = max(e, x)
			}
		}
		if e > exact || e == exact && e >= 0 && c.q > q {
			q, exact = c.q, e
		}
	}
	return q
}

// exactness returns the specificity of a range, -1 if it does not match.
func (c clause) exactness(typ, sub string) int {
	switch {
	case c.typ == typ && c.sub == sub:
		return 2 + c.params
	case c.typ == typ && c.sub == "*":
		return 1
	case c.typ == "*" && c.sub == "*":
		return 0
	}
	return -1
}

// parseAccept ignores clauses that it cannot parse: a client with an invalid Accept
// gets the same answer as one without it.
func parseAccept(s string) []clause {
	if len(s) > maxAccept {
		s = s[:maxAccept]
	}
	var out []clause
	for part := range strings.SplitSeq(s, ",") {
		if c, ok := parseClause(part); ok && len(out) < maxClauses {
			out = append(out, c)
		}
	}
	return slices.Clip(out)
}

func parseClause(s string) (c clause, ok bool) {
	rng, params, _ := strings.Cut(s, ";")
	c.typ, c.sub, ok = strings.Cut(strings.ToLower(strings.TrimSpace(rng)), "/")
	if !ok || c.typ == "" || c.sub == "" || c.typ == "*" && c.sub != "*" {
		return c, false
	}
	c.q = 1
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "":
		case "q":
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return c, false
			}
			c.q = q
			return c, true // parameters after q belong to Accept, not to the type
		case "charset": // all answers are UTF-8
		default:
			c.params++
		}
	}
	return c, true
}
