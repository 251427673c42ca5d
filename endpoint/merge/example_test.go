package merge_test

import (
	"fmt"

	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry/sparql"
)

// Two queries that differ in a constant have the same template. One request answers both.
func ExampleParse() {
	var template *merge.Template
	var members [][]string
	for _, stop := range []string{"market", "harbour"} {
		a, err := sparql.Analyse("SELECT ?line { <urn:x:" + stop + "> <urn:x:servedBy> ?line }")
		if err != nil {
			panic(err)
		}
		t, args, err := merge.Parse(a)
		if err != nil {
			panic(err)
		}
		fmt.Println(template == nil || template.ID == t.ID, args)
		template, members = t, append(members, args)
	}
	fmt.Println(template.Query(members))

	a, err := sparql.Analyse("DESCRIBE <urn:x:market>")
	if err != nil {
		panic(err)
	}
	_, _, err = merge.Parse(a)
	fmt.Println(err)
	// Output:
	// true [<urn:x:market>]
	// true [<urn:x:harbour>]
	// SELECT ?i ?line WHERE { VALUES ( ?i ?p0 ) { ( 0 <urn:x:market> ) ( 1 <urn:x:harbour> ) } ?p0 <urn:x:servedBy> ?line }
	// cannot be merged: describe
}
