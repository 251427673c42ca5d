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
