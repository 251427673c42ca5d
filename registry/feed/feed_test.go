package feed

import (
	"testing"

	"github.com/freshet/freshet/registry/sparql"
)

func TestReach(t *testing.T) {
	const wd = "http://www.wikidata.org/entity/"
	label := "<http://www.w3.org/2000/01/rdf-schema#label>"
	type pattern = sparql.Pattern
	q42 := "<" + wd + "Q42>"
	document := Event{Entity: wd + "Q42", Loose: []Loose{{Subjects: []string{q42}, Things: wd + "Q", Predicate: ""}}}
	labels := Event{Loose: []Loose{{Subjects: []string{q42}, Predicate: label}}}
	added := Event{Added: []pattern{{Subject: q42, Predicate: label, Object: `"Douglas`}}}
	for _, c := range []struct {
		name string
		e    Event
		p    pattern
		want Reach
	}{
		{"the triple", added, pattern{Subject: q42, Predicate: label}, Matched},
		{"another text", added, pattern{Predicate: label, Object: `"Adams`}, None},
		{"a removed triple", Event{Removed: added.Added}, pattern{Predicate: label}, Matched},
		{"a blank node is no constant", Event{Added: []pattern{{Subject: "_", Predicate: label, Object: "_"}}},
			pattern{Subject: q42, Predicate: label}, None},
		{"the document", document, pattern{Subject: q42}, Possible},
		{"a variable", document, pattern{Predicate: label}, Possible},
		{"another thing", document, pattern{Subject: "<" + wd + "Q1>", Predicate: label}, None},
		{"another node", document, pattern{Subject: "<http://en.wikipedia.org/wiki/X>"}, Possible},
		{"other nodes are untouched without things", labels, pattern{Subject: "<http://en.wikipedia.org/wiki/X>"}, None},
		{"another predicate", labels, pattern{Subject: q42, Predicate: "<http://example.org/p>"}, None},
		{"anything", Event{All: true}, pattern{Subject: "<" + wd + "Q1>"}, Possible},
		{"nothing", Event{}, pattern{}, None},
	} {
		if got := c.e.Reach([]pattern{c.p}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
