package browsertest

import (
	"fmt"
	"strings"
)

// data is a small city with texts that are hard to display.
func data() string {
	var b strings.Builder
	for i, name := range []string{"Market Square", "Old Harbour", "Station, north side", "River Bank", "Opera", "University"} {
		fmt.Fprintf(&b, "<https://data.city.example/garage/%d> <https://data.city.example/name> %q .\n", i, name)
		fmt.Fprintf(&b, "<https://data.city.example/garage/%d> <https://data.city.example/free> "+
			"\"%d\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n", i, 7+i*17)
	}
	for i, text := range hostile {
		fmt.Fprintf(&b, "<https://data.city.example/text/%d> <https://data.city.example/says> %q@en .\n", i, text)
	}
	return b.String()
}

// hostile lists literals that must not break a page.
var hostile = []string{
	`<script>document.title = "taken over"</script>`,
	`"><img src=x onerror=alert(1)>`,
	`{{.}} {{template "x"}} <!-- --> ]]>`,
	"שלום עולם \u202eדנוות\u202c مرحبا",
	strings.Repeat("longwordwithoutanyspace", 100),
	strings.Repeat("many words in a row ", 20_000),
}

// A question is a query of the test world.
type question struct{ word, name, endpoint, text, staleness string }

const prefix = "PREFIX c: <https://data.city.example/>\n"

var queries = []question{
	{word: "free", name: "Free-spaces-by-garage", endpoint: "city", staleness: "2s",
		text: prefix + "SELECT ?garage ?name ?free WHERE {\n  ?garage c:name ?name ; c:free ?free .\n}"},
	{word: "many", name: "Garages-with-many-spaces", endpoint: "city",
		text: prefix + "# only the large ones\nSELECT ?garage WHERE { ?garage c:free ?free FILTER(?free > 40) } ORDER BY ?garage LIMIT 10"},
	{word: "open", name: "Is-there-any-space", endpoint: "city",
		text: prefix + "ASK { ?g c:free ?f FILTER(?f > 0) }"},
	{word: "graph", name: "All-names-as-triples", endpoint: "city",
		text: prefix + "CONSTRUCT { ?g c:name ?n } WHERE { ?g c:name ?n }"},
	{word: "hostile", name: `שלום&'friends'`, endpoint: "city",
		text: prefix + "SELECT ?text WHERE { ?x c:says ?text }"},
	{word: "now", name: "What-is-on-now", endpoint: "still",
		text: prefix + "SELECT ?g WHERE { ?g c:name ?n FILTER(NOW() > " +
			"\"2020-01-01T00:00:00Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>) } LIMIT 3"},
	{word: "lost", name: "Subjects-of-the-regional-bibliography", endpoint: "broken",
		text: "SELECT ?s WHERE { ?s a <https://lib.example/Book> }"},
}

// register registers a question and returns its id.
func (w *world) register(q question) string {
	w.t.Helper()
	in := map[string]any{"endpoint": q.endpoint, "query": q.text, "name": q.name, "tags": []string{"city", "parking"}}
	if q.word == "hostile" {
		in["tags"] = []string{`<b onmouseover="alert(1)">bold</b> & "friends"`}
	}
	if q.staleness != "" {
		in["max_staleness"] = q.staleness
	}
	var out struct{ ID string }
	w.call("POST", "/v1/queries", in, &out)
	return out.ID
}
