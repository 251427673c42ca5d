package merge_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry/sparql"
)

const prefixes = "PREFIX : <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "

func parse(t testing.TB, text string) (*merge.Template, []string, error) {
	t.Helper()
	a, err := sparql.Analyse(prefixes + text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return merge.Parse(a)
}

// Which constants become parameters, shown by a merged query of two members
// whose arguments all differ.
func TestParameters(t *testing.T) {
	for _, c := range []struct{ query, args, merged string }{
		{"SELECT ?p ?o { :c ?p ?o }", "<http://x/c>",
			"SELECT ?i ?p ?o WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } ?p0 ?p ?o }"},
		{"SELECT DISTINCT ?s WHERE { ?s a :C ; :p :c , \"x\" . OPTIONAL { ?s :q :c ; } } ORDER BY DESC(?s)", `<http://x/c> "x"`,
			"SELECT DISTINCT ?i ?s WHERE { VALUES ( ?i ?p0 ?p1 ) { ( 0 <http://x/c> \"x\" ) ( 1 <u:0> <u:1> ) } ?s a <http://x/C> ; " +
				"<http://x/p> ?p0 , ?p1 . " +
				"OPTIONAL { ?s <http://x/q> ?p0 ; } } ORDER BY ?i DESC( ?s )"},
		{"ASK { ?i ?p0 :c }", "<http://x/c>",
			"SELECT DISTINCT ?i_ WHERE { VALUES ( ?i_ ?p0_ ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } ?i ?p0 ?p0_ }"},
		{"CONSTRUCT { :c :has ?x . ?x a :C } FROM <g:1> { :c :p/(:q|:s) ?x . ?x ^:r|(:s/^:t) ?y . ?y :u :d . FILTER(?x != :d) }", "<http://x/d>",
			"SELECT DISTINCT ?i ?x FROM <g:1> WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/d> ) ( 1 <u:0> ) } <http://x/c> <http://x/p> " +
				"/ ( <http://x/q> | <http://x/s> ) ?x . " +
				"?x ^ <http://x/r> | ( <http://x/s> / ^ <http://x/t> ) ?y . ?y <http://x/u> ?p0 . FILTER( ?x != <http://x/d> ) }"},
		{"CONSTRUCT WHERE { :c :p ?o ; a :D }", "<http://x/c>",
			"SELECT DISTINCT ?i ?o WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } ?p0 <http://x/p> ?o ; a <http://x/D> }"},
		{"SELECT (COUNT(*) AS ?n) { ?s :p :c, 1, \"1\"^^xsd:byte, (:l), [ :q :d ] }", "<http://x/c> <http://x/d>",
			"SELECT ?i ( COUNT( * ) AS ?n ) WHERE { VALUES ( ?i ?p0 ?p1 ) { ( 0 <http://x/c> <http://x/d> ) ( 1 <u:0> <u:1> ) } ?s " +
				"<http://x/p> ?p0 , 1 , " +
				"\"1\"^^<http://www.w3.org/2001/XMLSchema#byte> , ( <http://x/l> ) , [ <http://x/q> ?p1 ] } GROUP BY ?i"},
		{"SELECT ?k (MAX(?v) AS ?m) { ?k :p :c ; :v ?v } GROUP BY ?k HAVING (COUNT(*) > 1)", "<http://x/c>",
			"SELECT ?i ?k ( MAX( ?v ) AS ?m ) WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } ?k <http://x/p> ?p0 ; " +
				"<http://x/v> ?v } GROUP BY ?i ?k HAVING( COUNT( * ) > 1 )"},
		{"SELECT ?s ?x { { ?s :p :c } UNION { :c :p ?s ; :q :d } OPTIONAL { ?s :q :c, :d } BIND(:d AS ?x) VALUES ?s { :f } }", "<http://x/c>",
			"SELECT ?i ?s ?x WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } { ?s <http://x/p> ?p0 } UNION { ?p0 " +
				"<http://x/p> ?s ; <http://x/q> <http://x/d> } " +
				"OPTIONAL { ?s <http://x/q> ?p0 , <http://x/d> } BIND( <http://x/d> AS ?x ) VALUES ?s { <http://x/f> } }"},
		{"SELECT ?s { GRAPH :g { ?s :p :c } FILTER NOT EXISTS { ?s :t :f , :c } }", "<http://x/c>",
			"SELECT ?i ?s WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } GRAPH <http://x/g> { ?s <http://x/p> ?p0 } " +
				"FILTER NOT EXISTS { ?s <http://x/t> <http://x/f> , <http://x/c> } }"},
		{"SELECT ?s { ?s <http://www.bigdata.com/rdf/search#search> \"word\" ; :p :c }", "<http://x/c>",
			"SELECT ?i ?s WHERE { VALUES ( ?i ?p0 ) { ( 0 <http://x/c> ) ( 1 <u:0> ) } ?s <http://www.bigdata.com/rdf/search#search> " +
				"\"word\" ; <http://x/p> ?p0 }"},
	} {
		tpl, args, err := parse(t, c.query)
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		if got := strings.Join(args, " "); got != c.args {
			t.Errorf("%s: arguments %s, want %s", c.query, got, c.args)
		}
		other := make([]string, len(args))
		for i := range other {
			other[i] = "<u:" + string(rune('0'+i)) + ">"
		}
		if got := tpl.Query([][]string{args, other}); got != c.merged {
			t.Errorf("%s\n got %s\nwant %s", c.query, got, c.merged)
		}
	}
}

// The argument of a search stays as it is, also where the engine knows the prefix without a declaration.
func TestSearchesKeepTheirArguments(t *testing.T) {
	for _, search := range []string{
		"bds:search", "ql:contains-word", "text:query", "luc:query", "gas:in", "fts:search",
		"<http://www.openrdf.org/contrib/lucenesail#query>", "<http://qlever.cs.uni-freiburg.de/builtin-functions/contains-word>",
		"<http://www.bigdata.com/rdf/search#search>", "<http://wikiba.se/ontology#around>",
	} {
		_, args, err := parse(t, "SELECT ?s { ?s "+search+" \"word\" ; :p :c }")
		if got := strings.Join(args, " "); err != nil || got != "<http://x/c>" {
			t.Errorf("%s: arguments %s, %v", search, got, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		query  string
		reason merge.Reason
	}{
		{"SELECT ?o { :c :p ?o } LIMIT 1", merge.Limit},
		{"SELECT ?o { :c :p ?o } OFFSET 1", merge.Limit},
		{"DESCRIBE :c", merge.Describe},
		{"SELECT REDUCED ?o { :c :p ?o }", merge.Reduced},
		{"SELECT ?o { SELECT ?o { :c :p ?o } }", merge.Nested},
		{"SELECT ?o { :c :p ?o { SELECT ?o { ?o :q ?x } LIMIT 1 } }", merge.Nested},
		{"SELECT ?o { :c :p ?o MINUS { ?o :q ?x } }", merge.Nested},
		{"SELECT ?o { :c :p ?o SERVICE <s:1> { ?o :q ?x } }", merge.Nested},
		{"SELECT ?o { :c :p ?o OPTIONAL { ?o :q ?x OPTIONAL { ?x :r ?y } } }", merge.Nested},
		{"SELECT ?o { :c :p ?o { { ?o :q ?x } UNION { ?o :r ?x } } }", merge.Nested},
		{"SELECT ?o { :c :p ?o FILTER(?o = 1 || EXISTS { ?o :q ?x }) }", merge.Nested},
		{"SELECT ?o { :c :p ?o OPTIONAL { ?o :q ?x } OPTIONAL { ?o :r ?x } }", merge.Unbound},
		{"SELECT ?o { :c :p ?o OPTIONAL { ?o :q ?x } ?x :r ?y }", merge.Unbound},
		{"SELECT ?o { { :c :p ?o } UNION { :c :q ?x } ?x :r ?o }", merge.Unbound},
		{"SELECT ?o { :c :p ?o OPTIONAL { ?o :q ?x FILTER(?x != ?o && ?y != ?x) } ?y :r ?o }", merge.Unbound},
		{"SELECT ?o { :c :p ?o OPTIONAL { ?o :q ?x } BIND(STR(?x) AS ?y) }", merge.Unbound},
		{"SELECT ?o { :c :p ?o VALUES ?x { UNDEF :d } ?o :q ?x }", merge.Unbound},
		{"SELECT ?o ?x { :c :p ?o }", merge.Unbound},
		{"SELECT ?o { :c :p ?o FILTER(?x != ?o) }", merge.Unbound},
		{"CONSTRUCT { ?o :q ?x } WHERE { :c :p ?o }", merge.Unbound},
		{"SELECT ?o { :c :p ?o . :d :p ?s }", merge.Disconnected},
		{"SELECT ?o { :c :p ?o ; a :D . ?s a :D }", merge.Disconnected},
		{"SELECT ?o { :c :p ?o OPTIONAL { ?s :p :d } }", merge.Disconnected},
		{"SELECT ?o { :c :p ?o VALUES ?x { :d } }", merge.Disconnected},
		{"SELECT ?o { :c :p ?o FILTER EXISTS { ?s :p :d } }", merge.Disconnected},
		{"SELECT ?o { :c :p ?o FILTER(1 = 2) }", merge.Trivial},
		{"SELECT ?o { :c :p ?o FILTER BOUND(?o) }", merge.Trivial},
		{"SELECT ?o { :c :p ?o FILTER(?o != 1 && !BOUND(?o)) }", merge.Trivial},
		{"SELECT ?o { :c :p ?o . ?o ^:q \"x\" }", merge.Path},
		{"SELECT DISTINCT ?o { :c :p ?x . ?x :q* ?o }", merge.Path},
		{"ASK { :c :p ?x . ?x :q+ :d }", merge.Path},
		{"SELECT ?o { :c :p ?o . ?o :q ?o }", merge.Repeated},
		{"SELECT ?o { :c :p ?o , :c }", merge.Repeated},
		{"SELECT ?o { :c :p ?o . ?o ^:q/:r ?x , ?o }", merge.Repeated},
		{"SELECT ?o { :c :p ?o . ?o ?q ?x , ?q }", merge.Repeated},
		{"SELECT ?o { :c :p ?o . ?o ?o ?x }", merge.Repeated},
		{"SELECT ?s { ?s a :C }", merge.NoParameter},
		{"SELECT ?s { ?s :p 1 }", merge.NoParameter},
		{"SELECT ?o { :c :p ?o FILTER(?o < NOW()) }", merge.Dynamic},
		{"SELECT ?o { :c :p ?x . ?x !(:p|^:q) ?o }", merge.Path},
		{"SELECT ?o { :c :p ?o } ORDER BY STR(?o)", merge.Order},
		{"SELECT ?o { :c :p ?o ; :q ?q } ORDER BY ?q", merge.Order},
		{"SELECT (MAX(?o) AS ?m) { :c :p ?o }", merge.Aggregate},
		{"SELECT (COUNT(*)+1 AS ?m) { :c :p ?o }", merge.Aggregate},
		{"SELECT (GROUP_CONCAT(?o) AS ?m) { :c :p ?o ; :q ?q } GROUP BY ?q", merge.Aggregate},
		{"SELECT (COUNT(*) AS ?m) { :c :p ?o } HAVING (COUNT(*) > 1)", merge.Aggregate},
		{"ASK { :c :p ?o } GROUP BY ?o", merge.Modifiers},
		{"CONSTRUCT WHERE { :c :p _:b }", merge.BlankTemplate},
		{"CONSTRUCT { [] :p ?o } WHERE { :c :p ?o }", merge.BlankTemplate},
		{"CONSTRUCT { ?o :p _:b } WHERE { :c :p ?o }", merge.BlankTemplate},
		{"SELECT * { :c :p ?o FILTER EXISTS { ?o :q ?x } }", merge.Columns},
		{"SELECT ?o ?o { :c :p ?o }", merge.Columns},
		{"SELECT ?o { :c bif:contains ?o }", merge.Dialect},
		{"SELECT ?o { <c> :p ?o }", merge.Dialect},
		{"DEFINE input:same-as \"yes\" SELECT ?o { :c :p ?o }", merge.Dialect},
		{"#pragma reasoning off\nSELECT ?o { :c :p ?o }", merge.Dialect},
		{"PREFIX franzOption_engine: <franz:mjqe> SELECT ?o { :c :p ?o }", merge.Dialect},
		{"SELECT ?o { :c :p ?o } VALUES ?o { 1 }", merge.Dialect},
		{"SELECT ?o { << :c :p ?o >> :q ?o }", merge.Dialect},
		{"SELECT ?o { :c :p 'a\\qb' , ?o }", merge.Dialect},
	} {
		_, _, err := parse(t, c.query)
		var r *merge.Refusal
		if !errors.As(err, &r) || r.Reason != c.reason {
			t.Errorf("%s: %v, want %s", c.query, err, c.reason)
		}
	}
}

// The FROM clauses of a template are those of the outermost query: a sub-select may not
// have any.
func TestDatasetOfMergedQueries(t *testing.T) {
	x, args, err := parse(t, "SELECT ?o FROM :g FROM NAMED :h { :a :p ?o }")
	if err != nil {
		t.Fatal(err)
	}
	members := [][]string{args, {"<http://x/b>"}}
	for _, text := range []string{x.Query(members), x.Probe(members, "SALT")} {
		if a, err := sparql.Analyse(text); err != nil || !a.HasFrom {
			t.Errorf("%s: FROM is missing or in a wrong place: %v", text, err)
		}
	}
}
