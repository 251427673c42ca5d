package sparql

import (
	"slices"
	"strings"
)

// A Narrow is a pattern of a query, and how the query's own result narrows what it matches.
//
// Let the result be that of the data before a change. If the change only removes triples, one that the pattern
// matches can only matter if its subject is in the column. If Both is set, the same holds for triples that are
// added.
//
// The argument: the pattern is a triple pattern of the query's group, not of a nested one, and its subject is a
// variable that the result shows. So each row comes from a solution of the group's triple patterns, and shows the
// subject of the triple that this pattern matched in it. All that the query does with these solutions, it does
// with each of them alone (FILTER, OPTIONAL, MINUS, BIND, joins): there is no aggregate, no LIMIT, no OFFSET.
// If triples are removed that match such patterns only, some solutions vanish, each with all of its rows, and
// what the others give stays. A solution without rows changes nothing. If a row vanishes, the column had the
// subject of a triple that was removed.
//
// Both holds for triple patterns in OPTIONAL and in Wikidata's service for labels, if the subject is bound by triple
// patterns of the group that come before. These never drop a solution, so each one that the FILTERs keep has a row,
// provided that the FILTERs of the group depend on variables of its triple patterns alone, and that there is
// nothing else in the group. A triple that such a pattern matches then changes only what rows with its subject
// show, and there are none that the column does not have.
//
// That holds for a triple pattern of the group only if triples are removed: one that is added makes a new row.
type Narrow struct {
	Pattern
	Column string // the variable, without its question mark; empty if the result does not narrow the pattern
	Both   bool
}

// Narrowed returns the patterns of a query, see Patterns, and how its result narrows them. It returns nothing
// if it narrows none.
func Narrowed(text string) []Narrow {
	t := Parse(text)
	if t.Err != nil || t.Pragmas || !slices.ContainsFunc(t.Tokens[:1], func(x Token) bool { return x.Text == "SELECT" }) {
		return nil
	}
	columns, star := t.columns(text)
	if columns == nil && !star || t.Query.Where.Select != nil || len(t.Query.Exists) > 0 ||
		slices.ContainsFunc(t.Query.Clauses, func(c Clause) bool { return c.Word != "ORDER" }) {
		return nil
	}
	r := &patternReader{tokens: t.Tokens, top: t.Query.Where, bindings: map[string]bool{}}
	if t.keepsSolutions(t.Query.Where) {
		t.bindings(t.Query.Where, r.bindings)
	}
	r.query(t.Query)
	if r.why != "" || len(r.narrow) != len(r.found) {
		return nil
	}
	list, some := make([]Narrow, len(r.found)), false
	for i, p := range r.found {
		list[i] = Narrow{Pattern: p}
		if n := r.narrow[i]; n.column != "" && p.Subject == "" && (star || slices.Contains(columns, n.column)) {
			list[i].Column, list[i].Both, some = n.column[1:], n.both, true
		}
	}
	if !some {
		return nil
	}
	return list
}

// columns returns the variables that a SELECT shows, nil if it computes some.
func (t *Tree) columns(text string) (list []string, star bool) {
	var c clauses
	t.analyser(text).projection(&c, t.Query)
	if c.unnamed != 0 || len(c.vars) > len(c.plain) {
		return nil, false
	}
	for _, v := range c.vars {
		list = append(list, "?"+v)
	}
	return list, c.star
}

// variable returns the name with a question mark.
func variable(text string) string { return "?" + text[1:] }

// A narrowing is how the result narrows a pattern.
type narrowing struct {
	column string // the variable, empty if it does not
	both   bool
}

// keepsSolutions reports whether each solution of the triple patterns of a group that its FILTERs keep has a row.
func (t *Tree) keepsSolutions(g *Group) bool {
	bound, optional := map[string]bool{}, false
	t.bindings(g, bound)
	for _, e := range g.Elements {
		switch e.Word {
		case "", "VALUES":
			if optional { // what OPTIONAL binds restricts these
				return false
			}
		case "SERVICE":
			of := t.Tokens[e.Subject.Token]
			name := strings.TrimPrefix(strings.Trim(of.Text, "<>"), wikibase)
			if of.Own || name != "label" && name != "wikibase:label" || slices.ContainsFunc(labels, func(l label) bool {
				return anyEnds(bound, l.suffix)
			}) {
				return false
			}
		case "FILTER":
			used := map[string]bool{}
			t.note(e.Span, used)
			for name := range used {
				if !bound[name] {
					return false
				}
			}
			if len(e.Groups) > 0 {
				return false
			}
		case "OPTIONAL":
			optional = true
			inner := e.Groups[0]
			if inner.Select != nil || slices.ContainsFunc(inner.Elements, func(e Element) bool {
				return e.Word != "" && (e.Word != "FILTER" || len(e.Groups) > 0)
			}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func anyEnds(names map[string]bool, suffix string) bool {
	for name := range names {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// bindings adds the variables of the triple patterns of a group.
func (t *Tree) bindings(g *Group, into map[string]bool) {
	for _, e := range g.Elements {
		if e.Word == "" {
			t.note(e.Span, into)
		}
	}
}

// note notes the variables of a part of a query.
func (t *Tree) note(s Span, into map[string]bool) {
	for _, x := range t.Tokens[s.From:s.To] {
		if x.Kind == Variable {
			into[variable(x.Text)] = true
		}
	}
}
