package sparql

import (
	"errors"
	"math"
	"strconv"
)

// clause is the part of a SELECT (or other form) that is being read.
type clause uint8

const (
	projection clause = iota
	dataset
	namedSubquery // Blazegraph's WITH { … } AS %name
	pattern       // after WHERE, before the brace
	tail          // after the pattern, between clauses
	groupBy
	having
	orderBy
	limit
	offset
	values
	option // Virtuoso's OPTION (…)
)

var tailClauses = map[string]clause{
	"GROUP": groupBy, "HAVING": having, "ORDER": orderBy, "LIMIT": limit,
	"OFFSET": offset, "VALUES": values, "BINDINGS": values, "OPTION": option,
}

// scope is the query or one sub-select. The tokens directly in it, outside of
// any further bracket, are read as clauses.
type scope struct {
	form          string
	top           bool
	clause        clause
	matched       bool // its pattern has been read
	ordered       bool
	plainOrder    bool // all conditions so far are plain variables
	orderKeys     []string
	orderPos      int
	limit, offset int64
	limitPos      int
	distinct      bool
	star          bool
	from          bool
	vars          []string
	plain         []Token    // the projected variables, without expressions, and *
	grouped       bool       // it has GROUP BY
	keys          orderedSet // the variables of GROUP BY
	unnamed       int        // projected expressions that no AS has followed
}

func newScope(form string, top bool) *scope {
	return &scope{form: form, top: top, plainOrder: true, limit: -1, offset: -1}
}

// clauseToken reads token i, which is directly in the scope c.
func (s *scanner) clauseToken(c *scope, i int) error {
	t := s.body[i]
	if t.is("{") || t.is("}") {
		return nil
	}
	w := t.keyword()
	if c.top && i > 0 && (updateWords[w] || queryForms[w] || t.is(";")) {
		return s.trailing(i)
	}
	if next, ok := tailClauses[w]; ok && (c.matched || c.form == "DESCRIBE") {
		return s.enter(c, next, i)
	}
	if c.clause == tail {
		if c.top {
			return s.trailing(i)
		}
		return nil
	}
	switch w {
	case "WHERE":
		c.clause = pattern
	case "FROM":
		if i+1 < len(s.body) && s.body[i+1].is("{") {
			return s.errorAt(t, "FROM needs the IRI of a graph; without FROM, the query asks the default graph")
		}
		c.clause, c.from = dataset, true
	case "WITH":
		c.clause = namedSubquery
	}
	switch c.clause {
	case projection:
		s.projected(c, i)
	case orderBy:
		s.orderCondition(c, i)
	case groupBy:
		s.groupCondition(c, i)
	case limit, offset:
		return s.count(c, i)
	}
	return nil
}

// groupCondition reads one token of GROUP BY.
func (s *scanner) groupCondition(c *scope, i int) {
	if t := s.body[i]; t.Kind == Variable {
		c.keys.add(t.Text[1:], 0)
	} else if t.is("(") && !s.isCall(i) {
		if v, ok := s.parenthesised(i); ok {
			c.keys.add(v, 0)
		}
	}
}

// checkGroups finds a projected variable that is neither grouped nor aggregated.
func (s *scanner) checkGroups(c *scope) {
	if !c.grouped || s.ungrouped != nil {
		return
	}
	for i, t := range c.plain {
		if t.is("*") || !c.keys.seen[t.Text[1:]] {
			s.ungrouped = &c.plain[i]
			return
		}
	}
}

func (s *scanner) enter(c *scope, next clause, i int) error {
	t := s.body[i]
	switch {
	case next == groupBy:
		c.grouped = true
	case next == orderBy:
		c.ordered, c.orderPos = true, t.Pos
	case next == limit && c.limit >= 0 || next == offset && c.offset >= 0:
		return s.errorAt(t, "%s is repeated here", t.keyword())
	case next == limit || next == offset:
		if i+1 == len(s.body) || s.body[i+1].Kind != Number {
			return s.errorAt(t, "%s needs a whole number", t.keyword())
		}
		c.limitPos = t.Pos
	}
	c.clause = next
	return nil
}

// count reads the number of LIMIT or OFFSET. A number that does not fit becomes
// the largest that does.
func (s *scanner) count(c *scope, i int) error {
	t := s.body[i]
	n, err := strconv.ParseUint(t.Text, 10, 63)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return s.errorAt(t, "%s needs a whole number, not %s", s.body[i-1].keyword(), shorten(t.Text))
	}
	if err != nil {
		n = math.MaxInt64
	}
	if c.clause == limit {
		c.limit = int64(n)
	} else {
		c.offset = int64(n)
	}
	c.clause = tail
	return nil
}

// projected reads one token between the query form and the dataset or pattern.
func (s *scanner) projected(c *scope, i int) {
	t := s.body[i]
	switch w := t.keyword(); {
	case w == "DISTINCT":
		c.distinct = true
	case t.is("*"):
		c.star = true
		c.plain = append(c.plain, t)
	case c.form != "SELECT", i == 0, w == "REDUCED", t.is(","), t.is(")"):
	case t.Kind == Variable:
		c.vars = append(c.vars, t.Text[1:])
		if s.body[i-1].keyword() != "AS" {
			c.plain = append(c.plain, t)
		}
	case w == "AS":
		c.unnamed--
	case t.is("(") && s.isCall(i):
	case t.is("("):
		if v, ok := s.parenthesised(i); ok {
			c.vars = append(c.vars, v)
			return
		}
		c.unnamed++
	default:
		c.unnamed++
	}
}

// orderCondition reads one token of ORDER BY.
func (s *scanner) orderCondition(c *scope, i int) {
	t := s.body[i]
	switch w := t.keyword(); {
	case w == "ORDER" || w == "BY" || w == "ASC" || w == "DESC" || t.is(",") || t.is(")"):
	case t.Kind == Variable:
		c.orderKeys = append(c.orderKeys, t.Text[1:])
	case t.is("("):
		if v, ok := s.parenthesised(i); ok && !s.isCall(i) {
			c.orderKeys = append(c.orderKeys, v)
			return
		}
		c.plainOrder = false
	default:
		c.plainOrder = false
	}
}

// parenthesised returns the variable of "( ?v )" at i.
func (s *scanner) parenthesised(i int) (string, bool) {
	if i+2 < len(s.body) && s.body[i+1].Kind == Variable && s.body[i+2].is(")") {
		return s.body[i+1].Text[1:], true
	}
	return "", false
}

// isCall reports whether the parenthesis at i holds arguments.
func (s *scanner) isCall(i int) bool {
	switch t := s.body[i-1]; t.Kind {
	case IRI, Name:
		return true
	case Word:
		switch t.keyword() {
		case "SELECT", "DISTINCT", "REDUCED", "BY", "ASC", "DESC":
			return false
		}
		return true
	}
	return false
}

// trailing refuses what follows a complete query. The error is ErrUpdate if it
// is an update.
func (s *scanner) trailing(i int) error {
	for _, t := range s.body[i:] {
		if updateWords[t.keyword()] {
			return ErrUpdate
		}
	}
	t := s.body[i]
	switch {
	case t.is(";"):
		return s.errorAt(t, "one query only, and no semicolon after it")
	case queryForms[t.keyword()]:
		return s.errorAt(t, "a second %s begins here; one query only", t.keyword())
	}
	return s.errorAt(t, "%q cannot follow a complete query", shorten(t.Text))
}
