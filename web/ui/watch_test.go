package ui

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A visitor pastes an address, sees what is covered, watches it, and reads its changes in
// words.
func TestWatchPages(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.endpoint("wikidata")
	fact := func(property, value string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		if err := b.SetVars([]string{"property", "value"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Row(diff.Term{Kind: diff.IRI, Value: "http://x.example/" + property}, diff.Term{Kind: diff.Literal, Value: value}); err != nil {
			t.Fatal(err)
		}
		x, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const text = `SELECT ?property ?value WHERE { <http://www.wikidata.org/entity/Q42> ?property ?value FILTER(STRSTARTS(STR(?property), "http://www.wikidata.org/prop/direct/")) }`
	q, err := r.reg.Analyse(registry.Registration{Endpoint: "wikidata", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	r.oracle.set(q.ID, fact("birthPlace", "Ulm"))
	r.get("/queries").has(`href="/watch"`)
	r.get("/watch?iri=Q42").status(200).has(`value="Q42"`, "Watch without SPARQL")
	page := []string{"iri", "https://www.wikidata.org/wiki/Q42", "kind", "entity", "labels", "de, en", "name", "adams"}
	r.post("/watch", append(page, "do", "look")...).status(200).has("all properties of Q42", "at wikidata", "1 row now", "birthPlace: Ulm", "Nothing is saved yet.", "STRSTARTS", `value="adams"`)
	if _, err := r.reg.Query(q.ID); err == nil {
		t.Fatal("looking registers the watch")
	}
	r.follow(r.post("/watch", page...)).status(200).has("It is watched.", "Changes of all properties of Q42", "Nothing yet.")
	r.tick("wikidata")
	r.oracle.set(q.ID, fact("birthPlace", "Neu-Ulm"))
	r.tick("wikidata")
	r.get("/watches/adams").status(200).has("birthPlace: Ulm → Neu-Ulm", "first result: 1 row", queryPath(q.ID)+"/changes/2")
	r.get(queryPath(q.ID)).status(200).has(`href="/watches/` + q.ID)
	for _, city := range []string{"Berlin", "Bern", "Princeton"} { // more than a page of the log holds
		r.oracle.set(q.ID, fact("birthPlace", city+strings.Repeat(" x", 1<<20)))
		r.tick("wikidata")
	}
	r.get("/watches/adams").status(200).has("Bern x", "→ Princeton x")
	for _, endpoint := range []string{"city", "wikidata"} { // both know it: the visitor chooses, and sees where
		known, err := r.reg.Analyse(registry.Registration{Endpoint: endpoint, Text: "ASK { { <http://x.example/a> ?a ?b } UNION { ?c ?d <http://x.example/a> } }"})
		if err != nil {
			t.Fatal(err)
		}
		r.oracle.set(known.ID, yes(t))
	}
	doubt := r.post("/watch", "iri", "http://x.example/a", "kind", "entity").status(422).has("Choose one: city, wikidata")
	if at := strings.Index(doubt.body, "f-endpoint"); at < 0 || at > strings.Index(doubt.body, "More settings") {
		t.Error("the endpoint is folded away")
	}
	other := r.register("city", "other", "ASK { ?a ?b ?c }")
	r.get("/watches/" + other.ID).status(404).has("This query is no watch")
	r.get(queryPath(other.ID)).status(200).lacks("/watches/")
	r.oracle.partial("cut off")
	r.post("/watch", append(page, "do", "look")...).status(200).has("A trial run brought no result.", "Cut off.")
}

func yes(t *testing.T) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	err := b.SetBoolean(true)
	x, e := b.Finish()
	if err != nil || e != nil {
		t.Fatal(err, e)
	}
	return x
}
