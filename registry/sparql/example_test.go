package sparql_test

import (
	"errors"
	"fmt"

	"github.com/freshet/freshet/registry/sparql"
)

// Equivalent texts have the same normal form. Warnings report what makes a
// query unsuitable for watching.
func ExampleAnalyse() {
	a, err := sparql.Analyse("PREFIX ex: <http://example.org/>\nselect $s { $s ex:knows ?o } limit 5 # friends")
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Form)
	fmt.Println(a.Normal)
	fmt.Println(a.Warnings[0].Code)
	_, err = sparql.Analyse("DELETE WHERE { ?s ?p ?o }")
	fmt.Println(errors.Is(err, sparql.ErrUpdate))
	// Output:
	// SELECT
	// SELECT ?s { ?s <http://example.org/knows> ?o } LIMIT 5
	// limit-without-order
	// true
}

// A change of the data can only change a query's result if one of the query's patterns
// matches a triple that was added or removed.
func ExamplePatterns() {
	list, why := sparql.Patterns("SELECT ?name { <http://example.org/ann> <http://example.org/knows>/<http://example.org/name> ?name }")
	fmt.Printf("%q\n", why)
	for _, p := range list {
		fmt.Printf("%q %q %q\n", p.Subject, p.Predicate, p.Object)
	}
	known := sparql.Pattern{Subject: "<http://example.org/ann>", Predicate: "<http://example.org/knows>", Object: "<http://example.org/ben>"}
	fmt.Println(list[0].Matches(known), list[1].Matches(known))
	// Output:
	// ""
	// "<http://example.org/ann>" "<http://example.org/knows>" ""
	// "" "<http://example.org/name>" ""
	// true false
}

// Tokens are what editors colour and what all readers of a query share.
func ExampleTokens() {
	tokens, err := sparql.Tokens("ASK { ?s a <http://example.org/Stop> } # any?")
	if err != nil {
		panic(err)
	}
	for _, t := range tokens {
		fmt.Printf("%d:%s ", t.Pos, t.Text)
	}
	fmt.Println()
	// Output:
	// 0:ASK 4:{ 6:?s 9:a 11:<http://example.org/Stop> 37:}
}
