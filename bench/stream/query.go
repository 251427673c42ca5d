package stream

import (
	"fmt"
	"strings"
)

// A Query is a query over a World. Its result changes only if a triple that one of its keys matches is
// inserted or removed; an empty field of a key matches anything. The author of a template writes its keys, so
// that they do not depend on the reader of queries that is judged.
type Query struct {
	Text string
	Keys []Triple
}

// Queries draws n different queries, from templates after what users of Wikidata's query service ask.
func (w *World) Queries(n int) (list []Query) {
	seen := map[string]bool{}
	for tries := 0; len(list) < n && tries < 100*n; tries++ {
		if q := w.query(); !seen[q.Text] {
			seen[q.Text] = true
			list = append(list, q)
		}
	}
	return list
}

func (w *World) query() Query {
	e := w.items[w.rng.IntN(len(w.items))]
	p := fmt.Sprintf("P%d", 1000+w.rng.IntN(properties))
	if i := w.pick(e, func(t Triple) bool { return strings.HasPrefix(t[1], "<"+prop+"direct/P") }); i >= 0 && w.rng.IntN(4) > 0 {
		p = strings.TrimSuffix(e.own[i][1][len("<"+prop+"direct/"):], ">")
	}
	direct, label := iri(prop, "direct/", p), iri(rdfs, "label")
	switch k := w.rng.IntN(1000); {
	case k < 450:
		return Query{fmt.Sprintf("SELECT ?v { %s %s ?v }", e.iri(), direct), []Triple{{e.iri(), direct}}}
	case k < 700:
		return Query{fmt.Sprintf("SELECT ?l { %s %s ?l FILTER (LANG(?l) = 'en') }", e.iri(), label), []Triple{{e.iri(), label}}}
	case k < 780:
		v := w.value()
		return Query{fmt.Sprintf("SELECT ?s { ?s %s %s }", direct, v), []Triple{{"", direct, v}}}
	case k < 785: // the values of a property and their ranks
		node, value, rank := iri(prop, p), iri(prop, "statement/", p), iri(wikibase, "rank")
		return Query{fmt.Sprintf("SELECT ?v ?r { %s %s ?st . ?st %s ?v OPTIONAL { ?st %s ?r } }", e.iri(), node, value, rank),
			[]Triple{{e.iri(), node}, {"", value}, {"", rank}}}
	case k < 790:
		about, part := iri(schema, "about"), iri(schema, "isPartOf")
		return Query{fmt.Sprintf("SELECT ?a { ?a %s %s ; %s %s }", about, e.iri(), part, iri(english)),
			[]Triple{{"", about, e.iri()}, {"", part, iri(english)}}}
	case k < 791:
		is, sub, class := iri(prop, "direct/P31"), iri(prop, "direct/P279"), iri(wd, fmt.Sprintf("Q%d", 100+w.rng.IntN(30)))
		return Query{fmt.Sprintf("SELECT (COUNT(*) AS ?n) { ?q %s/%s* %s }", is, sub, class), []Triple{{"", is}, {"", sub}}}
	case k < 850:
		alt, text := iri(skos, "altLabel"), w.text("en")
		if i := w.pick(e, func(t Triple) bool { return t[1] == alt }); i >= 0 {
			text = e.own[i][2]
		}
		return Query{fmt.Sprintf("SELECT ?q { ?q %s %s }", alt, text), []Triple{{"", alt, text}}}
	}
	return w.listed(direct, label)
}

// listed asks about four items.
func (w *World) listed(direct, label string) Query {
	var values []string
	var q Query
	for range 4 {
		x := w.items[w.rng.IntN(len(w.items))].iri()
		values, q.Keys = append(values, x), append(q.Keys, Triple{x, direct}, Triple{x, label})
	}
	some := fmt.Sprintf("VALUES ?q { %s } ?q %s ?l FILTER (LANG(?l) = 'en')", strings.Join(values, " "), label)
	if q.Text = fmt.Sprintf("SELECT ?q ?v { %s OPTIONAL { ?q %s ?v } }", some, direct); w.rng.IntN(4) == 0 {
		q.Text = fmt.Sprintf("SELECT ?q { %s FILTER NOT EXISTS { ?q %s ?v } }", some, direct)
	}
	return q
}

// An index finds the queries that a triple may change.
type index map[Triple][]int

func newIndex(list []Query) index {
	x := index{}
	for i, q := range list {
		for _, k := range q.Keys {
			x[k] = append(x[k], i)
		}
	}
	return x
}

// touched adds the queries with a key that matches a triple.
func (x index) touched(t Triple, into map[int]bool) {
	for mask := range 8 {
		k := t
		for i := range k {
			if mask>>i&1 == 1 {
				k[i] = ""
			}
		}
		for _, q := range x[k] {
			into[q] = true
		}
	}
}
