package pack_test

import (
	"fmt"
	"strings"

	"github.com/freshet/freshet/endpoint/pack"
)

// A pack proposes the settings of a public endpoint, each with its source.
func ExampleFind() {
	p, err := pack.Find("wikidata")
	if err != nil {
		panic(err)
	}
	e, err := p.Endpoint()
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Title)
	fmt.Println(e.URL)
	for _, s := range p.Settings {
		if s.Source == "" {
			fmt.Println(s.Name, "has no source")
		}
	}
	_, err = pack.Find("wikidatta")
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n"))
	// Output:
	// Wikidata Query Service
	// https://query.wikidata.org/sparql
	// The endpoint's settings do not fit: there is no pack "wikidatta";
	// there are commons, dbpedia, europeana, nomisma, uniprot, wikidata, wikidata-qlever, wikidata-scholarly
}
