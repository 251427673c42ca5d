package sparql

import (
	"slices"
	"strings"
	"testing"
)

// What no endpoint takes is refused, with the remedy and the place. Words of products pass.
func TestWhatNoEndpointTakes(t *testing.T) {
	for _, c := range []struct {
		text, says string // "" = accepted
		column     int
	}{
		{"SELECT (COUNT(*) as n) { ?s ?p ?o }", "AS needs a variable: write ?n", 21},
		{"SELECT COUNT(*) AS n { ?s ?p ?o }", "AS needs a variable: write ?n", 20},
		{"SELECT ?s { ?s ?p ?o BIND(STR(?o) AS m) }", "write ?m", 38},
		{"SELECT ?k { ?s ?p ?o } GROUP BY (STR(?o) AS k)", "write ?k", 45},
		{"SELECT ?s { { SELECT (MAX(?o) AS m) { ?s ?p ?o } } }", "write ?m", 34},
		{"SELECT ?s FROM { ?s ?p ?o }", "FROM needs the IRI of a graph", 11},
		{"SELECT ?o { <http://example.org/a b> ?p ?o }", "the IRI <http://example.org/a b> contains a blank: write %20", 13},
		{"PREFIX x: <http://example.org/a b> SELECT ?o { x:y ?p ?o }", "contains a blank", 11},
		{"SELECT ?s { ?s ?p ?o FILTER(?o = <http://example.org/a b>) }", "contains a blank", 34},
		{"SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "", 0},
		{"SELECT COUNT(*) AS ?n { ?s ?p ?o }", "", 0},
		{"SELECT COUNT(?x) AS ?n , ?s FROM <http://g/> { ?s ?p ?x }", "", 0},
		{"SELECT ?s FROM NAMED <http://g/> FROM g:h { ?s ?p ?x }", "", 0},
		{"DEFINE input:inference 'x' SELECT ?s bif:length(?o) { ?s ?p ?o . ?o bif:contains \"a\" OPTION (score ?sc) }", "", 0},
		{"SELECT ?s { ?s ?p ?o FILTER(sql:cast(?o AS integer) > 1 && CAST(?o AS integer) > 1) }", "", 0},
		{"SELECT ?s WITH { SELECT ?s { ?s ?p ?o } } AS %sub WHERE { INCLUDE %sub }", "", 0},
		{"SELECT ?s { ?s ?p ?o FILTER(?o <?s && ?s > ?o) }", "", 0},
		{"SELECT ?s { ?s ?p ?o FILTER(?o < http:x && ?s > ?o) }", "", 0},
	} {
		_, err := Analyse(c.text)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if e, ok := err.(*SyntaxError); !ok || !strings.Contains(e.Message, c.says) || e.Column != c.column {
			t.Errorf("%s: %v, expected %q at column %d", c.text, err, c.says, c.column)
		}
	}
}

// A projected variable outside of the groups gives a warning only: Virtuoso takes some such queries.
func TestUngroupedVariables(t *testing.T) {
	for text, column := range map[string]int{
		"SELECT ?s ?n { ?s ?p ?n } GROUP BY ?s":                                         11,
		"SELECT ?s (COUNT(*) AS ?c) ?n { ?s ?p ?n } GROUP BY ?s HAVING(?c > 1)":         28,
		"SELECT * { ?s ?p ?n } GROUP BY ?s":                                             8,
		"SELECT ?x { { SELECT ?x ?n { ?x ?p ?n } GROUP BY ?x } }":                       25,
		"SELECT ?s (COUNT(*) AS ?c) { ?s ?p ?n } GROUP BY ?s":                           0,
		"SELECT ?s ?k { ?s ?p ?n } GROUP BY ?s (STR(?n) AS ?k)":                         0,
		"SELECT ?s ?n { ?s ?p ?n } GROUP BY (?s) ?n ORDER BY ?n":                        0,
		"SELECT COUNT(?n) AS ?c { ?s ?p ?n } GROUP BY ?s":                               0,
		"SELECT ?s ?n { ?s ?p ?n }":                                                     0,
		"SELECT ?s (?n AS ?m) { ?s ?p ?n } GROUP BY ?s ?n":                              0,
		"SELECT ?s { ?s ?p ?n { SELECT ?n (MAX(?o) AS ?m) { ?n ?q ?o } GROUP BY ?n } }": 0,
	} {
		a, err := Analyse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		i := slices.IndexFunc(a.Warnings, func(w Warning) bool { return w.Code == Ungrouped })
		if (i >= 0) != (column > 0) || i >= 0 && a.Warnings[i].Column != column {
			t.Errorf("%s: warnings %+v, expected one at column %d", text, a.Warnings, column)
		}
	}
}
