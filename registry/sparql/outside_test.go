package sparql

import "testing"

const declared = "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX p: <http://www.wikidata.org/prop/> " +
	"PREFIX ps: <http://www.wikidata.org/prop/statement/> PREFIX pq: <http://www.wikidata.org/prop/qualifier/> " +
	"PREFIX x: <http://x/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "

func reachedBy(t *testing.T, text string, triple Pattern) {
	t.Helper()
	list, why := Patterns(declared + text)
	if why != "" {
		return
	}
	for _, p := range list {
		if p.Matches(triple) {
			return
		}
	}
	t.Errorf("%s is not reached by %+v: %+v", text, triple, list)
}

// An edit is about a lexeme, and the statements can be those of its forms and senses.
func TestStatementsOfFormsAreReached(t *testing.T) {
	const st = "<http://www.wikidata.org/entity/statement/L4082-F1-DE357278>"
	ps := Pattern{Subject: st, Predicate: "<http://www.wikidata.org/prop/statement/P443>", Object: "<http://x/new>",
		Owner: "<http://www.wikidata.org/entity/L4082>"}
	reachedBy(t, "SELECT ?v { wd:L4082-F1 p:P443 ?st . ?st ps:P443 ?v }", ps)
	reachedBy(t, "SELECT ?v { wd:L4082-F1 p:P443/ps:P443 ?v }", ps)
	reachedBy(t, "SELECT ?v { wd:L4082-F1 p:P443 [ ps:P443 ?v ] }", ps)
	reachedBy(t, "SELECT ?v { wd:L4082 p:P443/ps:P443 ?v }", ps)
}

// A nested group can leave a variable unbound that an outer one binds to the statements of an entity.
func TestNestedGroupsHaveNoOwners(t *testing.T) {
	other := Pattern{Subject: "<http://www.wikidata.org/entity/statement/Q43-1>",
		Predicate: "<http://www.wikidata.org/prop/qualifier/P1>", Object: "<http://x/o>", Owner: "<http://www.wikidata.org/entity/Q43>"}
	reachedBy(t, "SELECT * { wd:Q42 p:P31 ?st { ?x x:q ?y MINUS { ?st pq:P1 ?x } } }", other)
	reachedBy(t, "SELECT * { wd:Q42 p:P31 ?st { ?x x:q ?y FILTER NOT EXISTS { ?st pq:P1 ?x } } }", other)
	reachedBy(t, "SELECT * { wd:Q42 p:P31 ?st { OPTIONAL { ?st pq:P1 ?t } } }", other)
	reachedBy(t, "SELECT * { wd:Q42 p:P31 ?st { ?x x:q ?y OPTIONAL { ?st pq:P1 ?x } } }", other)
}

func TestComputedValuesAreUnprovable(t *testing.T) {
	for _, text := range []string{
		"SELECT ?s { ?s x:p ?o FILTER(?o > bif:now()) }",
		"SELECT ?s { ?s x:p ?o FILTER(?o > ofn:now()) }",
		"SELECT (bif:rnd(10) AS ?r) { ?s x:p ?o }",
		"SELECT ?s { ?s x:p ?o FILTER(?o > CURRENT_TIMESTAMP()) }",
		"SELECT ?s { ?s x:p ?o FILTER(?o > curdatetime()) }",
		"SELECT ?s ?m { ?s rdfs:member ?m }",
		"PREFIX search: <http://www.openrdf.org/contrib/lucenesail#> SELECT ?s { ?s search:matches [ search:query \"x\" ] }",
		"SELECT ?s { ?s <http://www.openrdf.org/schema/sesame#directSubClassOf> ?m }",
	} {
		if why := Unprovable(declared+text, false); why == "" {
			t.Errorf("%s counts as provable", text)
		}
	}
}
