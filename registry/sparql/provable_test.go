package sparql

import (
	"strings"
	"testing"
)

func TestUnprovable(t *testing.T) {
	const prefix = "PREFIX x: <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX geof: " +
		"<http://www.opengis.net/def/function/geosparql/> "
	sequence := func(text string) bool { // as it is unless the registration says otherwise
		a, err := Analyse(prefix + text)
		return err == nil && a.Ordered
	}
	for text, want := range map[string]string{
		`SELECT ?e { ?e x:until ?d FILTER(?d > NOW()) }`:                                           "it calls NOW",
		`SELECT (RAND() AS ?r) {}`:                                                                 "it calls RAND",
		`SELECT * { ?s x:p ?o BIND(UUID() AS ?u) }`:                                                "it calls UUID",
		`SELECT * { ?s x:p ?o BIND(BNODE() AS ?u) }`:                                               "it calls BNODE",
		`SELECT * { ?s x:p ?o } LIMIT 3`:                                                           "LIMIT",
		`SELECT * { { SELECT ?s { ?s x:p ?o } LIMIT 3 } ?s x:q ?o }`:                               "LIMIT",
		`SELECT ?s { ?s x:p ?o } ORDER BY ?o LIMIT 3`:                                              "ORDER BY leaves equal",
		`SELECT (SAMPLE(?o) AS ?x) { ?s x:p ?o }`:                                                  "SAMPLE",
		`SELECT ?s (GROUP_CONCAT(?o; separator=",") AS ?x) { ?s x:p ?o } GROUP BY ?s`:              "GROUP_CONCAT",
		`SELECT * { ?s x:p ?o FILTER(x:f(?o)) }`:                                                   "it calls the function <http://x/f>",
		`SELECT * { ?s x:p ?o FILTER x:f(?o) }`:                                                    "it calls the function <http://x/f>",
		`SELECT (x:f(?o) AS ?y) { ?s x:p ?o }`:                                                     "it calls the function <http://x/f>",
		`SELECT ?s { ?s x:p ?o } GROUP BY ?s HAVING (x:f(?s))`:                                     "it calls the function <http://x/f>",
		`SELECT * { ?s x:p ?o OPTIONAL { ?o x:q ?z FILTER(x:f(?z)) } }`:                            "it calls the function <http://x/f>",
		`SELECT * { ?s x:p ?o FILTER EXISTS { ?o x:q ?z BIND(x:f(?z) AS ?w) } }`:                   "it calls the function <http://x/f>",
		`SELECT * { ?s <http://qlever.cs.uni-freiburg.de/builtin-functions/has-predicate> ?p }`:    "computes",
		`SELECT * { ?s bds:search "word" }`:                                                        "bds:search names",
		`SELECT * { ?s ql:contains-word "word" }`:                                                  "computes",
		`SELECT * { GRAPH <urn:x-arq:UnionGraph> { ?s x:p ?o } }`:                                  "computes",
		`SELECT * { GRAPH <tag:stardog:api:context:all> { ?s x:p ?o } }`:                           "computes",
		`SELECT REDUCED ?s { ?s x:p ?o }`:                                                          "REDUCED",
		`DESCRIBE x:s`:                                                                             "DESCRIBE",
		`SELECT ?s ?o { ?s x:p ?o } ORDER BY ?o LIMIT 3`:                                           "ORDER BY leaves equal",
		`SELECT ?s ?o { ?s x:p ?o } ORDER BY DESC(?o)`:                                             "ORDER BY leaves equal",
		`SELECT * { ?s x:p ?o } ORDER BY ?s OFFSET 3`:                                              "ORDER BY leaves equal",
		`SELECT ?s { ?s x:p ?o } ORDER BY LCASE(?s) LIMIT 3`:                                       "ORDER BY leaves equal",
		`SELECT ?s { ?s x:p ?o } ORDER BY STR(?s) LIMIT 3`:                                         "ORDER BY leaves equal",
		`SELECT ?s (COUNT(*) AS ?n) { ?s x:p ?o } GROUP BY ?s ORDER BY DESC(?n) LIMIT 3`:           "ORDER BY leaves equal",
		`SELECT ?s { { SELECT ?s ?o { ?s x:p ?o } ORDER BY ?o LIMIT 3 } ?s x:q ?z }`:               "ORDER BY leaves equal",
		`SELECT ?s { ?s x:p ?o } ORDER BY EXISTS { ?s x:q ?o } LIMIT 3`:                            "ORDER BY leaves equal",
		`SELECT ?s ?o { ?s x:p ?o } ORDER BY ?s + ?o LIMIT 3`:                                      "ORDER BY leaves equal",
		`SELECT (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s STRLEN(?o) ORDER BY ?s LIMIT 3`:          "ORDER BY leaves equal",
		`SELECT (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s (STRLEN(?o)) ORDER BY ?s LIMIT 3`:        "ORDER BY leaves equal",
		`SELECT (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s EXISTS { ?o x:q 1 } ORDER BY ?s LIMIT 3`: "ORDER BY leaves equal",
		`SELECT ?s COUNT(?o) { ?s x:p ?o } ORDER BY ?s LIMIT 3`:                                    "ORDER BY leaves equal",
		`CONSTRUCT { ?s x:r ?o } { ?s x:p ?o } ORDER BY ?o LIMIT 3`:                                "ORDER BY leaves equal",
		`SELECT ?s { ?s x:p ?o } ORDER BY ?s -1 LIMIT 3`:                                           "ORDER BY leaves equal",
		`SELECT ?s { ?s x:p ?o } ORDER BY ?s LIKE "a" LIMIT 3`:                                     "ORDER BY leaves equal",
		`SELECT DISTINCT (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s ORDER BY ?s LIMIT 3`:            "ORDER BY leaves equal",
		`SELECT ?s { ?s x:p ?o } GROUP BY ?o`:                                                      "neither",
		`SELECT ?o { { SELECT * { ?s x:p ?o } GROUP BY ?o } }`:                                     "neither",
		`SELECT * { ?s x:p ?o FILTER EXISTS { { SELECT ?o { ?o x:q ?z } ORDER BY ?z LIMIT 1 } } }`: "ORDER BY leaves equal",
		`SELECT * { <nodeID://b10001> x:p ?o }`:                                                    "blank node",
		`SELECT * { ?s x:p <_:b7> }`:                                                               "blank node",
		`SELECT * { ?s x:p <http://x/.well-known/genid/b7> }`:                                      "blank node",
		`PREFIX y: <http://x/.well-known/> SELECT * { y:genid\/b7 x:p ?o }`:                        "blank node",
		`SELECT * { ?s x:p ?o FILTER(?s = <http://x/.well-known/genid/b7>) }`:                      "blank node",
	} {
		if why := Unprovable(prefix+text, sequence(text)); !strings.Contains(why, want) || why == "" {
			t.Errorf("%s: %q", text, why)
		}
	}
	for _, text := range []string{
		`SELECT * { ?s x:p <http://www.wikidata.org/.well-known/genid/b7> }`,
		`SELECT * { ?s x:p ?o }`, `SELECT ?s ?o { ?s x:p ?o } ORDER BY ?o ?s LIMIT 3`, `SELECT * { x:s (x:p|x:q)+ ?o }`,
		`SELECT * { ?s x:p ?o FILTER EXISTS { x:s (x:p|x:q)/x:r ?o } }`, `SELECT * { ?s x:p ?o FILTER(xsd:integer(?o) > 3 && ?o IN (x:a, x:b)) }`,
		`SELECT * { ?s x:p ?o FILTER(geof:distance(?o, ?o) < 3) }`, `SELECT (COUNT(*) AS ?n) { ?s x:p ?o }`,
		`SELECT * { ?s x:p ?o } VALUES (?s) { (x:a) (x:b) }`, `SELECT * { ?s x:p ?o } ORDER BY LCASE(?o) DESC(?s) ASC(?o) OFFSET 3`,
		`SELECT ?s (COUNT(*) AS ?n) { ?s x:p ?o } GROUP BY ?s ORDER BY DESC(?n) ?s LIMIT 3`,
		`SELECT DISTINCT ?s (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s ORDER BY ?s LIMIT 3`,
		`SELECT (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s ORDER BY (?s) LIMIT 3`, `CONSTRUCT { ?s x:r ?o } { ?s x:p ?o } ORDER BY ?s ?o LIMIT 3`,
		`CONSTRUCT WHERE { ?s x:p ?o } ORDER BY ?s ?o LIMIT 3`,
		`SELECT * { ?s x:p ?o SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }`,
		`SELECT ?s { ?s x:p ?o { SELECT ?s { ?s x:q ?z } ORDER BY ?z } }`, `SELECT ?s { ?s x:p ?o } ORDER BY ?o ?s LIMIT 9`,
	} {
		if why := Unprovable(prefix+text, sequence(text)); why != "" {
			t.Errorf("%s: %s", text, why)
		}
	}
	for _, text := range []string{ // names of the query's own prefixes that cannot be expanded
		`PREFIX wikibase: <http://e/./> SELECT * { ?s ?p ?o FILTER(wikibase:f(?o)) }`,
		`BASE <http://e/> PREFIX wikibase: <> SELECT * { ?s ?p ?o SERVICE wikibase:label { ?a ?b ?c } }`,
	} {
		if why := Unprovable(text, false); why == "" {
			t.Errorf("%s is provable", text)
		}
	}
	if why := Unprovable(prefix+`SELECT ?s ?o { ?s x:p ?o } ORDER BY ?o`, false); why != "" {
		t.Errorf("if the sequence is no part of the result: %s", why)
	}
	for _, text := range []string{`SELECT ?s { ?s x:p ?o }`, `SELECT ?s { { SELECT ?s { ?s x:p ?o } ORDER BY ?s } }`} {
		if why := Unprovable(prefix+text, true); !strings.Contains(why, "the order of rows without ORDER BY") {
			t.Errorf("%s, if the sequence is part of the result: %q", text, why)
		}
	}
}
