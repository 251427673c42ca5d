package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// patternQueries are queries of all kinds over a small vocabulary.
var patternQueries = []string{
	`SELECT * { ?s ?p ?o }`, `SELECT * { x:1 ?p ?o }`, `SELECT * { ?s x:p0 ?o }`, `SELECT * { ?s x:p0 x:2 }`, `SELECT * { ?s x:p1 "l1"@en }`,
	`SELECT * { ?s x:p1 "l1" }`, `SELECT * { ?s x:p1 1 }`, `SELECT * { ?s x:p1 ?o FILTER(?o = 1) }`, `SELECT * { ?s a x:C }`,
	`SELECT * { ?s a ?c . ?s x:p0 ?o }`,
	`SELECT * { ?s x:p0 ?o . ?o x:p1 ?z }`, `SELECT * { ?s x:p0 ?o ; x:p1 ?z , ?w }`, `SELECT * { ?s x:p0 [ x:p1 ?z ] }`,
	`SELECT * { ?s x:p0 ?o OPTIONAL { ?o x:p1 ?z } }`, `SELECT * { ?s x:p0 ?o MINUS { ?s x:p2 ?z } }`,
	`SELECT * { ?s x:p0 ?o FILTER NOT EXISTS { ?o x:p1 ?z } }`,
	`SELECT * { ?s x:p0 ?o FILTER(EXISTS { ?o x:p2 x:1 } || ?o = x:3) }`, `SELECT * { { ?s x:p0 ?o } UNION { ?o x:p2 ?s } }`,
	`SELECT * { x:1 x:p0+ ?o }`, `SELECT * { x:1 x:p0* ?o }`, `SELECT * { ?s x:p0* x:1 }`, `SELECT * { ?s x:p0* ?o }`,
	`SELECT * { ?s x:p0? ?o }`,
	`SELECT * { ?s (x:p0|x:p1)/^x:p2 ?o }`, `SELECT * { ?s x:p0/x:p1* ?o }`, `SELECT * { ?s !x:p0 ?o }`, `SELECT * { ?s !(x:p0|^x:p1) ?o }`,
	`SELECT * { GRAPH x:g { ?s x:p0 ?o } }`, `SELECT ?g ?s { GRAPH ?g { ?s x:p1 ?o } }`, `SELECT * { GRAPH ?g {} }`,
	`SELECT * { GRAPH x:g { OPTIONAL { x:1 x:p0 ?o } } }`,
	`SELECT (COUNT(*) AS ?n) { ?s x:p2 ?o }`, `SELECT ?s (COUNT(?o) AS ?n) { ?s x:p0 ?o } GROUP BY ?s HAVING (COUNT(?o) > 1)`,
	`SELECT * { { SELECT ?s (MAX(STR(?o)) AS ?m) { ?s x:p0 ?o } GROUP BY ?s } ?s x:p2 ?z }`, `SELECT * { VALUES ?s { x:1 x:2 } ?s x:p1 ?o }`,
	`SELECT (EXISTS { x:1 x:p0 x:2 } AS ?e) {}`, `ASK { x:1 x:p1 ?o . x:2 x:p1 ?o }`, `CONSTRUCT { ?o x:new ?s } { ?s x:p0 ?o }`,
	`CONSTRUCT WHERE { ?s x:p2 ?o }`,
	`SELECT * { ?s x:p0 ?o VALUES ?s { x:1 x:2 } OPTIONAL { ?s x:p1 ?z } }`, `SELECT * { OPTIONAL { ?s x:p0 ?o } VALUES ?s { x:1 } }`,
	`SELECT * { VALUES ?s { x:1 } { OPTIONAL { ?s x:p0 ?o } } }`, `SELECT * { VALUES (?s ?o) { (x:1 UNDEF) (x:2 x:3) } ?s x:p0 ` +
		`?o MINUS { ?s x:p2 ?z } }`,
	`SELECT * { VALUES ?o { x:1 "l1" } { ?s x:p0 ?o } UNION { ?o x:p2 ?s } FILTER NOT EXISTS { ?o x:p1 ?z } }`,
	`SELECT * { VALUES ?s { x:1 } { SELECT ?s (COUNT(?o) AS ?n) { ?s x:p0 ?o } GROUP BY ?s ORDER BY ?n LIMIT 1 } }`,
	`SELECT * { VALUES ?s { x:1 x:2 } ?s x:p0* ?o }`, `SELECT * { BIND(x:2 AS ?o) ?s x:p0 ?o FILTER EXISTS { ?o x:p1 ?z ` +
		`OPTIONAL { ?s x:p2 ?z } } }`,
	`SELECT (COUNT(*) AS ?n) { VALUES ?s { x:1 } GRAPH x:g { ?s x:p0 ?o } }`,
	`SELECT * { ?s x:p0 ?o { OPTIONAL { ?s x:p1 ?z } VALUES ?s { x:3 } } }`,
	`DESCRIBE x:1`, `SELECT * { ?s x:p2 (1 2) }`, `SELECT * { BIND(x:1 AS ?s) ?s x:p0 ?o }`,
}

// TestPatternsFindEveryChange changes triples in the engine. Each query whose result
// changes has a pattern that matches the triple.
func TestPatternsFindEveryChange(t *testing.T) {
	seed := uint64(20261122)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ctx := context.Background()
	e := loaded(t, "")
	answers := func() (list []string) {
		for _, q := range patternQueries {
			format := "json"
			if strings.HasPrefix(q, "CONSTRUCT") || strings.HasPrefix(q, "DESCRIBE") {
				format = "nt"
			}
			body, err := e.Query(ctx, "PREFIX x: <http://x/> "+q, format, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			lines := strings.Split(string(body), "},{")
			if format == "nt" {
				lines = strings.Split(string(body), "\n")
			}
			for i := range lines {
				lines[i] = strings.Trim(lines[i], "{}[]\n ")
			}
			slices.Sort(lines)
			list = append(list, strings.Join(lines, "\n"))
		}
		return list
	}
	node := func() string { return fmt.Sprintf("<http://x/%d>", r.IntN(4)) }
	object := func() string {
		switch r.IntN(6) {
		case 0:
			return fmt.Sprintf(`"l%d"@en`, r.IntN(2))
		case 1:
			return fmt.Sprintf(`"l%d"`, r.IntN(2))
		case 2:
			return `"1"^^<http://www.w3.org/2001/XMLSchema#integer>`
		case 3:
			return "<http://x/C>"
		}
		return node()
	}
	was, changed, marked := answers(), 0, 0
	for step := range 100 {
		verb := fmt.Sprintf("<http://x/p%d>", r.IntN(4))
		if r.IntN(6) == 0 {
			verb = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
		}
		s, o, graph := node(), object(), ""
		triple, quad := s+" "+verb+" "+o, ""
		quad = triple + " ."
		if r.IntN(4) == 0 {
			graph = "<http://x/g>"
			triple, quad = "GRAPH "+graph+" { "+triple+" }", triple+" "+graph+" ."
		}
		operation := []string{"INSERT", "INSERT", "DELETE"}[step%3]
		if err := e.Update(ctx, operation+" DATA { "+triple+" }"); err != nil {
			t.Fatal(err)
		}
		var h registry.Hint
		if err := h.Triples(strings.NewReader(quad)); err != nil || len(h.Changed) != 1 {
			t.Fatalf("%s is read as %+v (%v)", quad, h, err)
		}
		now := answers()
		for i, q := range patternQueries {
			list, why := sparql.Patterns("PREFIX x: <http://x/> " + q)
			match := why != "" || slices.ContainsFunc(list, func(p sparql.Pattern) bool { return p.Matches(h.Changed[0]) })
			if match {
				marked++
			}
			if now[i] != was[i] {
				changed++
				if !match {
					t.Errorf("%s %s changes %s, whose patterns are %+v", operation, quad, q, list)
				}
			}
		}
		was = now
	}
	t.Logf("%d results changed, %d queries were matched, of %d", changed, marked, 100*len(patternQueries))
	if changed < 200 {
		t.Errorf("only %d results changed", changed)
	}
}
