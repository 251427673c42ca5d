package sparql

import "testing"

func TestDeclare(t *testing.T) {
	known := map[string]string{"wd:": "http://www.wikidata.org/entity/", "wdt:": "http://www.wikidata.org/prop/direct/",
		"wikibase:": "http://wikiba.se/ontology#"}
	const wd, wdt = "PREFIX wd: <http://www.wikidata.org/entity/>\n", "PREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"
	for _, c := range []struct{ text, want string }{
		{"SELECT ?x { ?x wdt:P31 wd:Q5 }", wdt + wd + "SELECT ?x { ?x wdt:P31 wd:Q5 }"},
		{"# cats\nPREFIX wd: <http://x.example/> SELECT ?x { ?x wdt:P31 wd:Q146 }", "# cats\nPREFIX wd: <http://x.example/> " + wdt +
			"SELECT ?x { ?x wdt:P31 wd:Q146 }"},
		{"DEFINE input:inference \"r\"\nASK { wd:Q1 ?p ?o }", "DEFINE input:inference \"r\"\n" + wd + "ASK { wd:Q1 ?p ?o }"},
		{"ASK { ?a other:b ?c }", "ASK { ?a other:b ?c }"},
		{"ASK { ?a ?b \"wd:Q1\" } # wd:Q2", "ASK { ?a ?b \"wd:Q1\" } # wd:Q2"},
		{"INSERT DATA { wd:Q1 wd:Q2 wd:Q3 }", "INSERT DATA { wd:Q1 wd:Q2 wd:Q3 }"},
		{"no query", "no query"},
		{"", ""},
	} {
		if got := Declare(c.text, known); got != c.want {
			t.Errorf("Declare(%q) = %q, want %q", c.text, got, c.want)
		}
	}
	if got := Declare("ASK { dbr:Ulm dbo:country ?c }", nil); got != "PREFIX dbr: <http://dbpedia.org/resource/>\nPREFIX dbo: "+
		"<http://dbpedia.org/ontology/>\nASK { dbr:Ulm dbo:country ?c }" {
		t.Errorf("the usual prefixes: %q", got)
	}
	// The same query, as its normal form says, and without a warning.
	text := Declare("SELECT ?x { ?x wdt:P31 wd:Q5 SERVICE wikibase:label { } }", known)
	a, err := Analyse(text)
	if err != nil || a.Normal != "SELECT ?x { ?x <http://www.wikidata.org/prop/direct/P31> <http://www.wikidata.org/entity/Q5> "+
		"SERVICE <http://wikiba.se/ontology#label> { } }" {
		t.Errorf("%v %v", a, err)
	}
}
