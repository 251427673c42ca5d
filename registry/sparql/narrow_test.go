package sparql

import (
	"fmt"
	"testing"
)

// What the rows of a result show narrows the patterns of a query.
func TestNarrowed(t *testing.T) {
	head := "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http://www.wikidata.org/prop/direct/> " +
		"PREFIX wikibase: <http://wikiba.se/ontology#> PREFIX bd: <http://www.bigdata.com/rdf#> "
	const service = `SERVICE wikibase:label { bd:serviceParam wikibase:language "en" }`
	for text, want := range map[string]string{ // the columns of the patterns, with + if they hold for both
		"SELECT ?item ?itemLabel { ?item wdt:P31 wd:Q5 . " + service + " }":                                  "item item+",
		"SELECT ?itemLabel { ?item wdt:P31 wd:Q5 . " + service + " }":                                        "",
		"SELECT ?item ?aLabel ?itemLabel { ?item wdt:P31 ?a . " + service + " }":                             "item - item+",
		"SELECT ?item ?l { ?item wdt:P31 wd:Q5 OPTIONAL { ?item wdt:P1 ?l FILTER(?l > 3) } }":                "item item+",
		"SELECT ?item ?l { ?item wdt:P31 wd:Q5 ; wdt:P1 ?l }":                                                "item item",
		"SELECT ?item { ?item wdt:P31 wd:Q5 MINUS { ?item wdt:P1 ?l } OPTIONAL { ?item wdt:P2 ?m } }":        "item - -",
		"SELECT ?item { ?item wdt:P31 wd:Q5 SERVICE wikibase:around { ?item wdt:P625 ?x } " + service + " }": "item -",
		"SELECT ?item { ?item wdt:P31 wd:Q5 OPTIONAL { ?item wdt:P1 ?l } FILTER(!BOUND(?l)) }":               "item -",
		"SELECT ?item { ?item wdt:P31 wd:Q5 OPTIONAL { ?item wdt:P1 ?l } ?x wdt:P2 ?l }":                     "item - -",
		"SELECT (STR(?item) AS ?s) ?item { ?item wdt:P31 wd:Q5 }":                                            "",
		"SELECT ?item { ?item wdt:P31/wdt:P279 wd:Q5 }":                                                      "item -",
		"SELECT ?item { ?item wdt:P31/wdt:P279* wd:Q5 ; wdt:P1 ?x }":                                         "- - item",
		"SELECT ?item { ?item wdt:P31 wd:Q5 } GROUP BY ?item":                                                "",
		"SELECT ?item { ?item wdt:P31 wd:Q5 } ORDER BY ?item":                                                "item",
		"ASK { ?item wdt:P31 wd:Q5 }":                                                                        "",
		"CONSTRUCT { ?item a wd:Q5 } WHERE { ?item wdt:P31 wd:Q5 }":                                          "",
	} {
		got := ""
		for _, n := range Narrowed(head + text) {
			c := n.Column
			if c == "" {
				c = "-"
			}
			if n.Both {
				c += "+"
			}
			got = fmt.Sprint(got, " ", c)
		}
		if got != "" {
			got = got[1:]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
