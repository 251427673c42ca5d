package city

import (
	"fmt"
	"strings"
)

// template generates queries of one shape. Its verbs are replaced by constants:
// %D a district, %S a stop, %L a line, %V a venue, %K a kind of event, %A %G %B
// %E %P an air sensor, gauge, dock, event, departure, %N a number and %M a
// small one.
type template struct {
	name, form, text string
	ordered          bool
}

var templates = []template{
	{"board", "SELECT", "SELECT ?d ?line ?expected WHERE { ?d :stop %S ; :line ?line ; :expected ?expected }", false},
	{"board-top", "SELECT", "SELECT ?d ?expected WHERE { ?d :stop %S ; :expected ?expected } ORDER BY ?expected ?d LIMIT %M", true},
	{"line", "SELECT", "SELECT ?d ?stop ?delay WHERE { ?d :line %L ; :stop ?stop ; :delay ?delay FILTER (?delay >= %M) }", false},
	{"line-at-stop", "ASK", "ASK { ?d :line %L ; :stop %S }", false},
	{"line-at-stop-late", "ASK", "ASK { ?d :line %L ; :stop %S ; :delay ?m FILTER (?m > %M) }", false},
	{"departure", "DESCRIBE", "DESCRIBE %P", false},
	{"stop", "SELECT", "SELECT ?p ?o WHERE { %S ?p ?o }", false},
	{"delays", "SELECT", "SELECT ?line (COUNT(*) AS ?n) WHERE { ?d :line ?line ; :stop %S } GROUP BY ?line HAVING (COUNT(*) < %N)", false},
	{"docks", "SELECT", "SELECT ?b ?n WHERE { ?b a :BikeDock ; :district %D ; :bikes ?n FILTER (?n >= %M) }", false},
	{"dock", "SELECT", "SELECT ?n ?c WHERE { %B :bikes ?n ; :capacity ?c }", false},
	{"dock-free", "SELECT", "SELECT (?c - ?n AS ?free) WHERE { %B :bikes ?n ; :capacity ?c }", false},
	{"dock-empty", "ASK", "ASK { %B :bikes ?n FILTER (?n <= %M) }", false},
	{"dock-all", "DESCRIBE", "DESCRIBE %B", false},
	{"docks-top", "SELECT", "SELECT ?b ?n WHERE { ?b :bikes ?n ; :district %D } ORDER BY DESC(?n) ?b LIMIT %M", true},
	{"docks-sum", "SELECT", "SELECT (SUM(?n) AS ?total) WHERE { ?b :bikes ?n ; :district ?d FILTER (?d = %D || ?n > %N) }", false},
	{"air", "SELECT", "SELECT ?pm10 ?no2 ?when WHERE { %A :measured ?when OPTIONAL { %A :pm10 ?pm10 ; :no2 ?no2 } }", false},
	{"air-over", "SELECT", "SELECT ?s ?v WHERE { ?s a :AirSensor ; :pm10 ?v FILTER (?v > %N) }", false},
	{"air-any-over", "ASK", "ASK { ?s :pm10 ?v ; :district %D FILTER (?v > %N) }", false},
	{"air-mean", "SELECT", "SELECT (AVG(?v) AS ?mean) (COUNT(?v) AS ?n) WHERE { ?s :pm10 ?v ; :district ?d FILTER (?d != %D) }", false},
	{"air-copy", "CONSTRUCT", "CONSTRUCT { %A :now ?v } WHERE { %A :pm10 ?v }", false},
	{"air-cards", "CONSTRUCT", "CONSTRUCT { [] a :Card ; :of ?s ; :value ?v } WHERE { ?s :pm10 ?v ; :district %D }", false},
	{"air-silent", "SELECT", "SELECT ?s WHERE { ?s a :AirSensor ; :district %D FILTER NOT EXISTS { ?s :pm10 ?v } }", false},
	{"gauge", "SELECT", "SELECT ?level ?state WHERE { %G :level ?level ; :state ?state }", false},
	{"gauge-over", "ASK", "ASK { %G :level ?l ; :usualLevel ?u FILTER (?l > ?u + %M) }", false},
	{"gauge-all", "DESCRIBE", "DESCRIBE %G", false},
	{"gauges-over", "CONSTRUCT", "CONSTRUCT { ?g :above ?over } WHERE { ?g :level ?l ; :usualLevel ?u BIND (?l - ?u AS ?over) " +
		"FILTER (?over > %N) }", false},
	{"venue", "SELECT", "SELECT ?e ?title ?begins WHERE { ?e :venue %V ; rdfs:label ?title ; :begins ?begins }", false},
	{"venue-card", "CONSTRUCT", "CONSTRUCT { %V :shows ?e . ?e rdfs:label ?t } WHERE { ?e :venue %V ; rdfs:label ?t }", false},
	{"venue-offers", "CONSTRUCT", "CONSTRUCT { %V :offers [ :title ?t ; :price ?p ] } WHERE { ?e :venue %V ; rdfs:label ?t ; " +
		":price ?p }", false},
	{"venue-facts", "SELECT", "SELECT ?phone ?page WHERE { %V a :Venue OPTIONAL { %V :phone ?phone } OPTIONAL { %V :page ?page } }", false},
	{"kind", "SELECT", "SELECT ?e ?price WHERE { ?e :kind %K OPTIONAL { ?e :price ?price FILTER (?price < %N) } }", false},
	{"kind-venues", "SELECT", "SELECT DISTINCT ?v WHERE { ?e :kind %K ; :venue ?v MINUS { ?e :soldOut true } }", false},
	{"kind-first", "SELECT", "SELECT ?e ?begins WHERE { ?e :kind %K ; :begins ?begins } ORDER BY ?begins ?e LIMIT %M", true},
	{"kind-in", "SELECT", "SELECT ?e ?v WHERE { ?e :kind %K ; :venue ?v . ?v :district %D }", false},
	{"event", "DESCRIBE", "DESCRIBE %E", false},
	{"event-known", "ASK", "ASK { %E a :Event }", false},
	{"event-title", "SELECT", "SELECT ?title WHERE { %E rdfs:label ?title }", false},
	{"event-words", "SELECT", "SELECT ?e ?words WHERE { ?e a :Event ; :kind %K ; rdfs:label ?t FILTER (STRLEN(?t) > %M) BIND " +
		"(UCASE(STR(?t)) AS ?words) }", false},
	{"either", "SELECT", "SELECT ?x WHERE { { ?x :district %D ; a :BikeDock } UNION { ?e :venue ?x . ?x :district %D } }", false},
	{"near", "SELECT", "SELECT ?b ?n WHERE { %D :neighbour/^:district ?b . ?b :bikes ?n }", false},
	{"around", "SELECT", "SELECT ?name WHERE { %D (:neighbour|^:neighbour) ?d . ?d rdfs:label ?name FILTER (lang(?name) = 'de') }", false},
	{"first-below", "SELECT", "SELECT ?name ?b WHERE { { SELECT ?b WHERE { ?b :bikes ?n FILTER (?n < %N) } ORDER BY ?n ?b " +
		"LIMIT %M } ?b rdfs:label ?name }", false},
}

// Queries returns n different queries of all forms about the city with real
// constants: most entities exist at the start, some appear later, some never.
// The same n and seed give the same queries.
func Queries(n int, seed uint64) []Query {
	r := newRandom(seed)
	seen := map[string]bool{}
	for _, q := range SampleQueries() {
		seen[strings.TrimPrefix(q.Text, prefixes)] = true
	}
	list := make([]Query, 0, n)
	for turn := 0; len(list) < n; turn++ {
		t := templates[turn%len(templates)]
		question := fill(r, t.text, turn/len(templates))
		if seen[question] {
			continue
		}
		seen[question] = true
		list = append(list, Query{
			Name: fmt.Sprintf("%s-%03d", t.name, len(list)+1), Form: t.form,
			Text: prefixes + question, Tags: []string{"generated", t.name}, Ordered: t.ordered,
		})
	}
	return list
}

// fill replaces the verbs. Numbers grow with the round, so that the number of
// different queries is unlimited.
func fill(r *random, text string, round int) string {
	numberedUpTo := func(kind string, most int) string { return numbered(kind, r.between(1, most)) }
	constants := map[byte]func() string{
		'D': func() string { return id("district", pick(r, districts)) },
		'S': func() string { return id("stop", pick(r, stops)) },
		'L': func() string { return id("line", pick(r, lines)) },
		'V': func() string { return id("venue", pick(r, venues)) },
		'K': func() string { return `"` + pick(r, kinds) + `"` },
		'A': func() string { return numberedUpTo("air", airSensors+2) },
		'G': func() string { return numberedUpTo("gauge", gauges+1) },
		'B': func() string { return numberedUpTo("dock", docks+2) },
		'E': func() string { return numberedUpTo("event", firstShows+30) },
		'P': func() string { return numberedUpTo("departure", upcoming*len(stops)+60) },
		'N': func() string { return fmt.Sprint(r.between(8, 48+round)) },
		'M': func() string { return fmt.Sprint(r.between(1, 6+round)) },
	}
	chosen := map[byte]string{} // the same verb gets the same constant
	var b strings.Builder
	for n := 0; n < len(text); n++ {
		if text[n] != '%' {
			b.WriteByte(text[n])
			continue
		}
		n++
		verb := text[n]
		if chosen[verb] == "" {
			chosen[verb] = constants[verb]()
		}
		b.WriteString(chosen[verb])
	}
	return b.String()
}
