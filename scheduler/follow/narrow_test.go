package follow

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/localtest"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// A town is the data of a few entities at an engine. Each triple belongs to one of them.
type town struct {
	engine *local.Engine
	docs   [3]map[string]sparql.Pattern
}

const (
	things     = "http://x/entity/Q"
	statements = "http://x/entity/statement/Q"
)

func thing(n int) string { return fmt.Sprintf("<%s%d>", things, n) }

// templates are queries: %e is an entity, and %v a value.
var templates = []string{
	"SELECT ?s { ?s <http://x/p> %v }",
	"SELECT ?s ?o { ?s <http://x/p> %v ; <http://x/q> ?o }",
	"SELECT ?s ?l { ?s <http://x/p> %v OPTIONAL { ?s <http://x/q> ?l } }",
	"SELECT ?s { ?s <http://x/p> %v MINUS { ?s <http://x/q> ?x } }",
	"SELECT ?s { ?s <http://x/p> %v OPTIONAL { ?s <http://x/q> ?l } FILTER (!BOUND(?l)) }",
	"SELECT ?s { ?s <http://x/p> %v OPTIONAL { ?s <http://x/q> ?l FILTER (?l = %e) } FILTER (?s != %e) }",
	"SELECT ?s ?t { ?s <http://x/p> ?t . ?t <http://x/q> %v }",
	"SELECT DISTINCT ?s { ?s <http://x/p> ?o FILTER (?o != %v) }",
	"SELECT (COUNT(?s) AS ?n) { ?s <http://x/p> %v }",
	"SELECT ?o { ?s <http://x/p> ?o ; <http://x/q> %v }",
	"SELECT ?s ?o { OPTIONAL { ?s <http://x/q> ?o } ?s <http://x/p> %v }",
	"SELECT ?s ?v ?r { %e <http://x/prop/P1> ?s . ?s <http://x/ps> ?v OPTIONAL { ?s <http://x/rank> ?r } }",
	"SELECT ?v ?r { %e <http://x/prop/P1> ?s . ?s <http://x/ps> ?v OPTIONAL { ?s <http://x/rank> ?r } }",
	"SELECT ?v { %e <http://x/prop/P1>/<http://x/ps> ?v }",
	"SELECT ?e ?v { ?e <http://x/prop/P1> ?s . ?s <http://x/ps> ?v }",
	"SELECT ?s ?o ?z { ?s <http://x/p> %v OPTIONAL { ?s <http://x/q> ?o . ?o <http://x/q> ?z } }",
	"SELECT * { ?s <http://x/p> %v FILTER NOT EXISTS { ?s <http://x/q> ?x } }",
	"SELECT ?s ?l { ?s <http://x/p> %v OPTIONAL { ?s <http://x/q> ?l } ?x <http://x/r> ?l }",
	"SELECT ?s { { ?s <http://x/p> %v } UNION { ?s <http://x/q> %v } }",
	"SELECT ?s ?o { ?s <http://x/p> %v OPTIONAL { ?s <http://x/q> ?o } OPTIONAL { ?s <http://x/r> ?o } }",
	"SELECT ?s { ?s <http://x/p> ?o } ORDER BY ?s LIMIT 2",
	"SELECT ?s { ?s <http://x/p> ?o } ORDER BY ?s OFFSET 1",
	"SELECT ?s ?o { ?s <http://x/p> ?o . ?o <http://x/p> ?s }",
	"SELECT ?s ?n { ?s <http://x/p> %v { SELECT ?n { ?x <http://x/q> ?n } } }",
	"SELECT ?s { VALUES ?s { %e } ?s <http://x/p> ?o OPTIONAL { ?s <http://x/q> ?l } }",
	"SELECT ?a ?o { ?a <http://schema.org/about> %e ; <http://x/part> ?o }",
	"SELECT ?o { ?a <http://x/part> ?o OPTIONAL { ?a <http://schema.org/about> %e } }",
}

func (w *town) run(t *rapid.T, text string) string {
	b, err := w.engine.Query(context.Background(), text, "json", nil, nil)
	if err != nil {
		t.Fatal(text, err)
	}
	r := w.decode(t, b)
	return r.Hash()
}

func (w *town) decode(t *rapid.T, b []byte) *diff.Result {
	r, _, err := formats.Decode(formats.JSON, b, diff.Select, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// edit draws another document of an entity.
func (w *town) edit(t *rapid.T, n int) map[string]sparql.Pattern {
	doc := map[string]sparql.Pattern{}
	for k, p := range w.docs[n] {
		if rapid.IntRange(0, 3).Draw(t, "keep") > 0 {
			doc[k] = p
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "new") {
		value := thing(rapid.IntRange(0, len(w.docs)-1).Draw(t, "object"))
		st := fmt.Sprintf("<%s%d-%d>", statements, n, rapid.IntRange(0, 1).Draw(t, "statement"))
		s, verb := thing(n), rapid.SampledFrom([]string{"p", "q", "r", "P1", "ps", "rank", "about", "part"}).Draw(t, "predicate")
		switch verb {
		case "P1":
			verb, value = "prop/P1", st
		case "ps", "rank":
			s = st
		case "about", "part":
			s = fmt.Sprintf("<http://x/wiki/%d>", n)
		}
		p := sparql.Pattern{Subject: s, Predicate: "<http://x/" + verb + ">", Object: value, Owner: thing(n)}
		if verb == "about" {
			p.Predicate, p.Object = "<http://schema.org/about>", thing(n)
		}
		doc[p.Subject+p.Predicate+p.Object] = p
	}
	return doc
}

// event draws an event, and applies it.
func (w *town) event(t *rapid.T) *feed.Event {
	n := rapid.IntRange(0, len(w.docs)-1).Draw(t, "entity")
	e := &feed.Event{Entity: strings.Trim(thing(n), "<>")}
	document := feed.Loose{Subjects: []string{thing(n)}, Things: things, Owner: thing(n)}
	was, now := w.docs[n], w.edit(t, n)
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if kind < 2 {
		now = map[string]sparql.Pattern{}
	}
	added, removed := less(now, was), less(was, now)
	switch {
	case kind < 2: // it is deleted
		document.Gone = true
		e.Loose = []feed.Loose{document}
	case kind == 2: // repaired
		document.Gone = true
		e.Loose, e.Added = []feed.Loose{document}, less(now, nil)
	case kind == 3: // not read
		e.Loose = []feed.Loose{document}
	default:
		e.Added, e.Removed = added, removed
	}
	w.docs[n] = now
	if err := w.engine.Update(context.Background(), "DELETE DATA {"+turtle(removed)+"}; INSERT DATA {"+turtle(added)+"}"); err != nil {
		t.Fatal(err)
	}
	return e
}

func less(a, b map[string]sparql.Pattern) (list []sparql.Pattern) {
	for k, p := range a {
		if _, ok := b[k]; !ok {
			list = append(list, p)
		}
	}
	return list
}

func turtle(list []sparql.Pattern) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintln(&b, p.Subject, p.Predicate, p.Object, ".")
	}
	return b.String()
}

// An event that does not reach a query whose result is taken into account leaves the result as it is. The result
// that is taken into account may be an old one, as long as no event may have added rows that it lacks.
func TestResultsNarrow(t *testing.T) {
	e := localtest.Open(t)
	spared, spareable := map[string]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		w := &town{engine: e}
		for n := range w.docs {
			w.docs[n] = map[string]sparql.Pattern{}
			w.docs[n] = w.edit(t, n)
		}
		var all []sparql.Pattern
		for _, d := range w.docs {
			all = append(all, less(d, nil)...)
		}
		if err := e.Update(context.Background(), "CLEAR ALL; INSERT DATA {"+turtle(all)+"}"); err != nil {
			t.Fatal(err)
		}
		form := rapid.SampledFrom(templates).Draw(t, "query")
		entity, value := thing(rapid.IntRange(0, 2).Draw(t, "q")), thing(rapid.IntRange(0, 2).Draw(t, "v"))
		text := strings.NewReplacer("%e", entity, "%v", value).Replace(form)
		patterns, why := sparql.Patterns(text)
		if why != "" {
			t.Fatal(text, why)
		}
		f := &Follower{narrow: map[string]*narrowed{}, unlearnt: map[string]bool{}}
		list := sparql.Narrowed(text)
		n := &narrowed{list: list, star: star(list)}
		if list != nil {
			f.narrow["q"] = n
		}
		was := w.run(t, text)
		for range 12 {
			if list != nil && n.added == nil && rapid.Bool().Draw(t, "learn") {
				b, err := e.Query(context.Background(), text, "json", nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				n.added, n.removed = narrowBy(list, w.decode(t, b))
			}
			x := w.event(t)
			plain := x.Reach(patterns)
			reach := plain
			if list != nil && n.added != nil {
				reach = x.ReachNarrowed(n.added, n.removed)
			}
			now := w.run(t, text)
			if reach == feed.None && now != was {
				t.Fatalf("%s changes by %+v, which does not reach it: %+v", text, x, n)
			}
			if plain != feed.None {
				spareable++
				if reach == feed.None {
					spared[form]++
				}
			}
			if reach != feed.None && list != nil {
				f.grow("q", x)
			}
			was = now
		}
	})
	sum := 0
	for _, n := range spared {
		sum += n
	}
	if !testing.Short() && (len(spared) < 5 || sum < spareable/20) { // a short run has too few
		t.Errorf("%d of %d are spared, for %d queries", sum, spareable, len(spared))
	}
	for _, form := range templates[20:22] {
		if spared[form] > 0 {
			t.Errorf("%s is narrowed", form)
		}
	}
}

// A triple that is added names what the only column shows, and says nothing about another one.
func TestStars(t *testing.T) {
	for text, want := range map[string]bool{
		templates[0]: true,
		templates[2]: true,
		"SELECT ?s ?o { ?s <http://x/p> ?o ; <http://x/q> ?v }":         true,
		"SELECT ?s ?t { ?s <http://x/p> ?t . ?t <http://x/q> ?v }":      false,
		"SELECT ?s ?n { ?s <http://x/p> ?n . <http://x/a> ?p ?n }":      false,
		"SELECT ?s { ?s <http://x/p> ?n MINUS { ?s <http://x/q> ?n } }": false,
	} {
		list := sparql.Narrowed(strings.NewReplacer("%e", thing(1), "%v", thing(2)).Replace(text))
		if list == nil || star(list) != want {
			t.Errorf("%s: %v %+v", text, !want, list)
		}
	}
}

// A row that an event adds shows its subject in the only column. With several columns it may show more, so the result is
// unknown from then on.
func TestAddedRowsOfSeveralColumns(t *testing.T) {
	for text, known := range map[string]bool{
		"SELECT ?s { ?s <http://x/p> ?t . ?s <http://x/q> ?v }":    true,
		"SELECT ?s ?t { ?s <http://x/p> ?t . ?t <http://x/q> ?v }": false,
	} {
		list := sparql.Narrowed(text)
		f := &Follower{narrow: map[string]*narrowed{"q": {list: list, star: star(list), added: []sparql.Pattern{}}},
			unlearnt: map[string]bool{}}
		f.grow("q", &feed.Event{Added: []sparql.Pattern{{Subject: thing(1), Predicate: "<http://x/p>", Object: thing(2)}}})
		if got := f.narrow["q"].added != nil; got != known || f.unlearnt["q"] == known {
			t.Errorf("%s: known %t, want %t", text, got, known)
		}
	}
}

// A row that shows a blank node does not narrow what reaches its query: events do not name it as the endpoint does.
func TestBlankNodesNarrowNothing(t *testing.T) {
	list := sparql.Narrowed("SELECT ?s { ?s <http://x/p> <http://x/o> }")
	for iri, narrows := range map[string]bool{"http://x/a": true, "http://x/.well-known/genid/b1": false, "nodeID://b1": false} {
		doc := fmt.Sprintf(`{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"uri","value":%q}}]}}`, iri)
		r, _, err := formats.Decode(formats.JSON, []byte(doc), diff.Select, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, removed := narrowBy(list, r); (removed != nil) != narrows {
			t.Errorf("%s: %+v", iri, removed)
		}
	}
}
