package merge

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
)

// Without one of the rules, the merged answers of these queries are wrong or cannot be
// had. With the rules they are right, or the query is asked alone.
func TestRulesAreNeeded(t *testing.T) {
	e := engine(t, "")
	needed(t, ask(e), func(data string) {
		if err := e.Update(context.Background(), prefix+"CLEAR ALL; INSERT DATA { "+data+" }"); err != nil {
			t.Fatal(err)
		}
	}, []ruleCase{
		{Limit, "SELECT ?o { C :p ?o } LIMIT 1", ":a :p 1 . :b :p 2"},
		{Limit, "SELECT ?o { C :p ?o } ORDER BY ?o OFFSET 1", ":a :p 1, 2 . :b :p 1, 2"},
		{Aggregate, "SELECT (MAX(?o) AS ?m) { C :p ?o }", ":a :p 1"},
		{Aggregate, "SELECT (COUNT(*) + 1 AS ?n) { C :p ?o }", ":a :p 1"},
		{Aggregate, "SELECT (COUNT(*) AS ?n) { C :p ?o } HAVING (COUNT(*) > 0)", ":a :p 1"},
		{Nested, "SELECT * { C :p ?o { SELECT ?o { ?o :q ?x } } }", ":a :p :o . :o :q 1"},
		{Nested, "SELECT ?s ?x { { ?s a :T OPTIONAL { ?s :p C ; :q ?x } } ?t :r C }", ":s a :T ; :p :a ; :q 1 . :t :r :a , :b"},
		{Nested, "SELECT ?y ?x { ?s :r C OPTIONAL { ?s a ?y OPTIONAL { ?s :p C ; :q ?x } } }", ":s a :T ; :p :a ; :q 1 ; :r :a , :b"},
		{Nested, "SELECT ?s { ?s :r C MINUS { C :p :x } }", ":s :r :a , :b . :a :p :x"},
		{Nested, "SELECT ?s { ?s :r C { SELECT ?s { ?s :p C } } }", ":s :r :a , :b ; :p :a"},
		{Trivial, "SELECT (COUNT(*) AS ?n) { C :p ?o FILTER(!BOUND(?o)) }", ":a :p 1"},
		{Dynamic, "SELECT ?o (STRUUID() AS ?u) { C :p ?o }", ":a :p 1 . :b :p 2"},
		{BlankTemplate, "CONSTRUCT { _:x :p ?o } WHERE { C :p ?o }", ":a :p 1 . :b :p 2"},
		{Dialect, "SELECT ?o { C :p ?o } VALUES ?o { 1 }", ":a :p 1, 2 . :b :p 2"},
	})
}

// ruleCase is a query that would be answered wrongly without a rule.
type ruleCase struct {
	rule        Reason
	query, data string // C is the constant that differs
}

// needed checks that each query is answered wrongly without its rule only.
func needed(t *testing.T, ask asker, load func(data string), list []ruleCase) {
	t.Helper()
	for _, c := range list {
		load(c.data)
		texts := make([]string, 2)
		for i, constant := range []string{":a ", ":b "} {
			texts[i] = prefix + strings.ReplaceAll(c.query, "C ", constant)
		}
		if !differ(t, ask, texts, c.rule) {
			t.Errorf("%s is not needed for %s", c.rule, c.query)
		}
		if c.rule != Dynamic && differ(t, ask, texts, "") {
			t.Errorf("%s is answered wrongly", c.query)
		}
	}
}

// differ reports whether any answer is another one when asked merged.
func differ(t *testing.T, ask asker, texts []string, ignored Reason) bool {
	t.Helper()
	list, _ := cohorts(t, texts, ignored)
	n := &tally{}
	for _, c := range list {
		c.compare(ask, rand.New(rand.NewPCG(1, 1)), n)
	}
	return len(n.found)+len(n.doubts) > 0
}
