package sparql

import (
	"fmt"
	"slices"
	"strings"
)

// virtual are the beginnings of IRIs of predicates, graphs and functions whose values an
// endpoint computes, so that they are no triples.
var virtual = []string{
	"http://qlever.cs.uni-freiburg.de/builtin-functions/", "ql:",
	"http://jena.apache.org/", "http://jena.hpl.hp.com/", "java:", "urn:x-arq:",
	"http://www.ontotext.com/", "tag:stardog:api:", "http://franz.com/ns/allegrograph/",
	"http://www.w3.org/2000/01/rdf-schema#member", "http://www.openrdf.org/contrib/lucenesail#",
	"http://www.openrdf.org/schema/sesame#direct", "http://www.bigdata.com/rdf/search#", "http://www.bigdata.com/rdf/gas#",
	"bif:", "http://www.openlinksw.com/schemas/bif#", "sql:",
	"http://www.opengis.net/ont/geosparql#sf", "http://www.opengis.net/ont/geosparql#eh", "http://www.opengis.net/ont/geosparql#rcc8",
}

// virtualNames are the prefixes of such names that engines know without a declaration.
var virtualNames = []string{"bds:", "gas:", "fts:", "ql:", "text:", "spatial:", "luc:", "search:", "bif:", "sql:"}

// Virtual reports whether an IRI or a name of a normal form is one of predicates, graphs and functions whose values
// an endpoint computes.
func Virtual(term string) bool {
	if iri, ok := strings.CutPrefix(term, "<"); ok {
		return begins(iri, virtual)
	}
	return begins(term, virtualNames)
}

// nodes are the beginnings of IRIs by which endpoints name their blank nodes.
var nodes = []string{"nodeID:", "_:", "nodeid:", "bnode:"}

// Blank reports whether an IRI is one by which an endpoint names a blank node. Feeds tell those as blank nodes, except
// Wikidata's, whose data have the IRIs.
func Blank(iri string) bool {
	return begins(iri, nodes) || strings.Contains(iri, "/.well-known/genid/") && !strings.HasPrefix(iri, "http://www.wikidata.org/")
}

// steady are the beginnings of IRIs of functions that depend on their arguments alone.
var steady = []string{
	"http://www.w3.org/2001/XMLSchema#", "xsd:", "http://www.opengis.net/def/function/geosparql/", "geof:", wikibase, "wikibase:",
	"http://www.w3.org/2005/xpath-functions/math#",
}

// standard are the words of SPARQL that a bracket follows in an expression, without those that Unprovable names.
var standard = wordSet(`STR LANG LANGMATCHES DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND CONCAT STRLEN UCASE LCASE
	ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ MD5 SHA1
	SHA256 SHA384 SHA512 COALESCE IF STRLANG STRDT SAMETERM ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC REGEX SUBSTR REPLACE
	COUNT SUM MIN MAX AVG IN NOT EXISTS FILTER HAVING BY ASC DESC AS DISTINCT TRIPLE ISTRIPLE SUBJECT
	PREDICATE OBJECT LANGDIR HASLANG HASLANGDIR STRLANGDIR BIND SELECT REDUCED WHERE VALUES`)

// Unprovable says why the result of a query can change although no triple changes that one of its Patterns
// matches, empty if it cannot. ordered means that the sequence of rows is part of the result. It holds at endpoints
// that infer nothing.
func Unprovable(text string, ordered bool) string {
	list, why := Patterns(text)
	if why != "" {
		return why
	}
	for _, p := range list { // their names are whole
		for _, term := range [...]string{p.Subject, p.Object, p.Graph} {
			if iri, is := strings.CutPrefix(term, "<"); is && Blank(iri) {
				return notNamed(iri)
			}
		}
	}
	a, err := Analyse(text)
	if err != nil {
		return err.Error()
	}
	if len(a.NonDeterministic) > 0 {
		return "it calls " + a.NonDeterministic[0]
	}
	for _, w := range a.Warnings {
		if w.Code == LimitWithoutOrder {
			return "which rows LIMIT or OFFSET keeps without ORDER BY is up to the endpoint"
		}
	}
	t := Parse(text)
	if t.tied(t.Query, ordered) || t.tiedInside(t.Query) {
		return "the order of rows that ORDER BY leaves equal is up to the endpoint: order by each variable that is selected, too"
	}
	for i, x := range t.Tokens {
		iri := strings.Trim(x.Text, "<>")
		switch {
		case x.Kind == IRI && Blank(iri):
			return notNamed(iri)
		case (x.Kind == IRI || x.Kind == Name) && Virtual(x.Text):
			return x.Text + " names what the endpoint computes"
		case x.Kind == Word && x.keyword() == "REDUCED":
			return "how often REDUCED repeats a row is up to the endpoint"
		case x.Kind == Word && i+1 < len(t.Tokens) && t.Tokens[i+1].is("(") && slices.Contains([]string{"SAMPLE", "GROUP_CONCAT"}, x.keyword()):
			return "what " + x.keyword() + " returns is up to the endpoint"
		}
	}
	return t.unsteady(t.Query)
}

func notNamed(iri string) string {
	return "<" + strings.TrimSuffix(iri, ">") + "> is a blank node of the endpoint, which no feed can name"
}

func begins(iri string, list []string) bool {
	return slices.ContainsFunc(list, func(begin string) bool { return strings.HasPrefix(iri, begin) })
}

// unsteady returns a call of an unknown function in an expression.
func (t *Tree) unsteady(q *Select) string {
	why := t.calls(q.Head, q.Exists)
	for _, c := range q.Clauses {
		if c.Word != "VALUES" && why == "" {
			why = t.calls(c.Span, q.Exists)
		}
	}
	for _, g := range append(slices.Clone(q.Exists), q.Where) {
		if why == "" {
			why = t.unsteadyGroup(g)
		}
	}
	return why
}

func (t *Tree) unsteadyGroup(g *Group) (why string) {
	if g.Select != nil {
		return t.unsteady(g.Select)
	}
	for _, e := range g.Elements {
		if e.Word == "FILTER" || e.Word == "BIND" {
			why = t.calls(e.Span, e.Groups)
		}
		for _, inner := range e.Groups {
			if why == "" {
				why = t.unsteadyGroup(inner)
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// calls looks for a call in a part of a query without its groups.
func (t *Tree) calls(s Span, groups []*Group) string {
	for i := s.From; i+1 < s.To; i++ {
		if j := slices.IndexFunc(groups, func(g *Group) bool { return g.From <= i && i < g.To }); j >= 0 {
			i = groups[j].To - 1
			continue
		}
		x := t.Tokens[i]
		known := x.Kind != IRI && x.Kind != Name && x.Kind != Word || standard[x.keyword()] ||
			!x.Own && begins(strings.Trim(x.Text, "<>"), steady)
		if t.Tokens[i+1].is("(") && !known {
			return "it calls the function " + x.Text
		}
	}
	return ""
}

// tied reports whether rows of a query, or of a sub-select, that its ORDER BY leaves equal can be different, and their
// order matters: LIMIT or OFFSET keeps some of them, or the sequence is part of the result.
func (t *Tree) tied(q *Select, sequence bool) bool {
	var keys, groups map[string]bool
	limited := false
	for _, c := range q.Clauses {
		switch c.Word {
		case "LIMIT", "OFFSET":
			limited = true
		case "ORDER":
			keys = t.keys(c.Span)
		case "GROUP":
			groups = t.keys(c.Span)
		}
	}
	if keys == nil || !limited && !sequence {
		return false
	}
	within := func(names map[string]bool) bool {
		for name := range names {
			if !keys[name] {
				return false
			}
		}
		return len(names) > 0
	}
	return !within(groups) && !within(t.selected(q))
}

// tiedInside is tied for the sub-selects of a query, whose sequences of rows do not matter.
func (t *Tree) tiedInside(q *Select) bool {
	var inside func(g *Group) bool
	inside = func(g *Group) bool {
		if g == nil {
			return false
		}
		if g.Select != nil && (t.tied(g.Select, false) || t.tiedInside(g.Select)) {
			return true
		}
		return slices.ContainsFunc(g.Elements, func(e Element) bool { return slices.ContainsFunc(e.Groups, inside) })
	}
	return inside(q.Where) || slices.ContainsFunc(q.Exists, inside)
}

// keys returns the variables that are conditions of GROUP BY or ORDER BY by themselves, besides other conditions, of
// which those of GROUP BY are named by their text.
func (t *Tree) keys(s Span) map[string]bool {
	keys := map[string]bool{}
	for i := s.From; i < s.To; i++ {
		x := t.Tokens[i]
		switch {
		case x.Kind == Variable:
			keys[variable(x.Text)] = true
		case x.is("("):
			from := i
			for depth := 0; i < s.To; i++ {
				if t.Tokens[i].is("(") {
					depth++
				} else if t.Tokens[i].is(")") {
					if depth--; depth == 0 {
						break
					}
				}
			}
			switch inner := t.Tokens[from+1 : min(i, s.To)]; {
			case len(inner) == 1 && inner[0].Kind == Variable && !t.called(from):
				keys[variable(inner[0].Text)] = true
			case len(inner) > 2 && inner[len(inner)-2].keyword() == "AS":
				keys[variable(inner[len(inner)-1].Text)] = true
			default:
				keys[x.Text+fmt.Sprint(from)] = true
			}
		}
	}
	return keys
}

// called reports whether a bracket belongs to a call: neither to a condition in brackets nor to ASC or DESC.
func (t *Tree) called(bracket int) bool {
	x := t.Tokens[bracket-1]
	return (x.Kind == Word || x.Kind == IRI || x.Kind == Name) && !slices.Contains([]string{"BY", "ASC", "DESC"}, x.keyword())
}

// selected returns the variables of the rows of a query.
func (t *Tree) selected(q *Select) map[string]bool {
	names := map[string]bool{}
	note := func(g *Group) {
		if g != nil {
			t.note(g.Span, names)
		}
	}
	switch {
	case q.Template != nil:
		note(q.Template)
		return names
	case t.Tokens[q.Form].Text == "CONSTRUCT":
		note(q.Where)
		return names
	}
	depth := 0
	for i := q.Head.From; i < q.Head.To; i++ {
		switch x := t.Tokens[i]; {
		case x.is("("):
			depth++
		case x.is(")"):
			depth--
		case x.is("*") && depth == 0:
			note(q.Where)
		case x.Kind == Variable && (depth == 0 || depth == 1 && t.Tokens[i-1].keyword() == "AS"):
			names[variable(x.Text)] = true
		}
	}
	return names
}
