package watch_test

import (
	"fmt"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/watch"
)

// A link from the browser's address bar names the entity that its page is about.
func ExampleEntityIRI() {
	iri := watch.EntityIRI("https://www.wikidata.org/wiki/Q42")
	fmt.Println(iri)
	fmt.Println(watch.SiteOf(iri).Title)
	// Output:
	// http://www.wikidata.org/entity/Q42
	// Wikidata
}

// A copied link says what to watch and where, without a request to anybody.
func ExampleParseLink() {
	l, err := watch.ParseLink("https://query.wikidata.org/#%23title%3ACats%0ASELECT%20%3Fcat%20%7B%20%3Fcat%20wdt%3AP31%20wd%3AQ146%20%7D")
	fmt.Println(l.Describe(watch.Plain), "at", l.Endpoint, err)
	fmt.Println(l.Query())
	_, err = watch.ParseLink("https://w.wiki/3kD")
	fmt.Println(strings.ReplaceAll(err.Error(), ": ", ":\n"))
	// Output:
	// “Cats” at https://query.wikidata.org/sparql <nil>
	// #title:Cats
	// SELECT ?cat { ?cat wdt:P31 wd:Q146 }
	// A setting is out of range:
	// only w.wiki knows where this short link leads, and this server only asks its endpoints:
	// open it in a browser and copy the address that it becomes
}

// A row suggests conditions of alert rules.
func ExampleOffers() {
	row := []diff.Term{{Kind: diff.IRI, Value: "http://x.example/north"}, {Kind: diff.Literal, Value: "3",
		Datatype: "http://www.w3.org/2001/XMLSchema#integer"}}
	for _, o := range watch.Offers(diff.Select, []string{"garage", "free"}, row) {
		fmt.Println(o.Key+":", o.When("5"))
	}
	// Output:
	// row: removed ?garage where ?garage = <http://x.example/north>
	// cell0: changed ?garage where ?free = 3
	// cell1: changed ?free where ?garage = <http://x.example/north>
	// above1: ?free > 5 and ?garage = <http://x.example/north>
	// below1: ?free < 5 and ?garage = <http://x.example/north>
	// new: added ?garage
	// rows: rows > 5
	// any: changed
}

// A change of any query can be written for people.
func ExampleInWords() {
	docks := func(bikes string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		if err := b.SetVars([]string{"dock", "bikes"}); err != nil {
			panic(err)
		}
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: "dock 7"}, diff.Term{Kind: diff.Literal, Value: bikes}); err != nil {
			panic(err)
		}
		r, err := b.Finish()
		if err != nil {
			panic(err)
		}
		return r
	}
	words := watch.InWords(diff.Compare(docks("3"), docks("4")), nil, watch.Plain)
	fmt.Println(words.Headline)
	fmt.Println(words.Lines[0])
	// Output:
	// 1 row added, 1 removed
	// dock 7: bikes 3 → 4
}
