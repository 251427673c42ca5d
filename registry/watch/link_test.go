package watch

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

const cats = "#title:Cats\nSELECT ?item ?itemLabel WHERE {\n  ?item wdt:P31 wd:Q146.\n" +
	"  SERVICE wikibase:label { bd:serviceParam wikibase:language \"[AUTO_LANGUAGE],mul,en\". }\n}"

// escaped is what encodeURIComponent of browsers makes of a text.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func TestParseLink(t *testing.T) {
	const ask = "ASK { ?a ?b ?c }"
	const quoted = "ASK { <http://x.example/?_name> ?b ?c # ?_type\n FILTER(?c = \"\"\"?_iri\n#+ endpoint: " +
		"http://data.example.org/sparql\n\"\"\") }"
	for _, c := range []struct {
		name, text string
		want       Link
		query      string // that it holds
	}{
		// Entities.
		{"an IRI", "http://example.org/albert", Link{Watch: Watch{IRI: "http://example.org/albert"}}, ""},
		{"an IRI in angle brackets", " <http://example.org/albert>\n", Link{Watch: Watch{IRI: "http://example.org/albert"}}, ""},
		{"an IRI with parameters", "http://example.org/page?subquery=5", Link{Watch: Watch{IRI: "http://example.org/page?subquery=5"}}, ""},
		{"an IRI with parameters after #", "http://example.org/page#subquery=5",
			Link{Watch: Watch{IRI: "http://example.org/page#subquery=5"}}, ""},
		{"a URN", "urn:isbn:0451450523", Link{Watch: Watch{IRI: "urn:isbn:0451450523"}}, ""},
		{"an item", "Q42", Link{Watch: Watch{IRI: wikidata + "Q42"}, Site: "wikidata"}, ""},
		{"a page of Wikidata", "https://www.wikidata.org/wiki/Q42#P69", Link{Watch: Watch{IRI: wikidata + "Q42"}, Site: "wikidata"}, ""},
		{"a page of Wikidata as browsers show it", "www.wikidata.org/wiki/Q42", Link{Watch: Watch{IRI: wikidata + "Q42"}, Site: "wikidata"}, ""},
		{"an entity of Wikidata", "http://www.wikidata.org/entity/Q42", Link{Watch: Watch{IRI: wikidata + "Q42"}, Site: "wikidata"}, ""},
		{"a page of DBpedia", "https://dbpedia.org/page/Ulm", Link{Watch: Watch{IRI: "http://dbpedia.org/resource/Ulm"}, Site: "dbpedia"}, ""},
		{"a resource of DBpedia", "http://dbpedia.org/resource/Ulm", Link{Watch: Watch{IRI: "http://dbpedia.org/resource/Ulm"},
			Site: "dbpedia"}, ""},
		{"an IRI with a fragment", "http://example.org/data#albert", Link{Watch: Watch{IRI: "http://example.org/data#albert"}}, ""},
		// The query service of Wikidata.
		{"the query service", "https://query.wikidata.org/#" + escaped(cats), Link{Endpoint: "https://query.wikidata.org/sparql",
			Site: "wikidata"}, cats},
		{"the query service, embedded", "https://query.wikidata.org/embed.html#" + escaped(cats),
			Link{Endpoint: "https://query.wikidata.org/sparql", Site: "wikidata"}, cats},
		{"the query service, as typed", "query.wikidata.org/#" + ask, Link{Endpoint: "https://query.wikidata.org/sparql", Site: "wikidata"}, ask},
		{"the query service, of several lines", "query.wikidata.org/#ASK {\n ?a ?b ?c }",
			Link{Endpoint: "https://query.wikidata.org/sparql", Site: "wikidata"}, "ASK {\n ?a ?b ?c }"},
		{"the scholarly part", "https://query-scholarly.wikidata.org/#" + escaped(ask),
			Link{Endpoint: "https://query-scholarly.wikidata.org/sparql"}, ask},
		{"the endpoint with a query", "https://query.wikidata.org/sparql?query=" + url.QueryEscape(ask),
			Link{Endpoint: "https://query.wikidata.org/sparql"}, ask},
		// QLever.
		{"QLever", "https://qlever.dev/wikidata/?query=" + url.QueryEscape(cats), Link{Endpoint: "https://qlever.dev/api/wikidata"}, cats},
		{"QLever at Freiburg", "https://qlever.cs.uni-freiburg.de/osm-planet?query=" + url.QueryEscape(ask) + "&exec=true",
			Link{Endpoint: "https://qlever.cs.uni-freiburg.de/api/osm-planet"}, ask},
		{"QLever's endpoint", "https://qlever.dev/api/wikidata?query=" + url.QueryEscape(ask),
			Link{Endpoint: "https://qlever.dev/api/wikidata"}, ask},
		// DBpedia's form, and any other endpoint.
		{"DBpedia", "https://dbpedia.org/sparql?default-graph-uri=http%3A%2F%2Fdbpedia.org&query=ASK+%7B+%3Fa+%3Fb+%3Fc+%7D&" +
			"format=text%2Fhtml&timeout=30000",
			Link{Endpoint: "https://dbpedia.org/sparql", Graphs: []string{"http://dbpedia.org"}}, ask},
		{"Virtuoso's form", "https://dbpedia.org/sparql?default-graph-uri=&qtxt=ASK+%7B+%3Fa+%3Fb+%3Fc+%7D",
			Link{Endpoint: "https://dbpedia.org/sparql"}, ask},
		{"an endpoint with a parameter", "https://x.example/sparql?db=a%26b&query=" + url.QueryEscape(ask) + "&format=json&timeout=0",
			Link{Endpoint: "https://x.example/sparql?db=a%26b"}, ask},
		// YASGUI.
		{"YASGUI", "https://yasgui.triply.cc/#query=ASK%20%7B%20%3Fa%20%3Fb%20%3Fc%20%7D&" +
			"endpoint=https%3A%2F%2Fdbpedia.org%2Fsparql&requestMethod=POST&tabTitle=Query&headers=%7B%7D",
			Link{Endpoint: "https://dbpedia.org/sparql"}, ask},
		{"a page with YASGUI", "https://data.example.org/sparql-editor/#query=" + escaped(ask) +
			"&endpoint=%2Fsparql&namedGraph=http%3A%2F%2Fx.example%2Fg",
			Link{Endpoint: "https://data.example.org/sparql", NamedOnes: []string{"http://x.example/g"}}, ask},
		{"YASGUI without an endpoint", "https://data.example.org/editor#query=" + escaped(ask), Link{}, ask},
		// Texts.
		{"a query", ask, Link{}, ask},
		{"a query of Wikidata", cats, Link{Site: "wikidata"}, cats},
		{"a query of DBpedia", "PREFIX r: <http://dbpedia.org/resource/> ASK { r:Ulm ?b ?c }", Link{Site: "dbpedia"},
			"PREFIX r: <http://dbpedia.org/resource/> ASK { r:Ulm ?b ?c }"},
		{"a query with the vocabulary of DBpedia", "ASK { ?a a dbo:City ; dbp:name ?b }", Link{}, "ASK { ?a a dbo:City ; dbp:name ?b }"},
		{"a query with the vocabulary of DBpedia about Wikidata", "ASK { wd:Q64 a dbo:City }", Link{Site: "wikidata"},
			"ASK { wd:Q64 a dbo:City }"},
		{"a query with the vocabulary of UniProt", "ASK { ?a a <http://purl.uniprot.org/core/Protein> }", Link{},
			"ASK { ?a a <http://purl.uniprot.org/core/Protein> }"},
		{"a query of two sites", "ASK { dbr:Ulm ?b wd:Q3012 }", Link{}, "ASK { dbr:Ulm ?b wd:Q3012 }"},
		{"a decorated query", "#+ summary: Free garages\n#+ endpoint: \"http://data.example.org/sparql\"\n#+ tags:\n#+   - city\n" +
			ask, Link{Endpoint: "http://data.example.org/sparql"},
			"#+ summary: Free garages\n#+ endpoint: \"http://data.example.org/sparql\"\n#+ tags:\n#+   - city\n" + ask},
		{"a query with decorators in its text", "#+ summary: x\n" + quoted, Link{}, "#+ summary: x\n" + quoted},
		{"a query with a late decorator", ask + "\n#+ endpoint: http://data.example.org/sparql", Link{},
			ask + "\n#+ endpoint: http://data.example.org/sparql"},
		{"a file with a byte order mark and line ends of Windows", "\ufeffASK\r\n{ ?a ?b ?c }\r\n", Link{}, "ASK\r\n{ ?a ?b ?c }"},
	} {
		got, err := ParseLink(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.query != "" {
			c.want.Watch = Watch{Kind: ByQuery, Text: c.query}
		}
		if got.Endpoint != c.want.Endpoint || got.Site != c.want.Site || got.IRI != c.want.IRI || got.Text != c.want.Text ||
			got.Kind != c.want.Kind ||
			!slices.Equal(got.Graphs, c.want.Graphs) || !slices.Equal(got.NamedOnes, c.want.NamedOnes) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if _, err := got.Normalize(); err != nil {
			t.Errorf("%s is not a watch: %v", c.name, err)
		}
	}
}

// Each link that cannot be read says why, and what to do.
func TestParseLinkRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, why, remedy string }{
		"nothing":                    {" \n", "nothing to watch", "paste a link"},
		"10 MB":                      {"https://query.wikidata.org/#" + strings.Repeat("%20", 10<<20/3), "bytes long", "longest query"},
		"10 MB of an IRI":            {"http://example.org/" + strings.Repeat("a", 10<<20), "bytes long", "longest query"},
		"a long IRI":                 {"http://example.org/" + strings.Repeat("a", 3000), "at most 2048 bytes", "such as"},
		"no UTF-8":                   {"http://example.org/\xff", "not UTF-8", "copy"},
		"no UTF-8 in escapes":        {"https://query.wikidata.org/#%FF%FE", "escape that is cut or broken", "copy it again"},
		"a cut escape":               {"https://query.wikidata.org/#SELECT%2", "cut or broken", "copy it again"},
		"a broken escape":            {"https://dbpedia.org/sparql?query=%zz", "cut or broken", "copy it again"},
		"a broken escape in a path":  {"https://dbpedia.org/page/%zz", "not an absolute IRI", "such as"},
		"a short link":               {"https://w.wiki/3kD", "only w.wiki knows", "open it in a browser and copy the address"},
		"a short link as typed":      {"w.wiki/3kD", "only w.wiki knows", "open it in a browser"},
		"a short link of QLever":     {"https://qlever.dev/wikidata/Pxh4W2?exec=true", "only qlever.dev knows", "open it in a browser"},
		"a short link of YASGUI":     {"https://api.triplydb.com/s/abc", "only api.triplydb.com knows", "open it in a browser"},
		"a short link of old YASGUI": {"https://yasgui.org/short/abc", "only yasgui.org knows", "open it in a browser"},
		"YASGUI as it opens":         {"https://yasgui.triply.cc/#", "no query", "copy the link again"},
		"QLever without a query":     {"https://qlever.dev/wikidata", "names no query", "Share"},
		"the editor without a query": {"https://query.wikidata.org/", "without a query", "copy the address"},
		"the query builder":          {"https://query.wikidata.org/querybuilder/?query=%7B%7D", "query builder", "Show query"},
		"YASGUI without a query": {"https://yasgui.triply.cc/#query=&endpoint=https%3A%2F%2Fdbpedia.org%2Fsparql", "no query",
			"copy the link again"},
		"YASGUI with a strange host": {"https://yasgui.triply.cc/#query=ASK%20%7B%7D&endpoint=javascript%3Aalert(1)",
			"no address of the web", "choose an endpoint"},
		"YASGUI with a password": {"https://yasgui.triply.cc/#query=ASK%20%7B%7D&" +
			"endpoint=https%3A%2F%2Fme%3Asecret%40x.example%2F", "user name or a password", "auth"},
		"a password":                   {"https://me:secret@dbpedia.org/page/Ulm", "user name or a password", "without them"},
		"a password before a query":    {"https://me:secret@x.example/sparql?query=ASK%20%7B%7D", "user name or a password", "without them"},
		"a script":                     {"javascript:alert(1)", "begins with https://", "copy the address"},
		"data":                         {"data:text/html,<b>x</b>", "begins with https://", "copy the address"},
		"a file of this machine":       {"file:///etc/passwd", "begins with https://", "copy the address"},
		"a file of another":            {"https://raw.githubusercontent.com/a/b/main/cats.rq", "fetches no files", "paste that"},
		"a page of Wikipedia":          {"https://de.wikipedia.org/wiki/Ulm", "Wikipedia", "Wikidata item"},
		"another page of Wikidata":     {"https://www.wikidata.org/wiki/Special:Search?search=x", "not of an entity", "give one such as"},
		"an IRI with spaces":           {"http://example.org/a b", "no spaces", "%20"},
		"a word":                       {"cats", "not an absolute IRI", "such as"},
		"words":                        {"cats in Ulm", "neither a link nor a query", "begins with SELECT"},
		"an update":                    {"INSERT DATA { <a:a> <a:b> <a:c> }", "neither a link nor a query", "only reads"},
		"a broken query":               {"https://query.wikidata.org/#SELECT%20%3Fx%20%7B", "neither a link nor a query", "{"},
		"a query of another language":  {"https://www.example.org/search?query=cats", "neither a link nor a query", "SELECT"},
		"a bad endpoint":               {"#+ endpoint: ftp://x.example/\nASK { ?a ?b ?c }", "endpoint:", "leave it out"},
		"a query of grlc with a hole":  {"#+ summary: x\nSELECT ?s { ?s ?p ?_name_iri }", "parameter ?_name_iri", "a value in its place"},
		"zero bytes":                   {"ASK { ?a ?b ?c } \x00", "neither a link nor a query", ""},
		"a link within angle brackets": {"<https://example.org/a b>", "no spaces", "%20"},
	} {
		l, err := ParseLink(c.text)
		p, ok := err.(*registry.Problem)
		if !ok {
			t.Errorf("%s: %+v %v", name, l, err)
			continue
		}
		if !strings.Contains(p.Detail, c.why) || !strings.Contains(p.Detail, c.remedy) || len(p.Detail) > 600 ||
			strings.Contains(p.Detail, "secret") {
			t.Errorf("%s: %s", name, p.Detail)
		}
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/link" {
			t.Errorf("%s is about %v", name, p.Errors)
		}
	}
}

func TestLinkNames(t *testing.T) {
	for text, want := range map[string][2]string{
		"https://qlever.dev/wikidata/?query=ASK%20%7B%3Fa%20%3Fb%20%3Fc%7D":                         {"qlever-wikidata", ""},
		"https://DBpedia.org/sparql?query=ASK%20%7B%3Fa%20%3Fb%20%3Fc%7D":                           {"dbpedia.org", ""},
		"https://query.wikidata.org/#" + escaped(cats):                                              {"wikidata", "cats"},
		"#+ summary: Free garages, by name\n#+ endpoint: http://x.example:8080/s\nASK { ?a ?b ?c }": {"x.example", "free-garages-by-name"},
		"# Largest cities\n# of the world\nASK { ?a ?b ?c }":                                        {"", "largest-cities"},
		"ASK { ?a ?b \"\"\"\n#+ summary: no\n\"\"\" }":                                              {"", ""},
		"ASK { ?a ?b ?c }\n#title: a note at the end":                                               {"", ""},
		"ASK { ?a ?b \"\"\"\n#title:no\n\"\"\" }":                                                   {"", ""},
		"#defaultView:Map\nASK { ?a ?b ?c }":                                                        {"", ""},
	} {
		l, err := ParseLink(text)
		if err != nil || l.EndpointName() != want[0] || l.Name() != want[1] {
			t.Errorf("%.40s: %q %q %v, want %q", text, l.EndpointName(), l.Name(), err, want)
		}
	}
}

// The name that is proposed for an endpoint is legal and free.
func TestLinkEndpointNames(t *testing.T) {
	for _, c := range []struct {
		url   string
		taken []string
		want  string
	}{
		{"https://qlever.dev/api/osm/", nil, "qlever-osm"},
		{"https://qlever.dev/api/osm", []string{"qlever-osm"}, "qlever-osm-2"},
		{"https://qlever.dev/api/a%20b/c", nil, "qlever-a-b-c"},
		{"http://x.example/sparql", []string{"x.example"}, "x.example-2"},
		{"http://x.example:8080/coins/sparql/", []string{"x.example"}, "x.example-coins"},
		{"http://x.example/coins/query", []string{"x.example", "x.example-coins"}, "x.example-coins-2"},
		{"http://x.example/coins/query", []string{"x.example", "x.example-coins", "x.example-coins-2"}, "x.example-coins-3"},
		{"http://x.example/" + strings.Repeat("a", 99), []string{"x.example"}, "x.example-" + strings.Repeat("a", 48)},
		{"http://[::1]:80/sparql", nil, "1"},
		{"http://日本/", nil, "endpoint"},
	} {
		l := Link{Endpoint: c.url}
		if got := l.EndpointName(c.taken...); got != c.want {
			t.Errorf("%s beside %q is %q, want %q", c.url, c.taken, got, c.want)
		}
	}
}

// The reader's language replaces the word that only the editor of Wikidata replaces.
func TestLinkLanguage(t *testing.T) {
	l, err := ParseLink(cats)
	if err != nil {
		t.Fatal(err)
	}
	l.Labels = []string{"de", "en"}
	w, err := l.Normalize()
	if err != nil || !strings.Contains(w.Query(), `"de,mul,en"`) {
		t.Errorf("%s %v", w.Query(), err)
	}
	if l.Properties = []string{"P31"}; err == nil {
		_, err = l.Normalize()
	}
	if err == nil {
		t.Error("a query has properties")
	}
}

func FuzzParseLink(f *testing.F) {
	for _, seed := range []string{"https://query.wikidata.org/#" + escaped(cats), "#+ endpoint: http://x/\nASK {?_a ?b ?c}",
		"https://qlever.dev/a/b?query=%", "wd:Q1", "<a:b>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLink(text)
		if err != nil {
			if p, ok := err.(*registry.Problem); !ok || p.Detail == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if _, err := l.Normalize(); err != nil {
			t.Errorf("%q is %+v, which is no watch: %v", text, l, err)
		}
		if l.Kind == ByQuery {
			if _, err := sparql.Analyse(l.Query()); err != nil {
				t.Errorf("%q is the query %q: %v", text, l.Query(), err)
			}
		}
		_, _ = l.EndpointName(), l.Name()
	})
}
