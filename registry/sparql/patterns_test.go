package sparql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// show writes patterns with x: for http://x/ and _ for what is left open.
func show(list []Pattern) string {
	var out []string
	for _, p := range list {
		line := fmt.Sprintf("%s %s %s %s", p.Subject, p.Predicate, p.Object, p.Graph)
		words := strings.Split(line, " ")
		for i, w := range words {
			w = strings.ReplaceAll(strings.Trim(w, "<>"), "http://x/", "x:")
			if w = strings.ReplaceAll(w, strings.Trim(rdfType, "<>"), "a"); strings.HasPrefix(w,
				"http://www.w3.org/2000/01/rdf-schema#") || strings.HasPrefix(w, "http://schema.org/") {
				w = w[strings.LastIndexAny(w, "/#")+1:]
			}
			if w == "" {
				w = "_"
			}
			words[i] = w
		}
		out = append(out, strings.TrimSuffix(strings.Join(words, " "), " _"))
	}
	return strings.Join(out, " . ")
}

func TestPatterns(t *testing.T) {
	const prefix = "PREFIX x: <http://x/> "
	for text, want := range map[string]string{
		`SELECT * { ?s ?p ?o }`:    `_ _ _`,
		`SELECT * { x:s x:p x:o }`: `x:s x:p x:o`,
		`SELECT * { ?s a x:C ; x:p ?o , "v"@en , [ x:q 5 ] ; . x:s ?p [] }`: `_ a x:C . _ x:p _ ` +
			`. _ x:p "v . _ x:q _ . _ x:p _ . x:s _ _`,
		`ASK { [ x:p "1"^^x:int ] x:q true . [] x:r "w"^^<http://www.w3.org/2001/XMLSchema#string> }`:      `_ x:p _ . _ x:q _ . _ x:r "w`,
		`CONSTRUCT { ?s x:t ?o } FROM x:g WHERE { ?s x:p ?o }`:                                             `_ x:p _`,
		`CONSTRUCT WHERE { ?s x:p ?o }`:                                                                    `_ x:p _`,
		`SELECT (COUNT(?s) AS ?n) (EXISTS { x:a x:b ?c } AS ?e) { ?s x:p ?o } GROUP BY ?s HAVING (?n > 3)`: `x:a x:b _ . _ x:p _`,
		`SELECT * { { ?s x:p ?o } UNION { ?s x:q ?o } OPTIONAL { ?o x:r ?z } MINUS { ?s x:m ?n } }`: `_ x:p _ . _ x:q _ ` +
			`. _ x:r _ . _ x:m _`,
		`SELECT * { ?s x:p ?o FILTER NOT EXISTS { ?s x:q ?o } FILTER(?o = x:no && !bound(?z)) FILTER x:f(1)}`: `_ x:p _ . _ x:q _`,
		`SELECT * { ?s x:p ?o FILTER(?o > 3 || EXISTS { ?o x:q 1 }) BIND(x:no AS ?b) VALUES (?s) { (x:v) } }`: `x:v x:p _ . _ x:q _`,
		`SELECT * { { SELECT ?s (MAX(?o) AS ?m) { ?s x:p ?o } GROUP BY ?s ORDER BY ?s LIMIT 3 } ?s x:q ?z }`:  `_ x:p _ . _ x:q _`,
		`SELECT * { GRAPH x:g { ?s x:p ?o } ?s x:q ?z GRAPH ?g { ?s x:r ?o } } VALUES ?s { x:no }`:            `_ x:p _ x:g . _ x:q _ . _ x:r _`,
		`SELECT * { ?s x:p/x:q ?o . x:s ^x:r ?o . ?s (x:t|x:u)+ x:o }`: `_ x:p _ . _ x:q _ ` +
			`. _ x:r _ . _ x:t _ . _ x:u _`,
		`SELECT * { ?s x:p/x:q* ?o }`:                                                                  `_ x:p _ . _ x:q _`,
		`SELECT * { ?s x:p* ?o }`:                                                                      `_ _ _`,
		`SELECT * { ?s x:p* x:o }`:                                                                     `_ x:p _ . x:o _ _ . _ _ x:o`,
		`SELECT * { ?s x:p?|x:q x:o }`:                                                                 `_ x:p _ . _ x:q _ . x:o _ _ . _ _ x:o`,
		`SELECT * { x:s !x:p ?o }`:                                                                     `_ _ _`,
		`SELECT * { x:s !(x:p|^x:q)/x:r ?o }`:                                                          `_ _ _`,
		`SELECT * { x:s u:p "v" }`:                                                                     `_ _ _`,
		`SELECT * { u:s x:p <relative> }`:                                                              `_ x:p _`,
		`SELECT * { ?s <http://x/a/../p> <http://x/b/.> }`:                                             `_ _ _`,
		`SELECT * { ?s x:p "a b\n\"c" }`:                                                               `_ x:p "a b` + "\n" + `"c`,
		`SELECT (1 AS ?x) {}`:                                                                          ``,
		`SELECT * { VALUES ?s { x:a x:b } ?s x:p ?o }`:                                                 `x:a x:p _ . x:b x:p _`,
		`SELECT * { ?s x:p/x:q ?o VALUES ?s { x:a x:b } }`:                                             `_ x:p _ . _ x:q _`,
		`SELECT * { VALUES (?s ?o) { (x:a 1) (x:b "v") } ?s x:p ?o }`:                                  `x:a x:p _ . x:b x:p _`,
		`SELECT * { VALUES (?s ?o) { (x:a UNDEF) (x:b x:c) } ?s x:p ?o }`:                              `x:a x:p _ . x:b x:p _`,
		`SELECT * { BIND(x:a AS ?s) ?s x:p ?o OPTIONAL { ?s x:q ?z } }`:                                `x:a x:p _ . x:a x:q _`,
		`SELECT * { OPTIONAL { ?s x:q ?z } VALUES ?s { x:a } }`:                                        `_ x:q _`,
		`SELECT * { ?s x:p ?o OPTIONAL { ?s x:q ?z } VALUES ?s { x:a } }`:                              `x:a x:p _ . x:a x:q _`,
		`SELECT * { VALUES ?s { x:a } { OPTIONAL { ?s x:q ?z } } }`:                                    `_ x:q _`,
		`SELECT * { VALUES ?s { x:a } { ?s x:p ?o OPTIONAL { ?s x:q ?z } } }`:                          `x:a x:p _ . x:a x:q _`,
		`SELECT * { VALUES ?s { x:a } { SELECT * { ?s x:p ?o } LIMIT 1 } FILTER EXISTS { ?s x:r 1 } }`: `_ x:p _ . x:a x:r _`,
		`SELECT * { ?s x:p ?o } VALUES ?s { x:a }`:                                                     `_ x:p _`,
		`SELECT * { VALUES ?o { <<( x:a x:b x:c )>> } ?s x:p ?o }`:                                     `_ x:p _`,
		`SELECT * { VALUES (?q ?r ?s) { (<< x:a x:b x:c >> x:d x:e) } ?s x:p ?o }`:                     `_ x:p _`,
		`SELECT ?sLabel ?tDescription { VALUES ?s { x:a } ?s x:p ?t SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }`://
		`x:a x:p _ . x:a label _ . _ description _`,
	} {
		list, why := Patterns(prefix + text)
		if d := cmp.Diff(want, show(list)); d != "" || why != "" {
			t.Errorf("%s\n%s %s", text, why, d)
		}
		if _, err := Analyse(prefix + text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		`DESCRIBE x:s`, `DESCRIBE ?s { ?s x:p ?o }`, `SELECT * { SERVICE x:s { ?s x:p ?o } }`,
		`SELECT * { ?s x:p ?o . { SERVICE SILENT ?e { ?s x:q ?o } } }`, `SELECT * { ?s x:list (1 2) }`, `SELECT * { (1 2) x:p ?o }`,
		`SELECT * { GRAPH ?g {} }`, `SELECT * { GRAPH x:g { OPTIONAL { ?s x:p ?o } } }`, `SELECT * { GRAPH ?g { x:s x:p* ?o } }`,
		`SELECT * { << ?s x:p ?o >> x:q ?z }`, `SELECT * { ?s x:p ?o OPTION (TRANSITIVE) }`,
		`SELECT * WITH { SELECT * { ?s x:p ?o } } AS %n { INCLUDE %n }`, `SELECT * { ?s x:p ?o LATERAL { ?o x:q ?z } }`,
		`SELECT * { ?s x:p{1,3} ?o }`, `no query`, ``,
	} {
		if list, why := Patterns(prefix + text); why == "" {
			t.Errorf("%s has the patterns %s", text, show(list))
		}
	}
	if _, why := Patterns(`PREFIX franzOption_reasoner: <franz:rdfs++> SELECT * { ?s ?p ?o }`); why == "" {
		t.Error("patterns with an option of AllegroGraph")
	}
	if _, why := Patterns(`DEFINE input:inference "r" SELECT * { ?s ?p ?o }`); why == "" {
		t.Error("a query with a pragma has patterns")
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add(`SELECT * { ?s <http://x/p>/<http://x/q>* [ a 5 ] FILTER(EXISTS { ?a ?b "c"@en }) } VALUES ?s { 1 }`)
	f.Add(`CONSTRUCT { ?s ?p ?o } { GRAPH ?g { ?s ?p ?o } }`)
	f.Fuzz(func(t *testing.T, text string) {
		list, why := Patterns(text)
		if again, same := Patterns(text); same != why || len(again) != len(list) {
			t.Fatal("two readings differ")
		}
	})
}

// A statement is part of the data of one entity.
func TestOwners(t *testing.T) {
	const wikidata = "http://www.wikidata.org/"
	head := fmt.Sprintf("PREFIX wd: <%[1]sentity/> PREFIX p: <%[1]sprop/> PREFIX ps: <%[1]sprop/statement/> "+
		"PREFIX pq: <%[1]sprop/qualifier/> PREFIX schema: <http://schema.org/> ", wikidata)
	for text, want := range map[string]int{ // how many patterns have an owner
		"SELECT * { wd:Q1 p:P5 ?st . ?st ps:P5 ?v OPTIONAL { ?st pq:P6 ?r } }":             2,
		"SELECT * { ?st ps:P5 ?v . wd:Q1 p:P5 ?st }":                                       1,
		"SELECT * { OPTIONAL { ?st ps:P5 ?v } wd:Q1 p:P5 ?st }":                            0,
		"SELECT * { OPTIONAL { wd:Q1 p:P5 ?st } ?st ps:P5 ?v }":                            0,
		"SELECT * { wd:Q1 p:P5 ?st { SELECT ?st { ?st ps:P5 ?v } } }":                      0,
		"SELECT * { wd:Q1 p:P5 [ ps:P5 ?v ; pq:P6 [ ps:P7 ?w ] ] }":                        2,
		"SELECT * { wd:Q1 p:P5/ps:P5 ?v }":                                                 1,
		"SELECT * { wd:Q1 p:P5/ps:P5/pq:P6 ?v }":                                           1,
		"SELECT * { wd:Q1 ps:P5/ps:P5 ?v }":                                                0,
		"SELECT * { ?x p:P5 ?st . ?st ps:P5 ?v }":                                          0,
		"SELECT * { wd:Q1 p:P5 ?st MINUS { ?st ps:P5 ?v } FILTER EXISTS { ?st pq:P6 3 } }": 2,
		"SELECT * { ?a schema:about wd:Q1 ; schema:isPartOf ?w . ?w schema:name ?n }":      2,
		"SELECT * { ?a schema:about ?q ; schema:isPartOf ?w }":                             0,
		"SELECT * { ?a schema:isPartOf ?w OPTIONAL { ?a schema:about wd:Q1 } }":            1,
		"SELECT * { ?a schema:about+ wd:Q1 ; schema:isPartOf ?w }":                         0,
		"SELECT * { ?a schema:name wd:Q1 ; schema:isPartOf ?w }":                           0,
		"SELECT * { VALUES ?q { wd:Q1 wd:Q2 } ?q p:P5 ?st . ?st ps:P5 ?v }":                0,
	} {
		list, why := Patterns(head + text)
		n := 0
		for _, p := range list {
			if p.Owner != "" {
				n++
			}
			if p.Owner != "" && (p.Owner != "<http://www.wikidata.org/entity/Q1>" || p.Subject != "") {
				t.Errorf("%s: %+v", text, p)
			}
		}
		if why != "" || n != want {
			t.Errorf("%s: %d owners, want %d: %+v %s", text, n, want, list, why)
		}
	}
}

// A query with many constants has a bounded number of patterns, which match all that its own patterns match.
func TestPatternsAreBounded(t *testing.T) {
	var values, triples, labels strings.Builder
	for i := range 900 {
		fmt.Fprintf(&values, "<http://x/e%d> ", i)
	}
	for i := range 100 {
		fmt.Fprintf(&triples, "?e <http://x/p%d> ?v%d . ", i, i)
		fmt.Fprintf(&labels, "?v%dLabel ?eLabel ", i)
	}
	text := "SELECT " + labels.String() + " { VALUES ?e { " + values.String() + "} " + triples.String() +
		"SERVICE <http://wikiba.se/ontology#label> { <http://www.bigdata.com/rdf#serviceParam> <http://wikiba.se/ontology#language> \"en\" } }"
	began := time.Now()
	list, why := Patterns(text)
	if why != "" || len(list) > 2500 {
		t.Errorf("%d patterns: %s", len(list), why)
	}
	for i := range 100 {
		triple := Pattern{Subject: "<http://x/e899>", Predicate: fmt.Sprintf("<http://x/p%d>", i), Object: "_"}
		if !slices.ContainsFunc(list, func(p Pattern) bool { return p.Matches(triple) }) {
			t.Errorf("%v is matched by none", triple)
		}
	}
	t.Logf("%d patterns of %d bytes in %v", len(list), len(text), time.Since(began))
}
