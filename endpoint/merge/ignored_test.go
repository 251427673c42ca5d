package merge

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/registry/sparql"
)

const prefix = "PREFIX : <http://x/> "

// Each rule decides about the query beside it: without the rule, the query is
// accepted, refused for another reason, or has other parameters.
func TestEveryRuleDecides(t *testing.T) {
	for rule, query := range map[Reason]string{
		Limit:         "SELECT ?o { :c :p ?o } LIMIT 1",
		Describe:      "DESCRIBE :c",
		Reduced:       "SELECT REDUCED ?o { :c :p ?o }",
		NoParameter:   "SELECT ?s { ?s :p ?o }",
		Dynamic:       "SELECT ?o (RAND() AS ?r) { :c :p ?o }",
		Path:          "SELECT ?o { :c :p ?x . ?x :q+ ?o }",
		Order:         "SELECT ?o { :c :p ?o } ORDER BY STR(?o)",
		Aggregate:     "SELECT (MAX(?o) AS ?m) { :c :p ?o }",
		Modifiers:     "ASK { :c :p ?o } GROUP BY ?o",
		BlankTemplate: "CONSTRUCT { ?o :p _:b } WHERE { :c :p ?o }",
		Columns:       "SELECT ?o ?o { :c :p ?o }",
		Nested:        "SELECT ?o { :c :p ?o MINUS { ?o :q ?x } }",
		Unbound:       "SELECT ?o ?x { :c :p ?o OPTIONAL { ?o :q ?x } ?x :r ?y }",
		Repeated:      "SELECT ?o { :c :p ?o . ?o ?k ?o }",
		Disconnected:  "SELECT ?o { :c :p ?o . :d :p ?s }",
		Trivial:       "SELECT ?o { :c :p ?o FILTER(!BOUND(?o)) }",
		Dialect:       "SELECT ?o { <c> :p ?o }",
		keepClass:     "SELECT ?s { ?s a :C ; :p :c }",
		keepPath:      "SELECT DISTINCT ?o { :c :p|:q ?o . :d :q ?o }",
		keepSearch:    "SELECT ?s { ?s <http://www.bigdata.com/rdf/search#search> \"word\" ; :p :c }",
		keepOptional:  "SELECT ?s { ?s :p :c OPTIONAL { ?s :q :d } }",
		keepHidden:    "SELECT ?s { ?s :p :c FILTER EXISTS { :c :q :d } }",
		keepTyped:     "SELECT ?s { ?s :p 1 ; :q :c }",
	} {
		a, err := sparql.Analyse(prefix + query)
		if err != nil {
			t.Fatal(err)
		}
		if with, without := outcome(a, ""), outcome(a, rule); with == without {
			t.Errorf("%s makes no difference for %s: %s", rule, query, with)
		}
	}
}

// outcome describes what parse does.
func outcome(a *sparql.Analysis, ignored Reason) string {
	t, args, err := parse(a, ignored)
	if err != nil {
		return err.Error()
	}
	return t.ID + strings.Join(args, " ")
}
