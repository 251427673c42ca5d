package stream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Name spaces of Wikidata.
const (
	wd        = "http://www.wikidata.org/entity/"
	prop      = "http://www.wikidata.org/prop/"
	reference = "http://www.wikidata.org/reference/"
	schema    = "http://schema.org/"
	wikibase  = "http://wikiba.se/ontology#"
	rdfs      = "http://www.w3.org/2000/01/rdf-schema#"
	skos      = "http://www.w3.org/2004/02/skos/core#"
	rdf       = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	xsd       = "http://www.w3.org/2001/XMLSchema#"
	owl       = "http://www.w3.org/2002/07/owl#"
	english   = "https://en.wikipedia.org/"
)

// A Triple is subject, predicate and object as in N-Triples.
type Triple [3]string

func (t Triple) String() string { return t[0] + " " + t[1] + " " + t[2] + " ." }

func iri(parts ...string) string { return "<" + strings.Join(parts, "") + ">" }

// A Change is one edit: what its message says, and what it does to the data of an endpoint.
type Change struct {
	Entity    string // the id
	Revision  int64
	Operation string
	// Added, Deleted, Linked and Unlinked are the four parts of the message.
	Added, Deleted, Linked, Unlinked []Triple
	// Insert and Remove change the data. Unlinked triples stay, as in Wikidata's query service.
	Insert, Remove []Triple
}

// An item is an entity with the triples that it owns.
type item struct {
	id       string
	own      []Triple
	dead     bool
	revision int64
}

func (e *item) iri() string { return iri(wd, e.id) }

// A World has entities and draws edits of them.
type World struct {
	rng    *rand.Rand
	items  []*item
	shared []Triple // at the beginning
	number int      // of the next fresh value
}

// properties is the number of properties that items of a generated world have.
const properties = 40

// NewWorld returns a world of n generated items, besides the entities of documents whose triples are given.
func NewWorld(seed uint64, n int, documents map[string][]Triple) *World {
	w := &World{rng: rand.New(rand.NewPCG(seed, 27))}
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		w.adopt(id, documents[id])
	}
	for i := range n {
		w.items = append(w.items, w.generate(i))
	}
	return w
}

// adopt adds a real entity in the form in which messages have it.
func (w *World) adopt(id string, document []Triple) {
	e := &item{id: id, revision: 1}
	for _, t := range document {
		switch {
		case strings.Contains(t[0], "Special:EntityData/"), t[0] == iri(wikibase, "Dump"),
			t[1] == iri(rdf, "type") && strings.HasPrefix(t[2], "<"+wikibase) && t[2] != iri(wikibase, "BestRank"):
		case strings.HasPrefix(t[0], "<"+wd+"statement/"), strings.HasPrefix(t[0], "<"+wd+id):
			e.own = append(e.own, t)
		default:
			w.shared = append(w.shared, t)
		}
	}
	e.stamp()
	w.items = append(w.items, e)
}

// generate makes an item: it has labels, a class, some statements, and perhaps an article.
func (w *World) generate(i int) *item {
	e := &item{id: fmt.Sprintf("Q%d", 1_000_000+i), revision: 1}
	for _, lang := range []string{"en", "de", "fr"} {
		e.own = append(e.own, Triple{e.iri(), iri(rdfs, "label"), w.text(lang)})
	}
	e.own = append(e.own, Triple{e.iri(), iri(schema, "description"), w.text("en")}, Triple{e.iri(), iri(skos, "altLabel"), w.text("en")})
	e.own = append(e.own, w.statement(e, 31, iri(wd, fmt.Sprintf("Q%d", 100+w.rng.IntN(30))))...)
	for _, p := range w.rng.Perm(properties)[:4] {
		e.own = append(e.own, w.statement(e, 1000+p, w.value())...)
	}
	if w.rng.IntN(3) == 0 {
		w.shared = append(w.shared, w.article(e)...)
	}
	if i < 30 { // a tree of classes
		w.shared = append(w.shared, Triple{iri(wd, fmt.Sprintf("Q%d", 100+i)), iri(prop, "direct/P279"), iri(wd, fmt.Sprintf("Q%d", 100+i/2))})
	}
	e.stamp()
	return e
}

func (w *World) text(lang string) string {
	w.number++
	return fmt.Sprintf(`"text %d"@%s`, w.number, lang)
}

// value draws an item of a small number, or a string that nothing else has.
func (w *World) value() string {
	if w.rng.IntN(2) == 0 {
		return iri(wd, fmt.Sprintf("Q%d", 200+w.rng.IntN(2000)))
	}
	w.number++
	return fmt.Sprintf(`"v%d"`, w.number)
}

func (w *World) statement(e *item, p int, value string) []Triple {
	w.number++
	s := iri(wd, fmt.Sprintf("statement/%s-%d", e.id, w.number))
	name := fmt.Sprintf("P%d", p)
	return []Triple{{e.iri(), iri(prop, "direct/", name), value}, {e.iri(), iri(prop, name), s},
		{s, iri(rdf, "type"), iri(wikibase, "BestRank")}, {s, iri(wikibase, "rank"), iri(wikibase, "NormalRank")},
		{s, iri(prop, "statement/", name), value}}
}

func (w *World) article(e *item) []Triple {
	a := iri(english, "wiki/", e.id)
	return []Triple{{a, iri(rdf, "type"), iri(schema, "Article")}, {a, iri(schema, "about"), e.iri()},
		{a, iri(schema, "inLanguage"), `"en"`}, {a, iri(schema, "isPartOf"), iri(english)},
		{a, iri(schema, "name"), `"` + e.id + `"@en`}, {iri(english), iri(wikibase, "wikiGroup"), `"wikipedia"`}}
}

// stamp replaces what an item says about its revision.
func (e *item) stamp() {
	e.own = slices.DeleteFunc(e.own, func(t Triple) bool {
		return t[0] == e.iri() && (t[1] == iri(schema, "version") || t[1] == iri(schema, "dateModified"))
	})
	e.own = append(e.own, Triple{e.iri(), iri(schema, "version"), fmt.Sprintf(`"%d"^^%s`, e.revision, iri(xsd, "integer"))},
		Triple{e.iri(), iri(schema, "dateModified"), fmt.Sprintf(`"%d"`, e.revision)})
}

// Triples calls f with all triples at the beginning. Call it before Next.
func (w *World) Triples(f func(Triple)) {
	for _, e := range w.items {
		for _, t := range e.own {
			f(t)
		}
	}
	for _, t := range w.shared {
		f(t)
	}
}

// Next draws the next edit. Few are deletions and repairs, which leave open what they changed.
func (w *World) Next() Change {
	u := w.rng.Float64()
	e := w.items[int(u*u*float64(len(w.items)))] // some are edited more often
	before := slices.Clone(e.own)
	e.revision++
	c := Change{Entity: e.id, Revision: e.revision, Operation: "diff"}
	if e.dead {
		e.dead, c.Operation = false, "import"
		e.own = append(e.own, Triple{e.iri(), iri(rdfs, "label"), w.text("en")})
		e.own = append(e.own, w.statement(e, 1000+w.rng.IntN(properties), w.value())...)
		e.stamp()
		c.Added, c.Insert = slices.Clone(e.own), without(e.own, before)
		return c
	}
	switch n := w.rng.IntN(1000); {
	case n < 300:
		w.relabel(e, "label")
	case n < 400:
		w.relabel(e, "description")
	case n < 740:
		w.revalue(e)
	case n < 800:
		w.cite(e, &c)
	case n < 840:
		w.uncite(e, &c)
	case n < 920:
		c.Linked = w.article(e)
	case n < 950:
		c.Unlinked = w.article(e)
	case n < 953:
		c.Operation, e.dead, e.own = "delete", true, nil
	case n < 955: // merged: it is a redirect from now on
		e.own = []Triple{{e.iri(), iri(owl, "sameAs"), iri(wd, "Q1")}}
	case n < 957: // an edit was missing in the stream
		w.relabel(e, "label")
		w.revalue(e)
		c.Operation = "reconcile"
	default:
		w.revalue(e)
		w.revalue(e)
	}
	if !e.dead {
		e.stamp()
	}
	c.Insert, c.Remove = without(e.own, before), without(before, e.own)
	switch c.Operation {
	case "diff":
		c.Added, c.Deleted = c.Insert, c.Remove
		c.Insert = append(slices.Clone(c.Added), c.Linked...)
	case "reconcile":
		c.Added = slices.Clone(e.own)
	}
	return c
}

// without returns the triples of a that are not in b.
func without(a, b []Triple) (list []Triple) {
	in := make(map[Triple]bool, len(b))
	for _, t := range b {
		in[t] = true
	}
	for _, t := range a {
		if !in[t] {
			list = append(list, t)
		}
	}
	return list
}

// pick draws one of the triples of an item for which f is true, -1 if there is none.
func (w *World) pick(e *item, f func(Triple) bool) int {
	var list []int
	for i, t := range e.own {
		if f(t) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return list[w.rng.IntN(len(list))]
}

// relabel gives one of the texts of an item another value.
func (w *World) relabel(e *item, what string) {
	p := map[string]string{"label": iri(rdfs, "label"), "description": iri(schema, "description")}[what]
	i := w.pick(e, func(t Triple) bool { return t[0] == e.iri() && t[1] == p })
	if i < 0 {
		e.own = append(e.own, Triple{e.iri(), p, w.text("en")})
		return
	}
	t := e.own[i]
	e.own[i] = Triple{t[0], t[1], w.text(t[2][strings.LastIndexByte(t[2], '@')+1:])}
}

// revalue gives a statement another value, takes it away, or adds one.
func (w *World) revalue(e *item) {
	const direct = "<" + prop + "direct/P"
	i := w.pick(e, func(t Triple) bool { return strings.HasPrefix(t[1], direct) && t[1] != iri(prop, "direct/P31") })
	if i < 0 || w.rng.IntN(6) == 0 {
		e.own = append(e.own, w.statement(e, 1000+w.rng.IntN(properties), w.value())...)
		return
	}
	old, value := e.own[i], w.value()
	main := iri(prop, "statement/P", strings.TrimPrefix(strings.TrimSuffix(old[1], ">"), direct))
	j := w.pick(e, func(t Triple) bool { return t[1] == main && t[2] == old[2] })
	if w.rng.IntN(6) == 0 && j >= 0 {
		s := e.own[j][0]
		e.own = slices.DeleteFunc(e.own, func(t Triple) bool { return t == old || t[0] == s || t[2] == s })
		return
	}
	e.own[i][2] = value
	if j >= 0 {
		e.own[j][2] = value
	}
}

func (w *World) cite(e *item, c *Change) {
	i := w.pick(e, func(t Triple) bool { return t[1] == iri(wikibase, "rank") })
	if i < 0 {
		return
	}
	n := w.rng.IntN(500) // references are shared
	ref := iri(reference, fmt.Sprint(n))
	e.own = append(e.own, Triple{e.own[i][0], iri("http://www.w3.org/ns/prov#wasDerivedFrom"), ref})
	c.Linked = []Triple{{ref, iri(prop, "reference/P248"), iri(wd, fmt.Sprintf("Q%d", 200+n))}}
}

func (w *World) uncite(e *item, c *Change) {
	i := w.pick(e, func(t Triple) bool { return t[1] == iri("http://www.w3.org/ns/prov#wasDerivedFrom") })
	if i < 0 {
		w.cite(e, c)
		return
	}
	ref := e.own[i][2]
	e.own = slices.Delete(e.own, i, i+1)
	c.Unlinked = []Triple{{ref, iri(prop, "reference/P248"), iri(wd, "Q200")}}
}
