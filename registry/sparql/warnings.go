package sparql

import (
	"fmt"
	"strings"
)

// Warning describes something that makes a query unsuitable for watching, or
// that another endpoint may interpret differently. Code is one of the constants
// below, Message is for people, Line and Column count from 1.
type Warning struct {
	Code, Message string
	Line, Column  int
}

// The codes of warnings. Each occurs at most once per query, at its first position.
const (
	LimitWithoutOrder = "limit-without-order"
	OrderTies         = "order-ties"
	NonDeterministic  = "non-deterministic"
	Service           = "service"
	UndeclaredPrefix  = "undeclared-prefix"
	Pragma            = "pragma"
	Ungrouped         = "ungrouped"
)

func (x *analyser) warnings(a *Analysis, p *prologue, undeclared []Token) []Warning {
	var out []Warning
	add := func(code string, pos int, format string, args ...any) {
		line, column := lineColumn(x.text, pos)
		out = append(out, Warning{Code: code, Message: fmt.Sprintf(format, args...), Line: line, Column: column})
	}
	if x.unordered != nil {
		add(LimitWithoutOrder, x.unordered.Pos,
			"LIMIT or OFFSET without ORDER BY: the endpoint may choose other rows each time, "+
				"which then arrive as changes")
	}
	if key, ok := x.looseOrder(); ok {
		add(OrderTies, x.top.orderPos,
			"ORDER BY %s, which is not among the projected variables: rows may move for no visible reason, "+
				"and rows that tie come in any order", key)
	}
	if names := a.NonDeterministic; len(names) > 0 {
		add(NonDeterministic, x.random.first,
			"%s gives another value each time, so the result may change although the data did not", enumerate(names))
	}
	if len(a.Services) > 0 {
		add(Service, x.services.first,
			"SERVICE makes the endpoint ask another one (%s), whose failures and delays become this query's own", enumerate(a.Services))
	}
	if t := x.ungrouped; t != nil {
		add(Ungrouped, t.Pos,
			"%s is projected, but it is neither in GROUP BY nor in an aggregate: most endpoints refuse such a query", shorten(t.Text))
	}
	if len(undeclared) > 0 {
		add(UndeclaredPrefix, undeclared[0].Pos, "%s", undeclaredPrefixes(undeclared))
	}
	if t := p.pragma; t != nil {
		engine := "Virtuoso"
		switch {
		case t.Kind == Name:
			engine = "AllegroGraph or Oracle"
		case t.Text[0] == '#':
			engine = "Stardog"
		}
		add(Pragma, t.Pos, "%s is understood by %s alone", shorten(t.canonical()), engine)
	}
	return out
}

// undeclaredPrefixes lists undeclared prefixes, with the usual meaning of well-known
// ones.
func undeclaredPrefixes(undeclared []Token) string {
	names, usual := make([]string, len(undeclared)), []string(nil)
	for i, t := range undeclared {
		names[i] = t.Text
		if iri, ok := usualPrefixes[t.Text]; ok && len(usual) < 5 {
			usual = append(usual, "PREFIX "+t.Text+" <"+iri+">")
		}
	}
	said := "no PREFIX for " + enumerate(names) + ", so only an endpoint that knows it by itself can run the query"
	if len(usual) > 0 {
		said += "; usually it is " + strings.Join(usual, " ")
	}
	return said
}

// usualPrefixes have the same meaning nearly everywhere.
var usualPrefixes = map[string]string{
	"rdf:": "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "rdfs:": "http://www.w3.org/2000/01/rdf-schema#",
	"owl:": "http://www.w3.org/2002/07/owl#", "xsd:": "http://www.w3.org/2001/XMLSchema#",
	"skos:": "http://www.w3.org/2004/02/skos/core#", "foaf:": "http://xmlns.com/foaf/0.1/", "dc:": "http://purl.org/dc/elements/1.1/",
	"dct:": "http://purl.org/dc/terms/", "dcterms:": "http://purl.org/dc/terms/", "schema:": "http://schema.org/",
	"prov:": "http://www.w3.org/ns/prov#", "void:": "http://rdfs.org/ns/void#", "dcat:": "http://www.w3.org/ns/dcat#",
	"sh:": "http://www.w3.org/ns/shacl#", "sosa:": "http://www.w3.org/ns/sosa/", "ssn:": "http://www.w3.org/ns/ssn/",
	"time:": "http://www.w3.org/2006/time#", "vcard:": "http://www.w3.org/2006/vcard/ns#", "dbo:": "http://dbpedia.org/ontology/",
	"dbr:": "http://dbpedia.org/resource/", "wd:": "http://www.wikidata.org/entity/", "wdt:": "http://www.wikidata.org/prop/direct/",
}

// looseOrder describes a top-level ORDER BY condition whose value the result rows do
// not contain. It returns false if there is none.
func (x *analyser) looseOrder() (string, bool) {
	c := x.top
	if x.form(x.Query) != "SELECT" || !c.ordered {
		return "", false
	}
	if !c.plainOrder {
		return "an expression", true
	}
	projected := map[string]bool{}
	for _, v := range c.vars {
		projected[v] = true
	}
	for _, k := range c.orderKeys {
		if !c.star && !projected[k] {
			return "?" + shorten(k), true
		}
	}
	return "", false
}

// enumerate lists names, only the first few if there are many.
func enumerate(names []string) string {
	const most = 5
	short := make([]string, 0, most)
	for _, n := range names[:min(len(names), most)] {
		short = append(short, shorten(n))
	}
	list := strings.Join(short, ", ")
	if more := len(names) - most; more > 0 {
		list = fmt.Sprintf("%s and %d more", list, more)
	}
	return list
}
