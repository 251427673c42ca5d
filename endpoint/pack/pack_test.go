package pack

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
)

// Every pack is an endpoint that a server accepts, is gentle, and gives a source for each
// of its lines.
func TestPacks(t *testing.T) {
	for _, name := range []string{"wikidata", "wikidata-qlever", "wikidata-scholarly", "commons", "dbpedia", "uniprot", "europeana"} {
		if !slices.Contains(Names(), name) {
			t.Errorf("there is no pack %s", name)
		}
	}
	for _, p := range All() {
		e, err := p.Endpoint()
		if err == nil {
			err = registry.CheckEndpoint(e.WithDefaults(), scheduler.Validate)
		}
		if err != nil || e.Name != p.Name || p.Title == "" {
			t.Errorf("%s (%s): %v", p.Name, e.Name, err)
		}
		if u, err := url.Parse(e.URL); err != nil || u.Host == "" {
			t.Errorf("%s: %s", p.Name, e.URL)
		}
		if e.Concurrency != 1 || e.MinGap == 0 || len(e.Headers) > 0 || e.Auth != (registry.Auth{}) {
			t.Errorf("%s: concurrency %d, gap %s, headers %v", p.Name, e.Concurrency, e.MinGap, e.Headers)
		}
		sources := map[string]string{"contact": p.Contact.Source}
		for _, s := range p.Settings {
			if sources[s.Name] != "" {
				t.Errorf("%s sets %s twice", p.Name, s.Name)
			}
			sources[s.Name] = s.Source
		}
		for _, q := range p.Quirks {
			sources[q.Text] = q.Source
		}
		for _, alias := range p.Aliases {
			sources[alias.Text] = alias.Source
		}
		for _, r := range p.Rates {
			if sources[r.Template] != "" || r.Changes > r.Executions || r.Days <= 0 {
				t.Errorf("%s: %+v", p.Name, r)
			}
			sources[r.Template] = r.Source
		}
		if p.Prefixes != nil {
			sources["prefixes"] = p.Prefixes.Source
		}
		for line, source := range sources {
			page, _, _ := strings.Cut(source, " ")
			if u, err := url.Parse(page); !strings.HasPrefix(source, "conservative choice") && (err != nil || u.Host == "") || line == "" {
				t.Errorf("%s: the source of %q is %q", p.Name, line, source)
			}
		}
	}
}

// However a link spells the URL of an endpoint, its pack is found.
func TestOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://dbpedia.org/sparql":                              "dbpedia",
		"http://dbpedia.org/sparql/":                              "dbpedia",
		"https://DBpedia.org/sparql":                              "dbpedia",
		"https://dbpedia.org:443/sparql":                          "dbpedia",
		"http://dbpedia.org:80/sparql":                            "dbpedia",
		"https://dbpedia.org:8443/sparql":                         "",
		"https://dbpedia.org/SPARQL":                              "",
		"https://query.wikidata.org/bigdata/namespace/wdq/sparql": "wikidata",
		"https://query.wikidata.org/bigdata/namespace/wdq":        "",
		"https://query.wikidata.org":                              "",
		"%":                                                       "",
		"":                                                        "",
	} {
		if p, ok := Of("", url); p.Name != want || ok != (want != "") {
			t.Errorf("%s has the pack %q, want %q", url, p.Name, want)
		}
	}
}

// A query that runs at the endpoint without declarations has them in full, and its label service is
// the endpoint's own.
func TestDeclare(t *testing.T) {
	for url, text := range map[string]string{
		"https://query.wikidata.org/sparql": `SELECT ?x ?xLabel { ?x wdt:P31 wd:Q5; p:P39/ps:P39 ?y SERVICE wikibase:label { ` +
			`bd:serviceParam wikibase:language "en" } }`,
		"http://dbpedia.org/sparql/": "SELECT ?x { ?x a dbo:City; dct:subject dbc:Ulm; geo:lat ?lat; rdfs:label ?name }",
	} {
		p, ok := Of("", url)
		if !ok {
			t.Fatalf("no pack has %s", url)
		}
		a, err := sparql.Analyse(p.Declare(text))
		if err != nil || slices.ContainsFunc(a.Warnings, func(w sparql.Warning) bool { return w.Code == sparql.UndeclaredPrefix }) {
			t.Errorf("%s: %v %v", p.Name, a.Warnings, err)
		}
		e, err := p.Endpoint()
		if err != nil {
			t.Fatal(err)
		}
		for _, service := range a.Services {
			if !slices.Contains(e.OwnServices, strings.Trim(service, "<>")) {
				t.Errorf("%s does not provide %s", p.Name, service)
			}
		}
	}
	if p, ok := Of("uniprot", ""); !ok || p.Declare("ASK { ?a rdfs:label ?c }") != "ASK { ?a rdfs:label ?c }" {
		t.Errorf("%v: declarations without prefixes", ok)
	}
	if _, ok := Of("other", "http://x.example/"); ok {
		t.Error("any endpoint has a pack")
	}
}

func TestPackErrors(t *testing.T) {
	_, err := Find("wikidatas")
	if p, ok := errors.AsType[*registry.Problem](err); !ok || p.Errors[0].Pointer != "/pack" || !strings.Contains(p.Detail, "wikidata") {
		t.Errorf("an unknown pack: %v", err)
	}
	if _, err := parse("x", []byte("title: a\nlimit: 3\n")); err == nil {
		t.Error("a pack with an unknown line was read")
	}
	p := Pack{Name: "x", Settings: []Setting{{Name: "budgets", Value: "3s"}}}
	if _, err := p.Endpoint(); err == nil {
		t.Error("a pack with an unknown setting was accepted")
	}
	if v := p.Values(map[string]any{"name": "y"}); v["name"] != "y" || v["budgets"] != "3s" {
		t.Errorf("values %v", v)
	}
}

// The feed of a pack is about the data at its own URL.
func TestFeedOfOtherURL(t *testing.T) {
	p, err := Find("wikidata")
	if err != nil {
		t.Fatal(err)
	}
	if own := p.Values(map[string]any{"url": "http://query.wikidata.org/sparql/"}); own["feed"] != "wikidata" || own["lag"] == nil {
		t.Errorf("%v", own)
	}
	if copied := p.Values(map[string]any{"url": "http://127.0.0.1:9999/sparql"}); copied["feed"] != nil || copied["lag"] != nil ||
		copied["min_gap"] == nil {
		t.Errorf("%v", copied)
	}
	if given := p.Values(map[string]any{"url": "http://127.0.0.1:9999/sparql", "feed": "own"}); given["feed"] != "own" {
		t.Errorf("%v", given)
	}
}

// A query is known by its template, whatever its constants are.
func TestRates(t *testing.T) {
	p, err := Find("nomisma")
	if err != nil || len(p.Rates) == 0 {
		t.Fatal(p.Rates, err)
	}
	for text, changes := range map[string]uint64{
		"SELECT ?p ?o WHERE { <http://nomisma.org/id/ephesus> ?p ?o }":                                                               25,
		"PREFIX n: <http://nomisma.org/id/> SELECT ?p ?o WHERE { n:rome ?p ?o }":                                                     25,
		"PREFIX n: <http://nomisma.org/id/> SELECT ?type WHERE { n:rome <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ?type . }": 2,
		"SELECT ?s ?p ?o { ?s ?p ?o }": 0,
	} {
		a, err := sparql.Analyse(text)
		if err != nil {
			t.Fatal(err)
		}
		l := p.Learnt(func() string { return scheduler.TemplateText(&registry.Query{Text: text, Ordered: a.Ordered}) })
		if changes == 0 && l != nil || changes > 0 && (l == nil || l.Changes != changes || l.Source == "" || l.Executions == 0) {
			t.Errorf("%s: %+v, want %d changes", text, l, changes)
		}
	}
	unread := func() string { t.Error("a query was read for a pack without rates"); return "" }
	if l := (Pack{}).Learnt(unread); l != nil {
		t.Errorf("%+v without rates", l)
	}
}
