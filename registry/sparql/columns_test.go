package sparql

import "testing"

// Only columns that the text does not ask for are foreign: endpoints leave columns out, reorder them, and name
// expressions themselves.
func TestForeignColumn(t *testing.T) {
	for _, c := range []struct {
		text, foreign string
		columns       []string
	}{
		{"SELECT ?s { ?s ?p ?o }", "zz", []string{"zz"}},
		{"SELECT ?s { ?s ?p ?o }", "p", []string{"s", "p"}},
		{"SELECT ?s ?o { ?s ?p ?o }", "", []string{"o", "s"}},
		{"SELECT ?s ?o { ?s ?p ?o }", "", []string{"s"}},
		{"SELECT ?s ?o { ?s ?p ?o }", "", nil},
		{"SELECT ?s ?o { ?s ?p ?o }", "x", []string{"s", "o", "x"}},
		{"SELECT DISTINCT $s, ?Label { ?s ?p ?Label }", "", []string{"S", "label"}},
		{"SELECT REDUCED ?s (?s) { ?s ?p ?o }", "", []string{"s", "s__1"}},
		{"SELECT * { ?s ?p ?o }", "", []string{"o", "p", "s"}},
		{"SELECT * { ?s ?p ?o FILTER EXISTS { ?s ?q ?r } }", "", []string{"s", "q", "r"}},
		{"SELECT * { ?s ?p ?o }", "zz", []string{"s", "zz"}},
		{"SELECT (COUNT(*) AS ?n) (MAX(?o) AS ?m) ?s { ?s ?p ?o } GROUP BY ?s", "callret-0", []string{"n", "m", "s", "callret-0"}},
		{"SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "", []string{"n"}},
		{"SELECT (SUM(?x * (1 + 2)) AS ?n) { ?s ?p ?x }", "x", []string{"x"}},
		{"SELECT COUNT(?o) AS ?n { ?s ?p ?o }", "", []string{"n"}},
		{"SELECT COUNT(?o) AS ?n bif:length(?x) AS ?m { ?s ?p ?o }", "o", []string{"n", "m", "o"}},
		{"SELECT COUNT(*) { ?s ?p ?o }", "", []string{"callret-0"}},
		{"SELECT ?s COUNT(?o) { ?s ?p ?o } GROUP BY ?s", "", []string{"s", "callret-1"}},
		{"SELECT (MAX(?o)) { ?s ?p ?o }", "", []string{"callret-0"}},
		{"SELECT str(?s) 1 { ?s ?p ?o }", "", []string{"callret-0", "callret-1"}},
		{"SELECT ?s ?o + 1 { ?s ?p ?o }", "", []string{"s", "callret-1"}},
		{"SELECT ?s ?s { ?s ?p ?o }", "", []string{"s", "s__1"}},
		{"SELECT ?s FROM <http://g/> WHERE { { SELECT ?s ?x { ?s ?p ?x } } }", "x", []string{"s", "x"}},
		{"DEFINE input:inference \"r\" SELECT ?s { ?s ?p ?o }", "zz", []string{"zz"}},
		{"ASK { ?s ?p ?o }", "", []string{"zz"}},
		{"this is no query", "", []string{"zz"}},
	} {
		if got := ForeignColumn(c.text, c.columns); got != c.foreign {
			t.Errorf("%s with %q: %q is foreign, expected %q", c.text, c.columns, got, c.foreign)
		}
	}
}
