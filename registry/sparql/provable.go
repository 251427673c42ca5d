package sparql

import (
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
// matches, empty if it cannot. It holds at endpoints that infer nothing.
func Unprovable(text string) string {
	if _, why := Patterns(text); why != "" {
		return why
	}
	a, err := Analyse(text)
	if err != nil {
		return err.Error()
	}
	if len(a.NonDeterministic) > 0 {
		return "it calls " + a.NonDeterministic[0]
	}
	for _, w := range a.Warnings {
		switch w.Code {
		case LimitWithoutOrder:
			return "which rows LIMIT or OFFSET keeps without ORDER BY is up to the endpoint"
		case OrderTies:
			return "the order of its rows is up to the endpoint"
		}
	}
	t := Parse(text)
	for i, x := range t.Tokens {
		iri := strings.Trim(x.Text, "<>")
		switch {
		case x.Kind == IRI && begins(iri, virtual):
			return "<" + iri + "> names what the endpoint computes"
		case x.Kind == Word && i+1 < len(t.Tokens) && t.Tokens[i+1].is("(") && slices.Contains([]string{"SAMPLE", "GROUP_CONCAT"}, x.keyword()):
			return "what " + x.keyword() + " returns is up to the endpoint"
		}
	}
	return t.unsteady(t.Query)
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
		known := x.Kind != IRI && x.Kind != Name && x.Kind != Word || begins(strings.Trim(x.Text, "<>"), steady) || standard[x.keyword()]
		if t.Tokens[i+1].is("(") && !known {
			return "it calls the function " + x.Text
		}
	}
	return ""
}
