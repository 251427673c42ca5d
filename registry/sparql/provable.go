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
		switch w.Code {
		case LimitWithoutOrder:
			return "which rows LIMIT or OFFSET keeps without ORDER BY is up to the endpoint"
		case Ungrouped:
			return "it selects a variable that is neither in GROUP BY nor in an aggregate, whose value is up to the endpoint"
		}
	}
	if ordered && !a.Ordered {
		return "the order of rows without ORDER BY is up to the endpoint: register the query with ordered: false, or order by each " +
			"variable that is selected"
	}
	t := Parse(text)
	if x := t.analyser(text); x.tied(t.Query, ordered) || x.tiedInside() {
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
func (x *analyser) tied(q *Select, sequence bool) bool {
	c, err := x.clauses(q)
	switch {
	case err != nil:
		return true
	case !c.ordered || !sequence && c.limit < 0 && c.offset < 0:
		return false
	}
	keys := map[string]bool{}
	for _, v := range c.orderKeys {
		keys[v] = true
	}
	decide := func(names []string) bool {
		return len(names) > 0 && !slices.ContainsFunc(names, func(v string) bool { return !keys[v] })
	}
	// DISTINCT leaves one of the groups that look the same, which may be any of them.
	alike := c.distinct && slices.ContainsFunc(c.keys, func(v string) bool { return !slices.Contains(c.vars, v) })
	return (c.open || alike || !decide(c.keys)) && !decide(x.shown(q, &c))
}

// tiedInside is tied for the sub-selects of the query, whose sequences of rows do not matter.
func (x *analyser) tiedInside() bool {
	all := allSelects(nil, x.Query)
	return slices.ContainsFunc(all[:len(all)-1], func(q *Select) bool { return x.tied(q, false) })
}

// shown returns the variables on which the rows of a query depend, none if they have columns without a name.
func (x *analyser) shown(q *Select, c *clauses) (list []string) {
	var of *Group
	switch {
	case q.Template != nil:
		of = q.Template
	case c.star || x.form(q) == "CONSTRUCT":
		of = q.Where
	}
	if c.unnamed > 0 {
		return nil
	}
	names := map[string]bool{}
	if of != nil {
		x.Tree.note(of.Span, names)
	}
	for name := range names {
		list = append(list, name[1:])
	}
	return append(list, c.vars...)
}
