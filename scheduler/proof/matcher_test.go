package proof

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// pick returns a term of a small vocabulary.
func pick(r *rand.Rand, open bool, list ...string) string {
	if open && r.IntN(2) == 0 {
		return ""
	}
	return list[r.IntN(len(list))]
}

var (
	subjects = []string{
		"<http://x/entity/Q1>", "<http://x/entity/Q2>", "<http://x/entity/Q42>", "<http://x/entity/Q042>", "<http://x/entity/P1>",
		"<http://x/entity/>",
		"<http://y/12>", "<http://x/entity/statement/Q1-5>", "<urn:x>", "<http://x/entity>", "<http://x/entity/Q99999999999999999999999>",
	}
	verbs   = []string{"<http://x/p>", "<http://x/q>", "<http://x/r>"}
	objects = []string{"<http://x/entity/Q1>", `"text`, "<http://x/o>", `"`}
	graphs  = []string{"<http://x/g>", "<http://x/h>"}
)

func randomPattern(r *rand.Rand, open bool) sparql.Pattern {
	p := sparql.Pattern{Subject: pick(r, open, subjects...), Predicate: pick(r, open, verbs...), Object: pick(r, open, objects...)}
	if r.IntN(4) == 0 {
		p.Graph = graphs[r.IntN(2)]
	}
	switch {
	case !open && r.IntN(5) == 0:
		p.Subject = "_"
	case open && p.Subject == "" && r.IntN(3) == 0: // a statement of an entity
		p.Owner, p.Graph = pick(r, false, subjects[:3]...), ""
	}
	if !open {
		p.Owner = pick(r, true, subjects[:3]...)
	}
	if !open && r.IntN(5) == 0 {
		p.Object = "_"
	}
	return p
}

func randomEvent(r *rand.Rand) feed.Event {
	e := feed.Event{All: r.IntN(20) == 0}
	for range r.IntN(3) {
		e.Added = append(e.Added, randomPattern(r, false))
	}
	for range r.IntN(3) {
		e.Removed = append(e.Removed, randomPattern(r, false))
	}
	for range r.IntN(3) {
		l := feed.Loose{Predicate: pick(r, true, verbs...), Owner: pick(r, true, subjects[:3]...)}
		for range r.IntN(3) {
			l.Subjects = append(l.Subjects, pick(r, false, subjects...))
		}
		if r.IntN(2) == 0 {
			l.Things = []string{"http://x/entity/", "http://x/entity/Q", "http://x/entity/Q4", "http://x/entity/Q42", "http://z/", "urn:"}[r.IntN(6)]
		}
		e.Loose = append(e.Loose, l)
	}
	return e
}

// check compares the answers of a matcher with the definition.
func check(t *testing.T, m *Matcher, queries map[string][]sparql.Pattern, e *feed.Event) (reached int) {
	t.Helper()
	got := map[string]feed.Reach{}
	m.Reach(e, func(id string, how feed.Reach) {
		if _, twice := got[id]; twice {
			t.Errorf("%s is found twice", id)
		}
		got[id] = how
	})
	want := map[string]feed.Reach{}
	for id, list := range queries {
		if how := e.Reach(list); how != feed.None {
			want[id] = how
		}
	}
	if !maps.Equal(got, want) {
		for id := range queries {
			if got[id] != want[id] {
				t.Errorf("%+v reaches %+v: %d, want %d", e, queries[id], got[id], want[id])
			}
		}
		t.FailNow()
	}
	return len(want)
}

func TestMatcherFindsWhatReachSays(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, queries, reached := NewMatcher(), map[string][]sparql.Pattern{}, 0
		for range 400 {
			id := fmt.Sprintf("q%d", r.IntN(80))
			if r.IntN(3) == 0 {
				m.Drop(id)
				delete(queries, id)
			} else {
				var list []sparql.Pattern
				for range r.IntN(4) {
					list = append(list, randomPattern(r, true))
				}
				m.Put(id, list)
				queries[id] = list
			}
			if r.IntN(50) == 0 {
				m.pack()
			}
			e := randomEvent(r)
			reached += check(t, m, queries, &e)
		}
		if m.Len() != len(queries) {
			t.Errorf("%d queries, want %d", m.Len(), len(queries))
		}
		if reached < 1000 {
			t.Errorf("seed %d: only %d times", seed, reached)
		}
	}
}

const wikidata = `PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http://www.wikidata.org/prop/direct/> PREFIX ` +
	`p: <http://www.wikidata.org/prop/>
PREFIX ps: <http://www.wikidata.org/prop/statement/> PREFIX pq: <http://www.wikidata.org/prop/qualifier/> PREFIX bd: ` +
	`<http://www.bigdata.com/rdf#>
PREFIX psv: <http://www.wikidata.org/prop/statement/value/> PREFIX schema: <http://schema.org/> PREFIX wds: ` +
	`<http://www.wikidata.org/entity/statement/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX wikibase: <http://wikiba.se/ontology#> PREFIX skos: ` +
	`<http://www.w3.org/2004/02/skos/core#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX owl: <http://www.w3.org/2002/07/owl#> PREFIX prov: ` +
	`<http://www.w3.org/ns/prov#> PREFIX wdtn: <http://www.wikidata.org/prop/direct-normalized/>
PREFIX ontolex: <http://www.w3.org/ns/lemon/ontolex#> PREFIX dct: <http://purl.org/dc/terms/> PREFIX geo: ` +
	`<http://www.opengis.net/ont/geosparql#> PREFIX wdno: <http://www.wikidata.org/prop/novalue/>
`

// TestMatcherOfRealQueries makes events of the entities, and compares them for the queries, of the
// real ones in the test data.
func TestMatcherOfRealQueries(t *testing.T) {
	data := os.Getenv("FRESHET_TEST_DATA")
	files, _ := filepath.Glob(filepath.Join(data, "feeds/wikidata/queries/*.rq"))
	if data == "" || len(files) == 0 {
		t.Skip("SKIP-PART: no queries of Wikidata")
	}
	m, queries, open := NewMatcher(), map[string][]sparql.Pattern{}, 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		list, why := sparql.Patterns(wikidata + string(text))
		if why != "" {
			open++
			t.Logf("%s cannot be proved, because %s", filepath.Base(name), why)
			continue
		}
		m.Put(name, list)
		queries[name] = list
	}
	if open > len(files)/4 {
		t.Errorf("%d of %d queries have no patterns", open, len(files))
	}
	const wd = "http://www.wikidata.org/entity/"
	reached := 0
	for name := range queries {
		for _, p := range queries[name] {
			for _, f := range []*string{&p.Subject, &p.Predicate, &p.Object} {
				if *f == "" {
					*f = "<" + wd + "Q42>"
				}
			}
			for _, e := range []feed.Event{
				{Added: []sparql.Pattern{p}}, {Removed: []sparql.Pattern{p}},
				{Loose: []feed.Loose{{Subjects: []string{p.Subject}, Things: wd + "Q"}}},
				{Loose: []feed.Loose{{Subjects: []string{p.Subject}, Predicate: p.Predicate}}},
			} {
				reached += check(t, m, queries, &e)
			}
		}
	}
	if reached == 0 {
		t.Error("nothing is reached")
	}
}

// templates are texts of queries about an entity, as the users of Wikidata's query service send them.
var templates = []string{
	`SELECT ?o { wd:Q%d wdt:P106 ?o }`,
	`SELECT ?nameLabel { wd:Q%d p:P735 ?st . ?st ps:P735 ?name OPTIONAL { ?st pq:P1545 ?rank } }`,
	`ASK { wd:Q%[1]d p:P598 ?e . ?e ps:P598 ?v }`,
	`SELECT ?s { ?s wdt:P31 wd:Q%d }`,
	`SELECT ?s ?o { VALUES ?s { wd:Q%d } ?s wdt:P27 ?o ; rdfs:label ?l }`,
}

func manyQueries(n int) *Matcher {
	m := NewMatcher()
	for i := range n {
		list, _ := sparql.Patterns(wikidata + fmt.Sprintf(templates[i%len(templates)], i))
		m.Put(fmt.Sprintf("q_%026d", i), list)
	}
	return m
}

// edit is an event such as Wikidata's stream has: labels and statements of one entity.
func edit(i int) feed.Event {
	const wd = "http://www.wikidata.org/"
	q := fmt.Sprintf("<%sentity/Q%d>", wd, i)
	e := feed.Event{Entity: strings.Trim(q, "<>")}
	for k := range 10 {
		st := fmt.Sprintf("<%sentity/statement/Q%d-%d>", wd, i, k)
		p := 1000 + i*7%500 + k
		e.Added = append(e.Added, sparql.Pattern{Subject: q, Predicate: fmt.Sprintf("<%sprop/P%d>", wd, p), Object: st},
			sparql.Pattern{Subject: st, Predicate: fmt.Sprintf("<%sprop/statement/P%d>", wd, p), Object: `"x`})
	}
	e.Loose = []feed.Loose{{Subjects: []string{q}, Predicate: "<http://schema.org/dateModified>"}}
	return e
}

// BenchmarkMatcher reports the time for 1,000 events, and how it grows with the queries: with a
// hundred times as many, an event that reaches one query may not take ten times as long.
func BenchmarkMatcher(b *testing.B) {
	events := make([]feed.Event, 1000)
	for i := range events {
		events[i] = edit(i)
	}
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, hits := manyQueries(n), 0
			b.ResetTimer()
			for range b.N {
				for i := range events {
					m.Reach(&events[i], func(string, feed.Reach) { hits++ })
				}
			}
			b.ReportMetric(float64(hits)/float64(b.N), "hits/1000-events")
		})
	}
}

// TestMatcherIsSmall bounds the memory of a query.
func TestMatcherIsSmall(t *testing.T) {
	const n, most = 10_000, 200
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := manyQueries(n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes a query", each)
	if each > most {
		t.Errorf("a query takes %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(m)
}
