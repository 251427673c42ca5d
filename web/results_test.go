package web

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/knakk/rdf"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

func TestResults(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"pairs"`)
	at := "/v1/queries/" + id
	a := w.get(at+"/results").problem(404, "no-result")
	if a.Header.Get("Retry-After") != "5" || a.Header.Get("ETag") != "" {
		t.Errorf("%v", a.Header)
	}
	r := table(t, [2]diff.Term{iri("b"), lit("x")}, [2]diff.Term{iri("a"), {}})
	w.m.publish(id, r)
	a = w.get("/v1/queries/pairs/results").status(200)
	if !bytes.Equal(a.body, r.Document()) || a.ContentLength != int64(len(a.body)) {
		t.Errorf("%s", a.body)
	}
	base := "http://freshet.example.org:8080"
	want := map[string][]string{"Etag": {`"Zq81.1.srj"`}, "Vary": {"Accept, Accept-Datetime"},
		"Last-Modified":      {"Fri, 20 Nov 2026 09:00:00 GMT"},
		"Freshet-Checked-At": {"2026-11-20T09:00:00.25Z"}, "Link": {"<" + base + `/v1/hub>; rel="hub"`, "<" + base + at +
			`/results.srj>; rel="self"`,
			"<" + base + at + `/results>; rel="original timegate", <` + base + at + `/timemap>; rel="timemap"; type="application/link-format"`},
		"Content-Type": {"application/sparql-results+json"}, "Cache-Control": {"private, no-cache"}}
	for k, v := range want {
		if d := cmp.Diff(v, a.Header[k]); d != "" {
			t.Errorf("%s (-want +got):\n%s", k, d)
		}
	}
	// A change alters every validator.
	w.m.now = morning.Add(time.Minute)
	w.m.publish(id, table(t))
	w.m.now = morning.Add(time.Hour) // and time alone moves none
	b := w.get(at + "/results.csv").status(200)
	if b.Header.Get("ETag") != `"Zq81.2.csv"` || b.Header.Get("Last-Modified") != "Fri, 20 Nov 2026 09:01:00 GMT" ||
		!strings.Contains(b.Header["Link"][1], at+"/results.csv>") {
		t.Errorf("%v", b.Header)
	}
}

func TestResultsConditional(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.m.publish(id, table(t, [2]diff.Term{iri("a"), lit("1")}))
	at := "/v1/queries/" + id + "/results"
	for header, want := range map[string]int{
		`If-None-Match: "Zq81.1.srj"`:                                            304,
		`If-None-Match: W/"Zq81.1.srj"`:                                          304,
		`If-None-Match: "a", "b" , "Zq81.1.srj"`:                                 304,
		`If-None-Match: *`:                                                       304,
		`If-None-Match: "Zq81.1.csv"`:                                            200,
		`If-None-Match: Zq81.1.srj`:                                              200,
		`If-None-Match: "Zq81.1.srj`:                                             200,
		`If-None-Match: `:                                                        200,
		"If-Modified-Since: Fri, 20 Nov 2026 09:00:00 GMT":                       304,
		"If-Modified-Since: Fri, 20 Nov 2026 09:10:00 GMT":                       304,
		"If-Modified-Since: Fri, 20 Nov 2026 08:59:59 GMT":                       200,
		"If-Modified-Since: yesterday":                                           200,
		"If-None-Match: \"x\"\nIf-Modified-Since: Fri, 20 Nov 2026 09:00:00 GMT": 200,
	} {
		a := w.get(at, strings.Split(header, "\n")...).status(want)
		if a.Header.Get("ETag") != `"Zq81.1.srj"` || a.Header.Get("Freshet-Checked-At") == "" || len(a.Header["Link"]) != 3 {
			t.Errorf("%s: %v", header, a.Header)
		}
		if want == 304 && (len(a.body) > 0 || a.Header.Get("Content-Type") != "") {
			t.Errorf("%s: a 304 with a body", header)
		}
	}
	full := w.get(at)
	head := w.do("HEAD", at, "").status(200)
	full.Header.Del("Date")
	if d := cmp.Diff(full.Header, head.Header); d != "" || len(head.body) > 0 {
		t.Errorf("HEAD differs from GET (-get +head):\n%s", d)
	}
}

func TestResultsNegotiate(t *testing.T) {
	w := newWorld(t)
	sel, ask, con := w.register(selectText), w.register(askText), w.register(constructText)
	w.m.publish(sel, table(t))
	w.m.publish(ask, truthValue(t, true))
	w.m.publish(con, graph(t, [3]diff.Term{iri("s"), iri("p"), lit("o")}))
	for _, c := range []struct{ id, accept, want string }{
		{sel, "", "application/sparql-results+json"},
		{sel, "*/*", "application/sparql-results+json"},
		{sel, "text/csv", "text/csv; charset=utf-8"},
		{sel, "text/csv;q=0.5, application/sparql-results+xml;q=0.8", "application/sparql-results+xml"},
		{sel, "text/*", "text/csv; charset=utf-8"},
		{sel, "application/json", "application/sparql-results+json"},
		{sel, "text/turtle", ""},
		{sel, "application/sparql-results+json;q=0, */*;q=0.1", "application/sparql-results+xml"},
		{sel, "nonsense", "application/sparql-results+json"},
		{ask, "text/csv", "text/csv; charset=utf-8"},
		{con, "application/ld+json", "application/ld+json"},
		{ask, "application/sparql-results+xml", "application/sparql-results+xml"},
		{con, "", "application/n-triples"},
		{con, "text/turtle, application/n-triples;q=0.9", "text/turtle; charset=utf-8"},
		{con, "application/sparql-results+json", ""},
	} {
		var h []string
		if c.accept != "" {
			h = []string{"Accept: " + c.accept}
		}
		a := w.get("/v1/queries/"+c.id+"/results", h...)
		if c.want == "" {
			a.problem(406, "not-acceptable")
			if len(a.json()["available"].([]any)) == 0 {
				t.Errorf("406 without what is available: %s", a.body)
			}
			continue
		}
		if a.status(200); a.Header.Get("Content-Type") != c.want {
			t.Errorf("%q: %s, want %s", c.accept, a.Header.Get("Content-Type"), c.want)
		}
	}
	for _, id := range []string{sel, ask, con} {
		at := "/v1/queries/" + id + "/results"
		for _, x := range slices.Sorted(maps.Keys(mediaTypes)) {
			st := 406
			if strings.Contains(strings.Join(Representations(w.m.queries[id].Form), " "), x) {
				st = 200
				w.get(at+"."+x, `If-None-Match: "Zq81.1.`+x+`"`).status(304)
			}
			w.get(at+"."+x, "Accept: image/png").status(st) // the suffix decides
		}
	}
	for _, x := range append([]string{""}, ".srj", ".srx", ".csv", ".tsv", ".nt", ".ttl", ".jsonld") {
		w.get("/v1/queries/missing/results"+x).problem(404, "not-found")
	}
	locked, _ := lockedWorld(t)
	for _, x := range append([]string{""}, ".srj", ".srx", ".csv", ".tsv", ".nt", ".ttl", ".jsonld") {
		locked.get("/v1/queries/missing/results"+x).problem(401, "unauthorized")
	}
}

var (
	dangerous = diff.Term{Kind: diff.Literal, Value: "a\"b,c\r\n\td\\<&>\u2028é"}
	awkward   = table2(
		[2]diff.Term{iri("é"), dangerous},
		[2]diff.Term{{Kind: diff.Blank, Value: "x"}, {Kind: diff.Literal, Value: "1", Datatype: "http://www.w3.org/2001/XMLSchema#integer"}},
		[2]diff.Term{{}, {Kind: diff.Literal, Value: "hé", Lang: "en-gb"}},
		[2]diff.Term{{}, {}},
	)
)

func table2(rows ...[2]diff.Term) func() *diff.Result {
	return func() *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		b.SetVars([]string{"s", "o"})
		for _, r := range rows {
			b.Row(r[0], r[1])
		}
		r, _ := b.Finish()
		return r
	}
}

func represent(t *testing.T, r *diff.Result, suffix string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Represent(&b, r, suffix, ""); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Characters that some readers treat as the end of a line are quoted.
func TestCSVQuotes(t *testing.T) {
	for value, want := range map[string]string{"a\rb": "\"a\rb\"", "a\nb": "\"a\nb\"", `a"b`: `"a""b"`, "a,b": `"a,b"`, "a b": "a b"} {
		got := represent(t, table(t, [2]diff.Term{lit(value), lit("x")}), "csv")
		if !bytes.Contains(got, []byte("\r\n"+want+",x\r\n")) {
			t.Errorf("%q is written as %q", value, got)
		}
	}
}

// The standard library reads the CSV back.
func TestCSV(t *testing.T) {
	r := awkward()
	text := represent(t, r, "csv")
	if !bytes.HasPrefix(text, []byte("s,o\r\n")) || bytes.Count(text, []byte("\r\n")) < 5 {
		t.Errorf("%q", text)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatal(err, rows)
	}
	for i, row := range rows[1:] {
		for k, term := range r.Terms(i) {
			want := term.Value
			if term.Kind == diff.Blank {
				want = "_:" + want
			}
			if got := row[k]; got != strings.ReplaceAll(want, "\r\n", "\n") { // the reader folds \r\n
				t.Errorf("row %d: %q, want %q", i, got, want)
			}
		}
	}
}

// TSV cells are terms of N-Triples; the RDF library reads them back.
func TestTSV(t *testing.T) {
	r := awkward()
	lines := strings.Split(string(represent(t, r, "tsv")), "\n")
	if lines[0] != "?s\t?o" || len(lines) != r.Len()+2 || lines[len(lines)-1] != "" {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines[1 : len(lines)-1] {
		for k, cell := range strings.Split(line, "\t") {
			term := r.Terms(i)[k]
			if term.Kind == diff.Unbound {
				if cell != "" {
					t.Errorf("unbound is %q", cell)
				}
				continue
			}
			dec := rdf.NewTripleDecoder(strings.NewReader("<http://x/s> <http://x/p> "+cell+" .\n"), rdf.NTriples)
			tr, err := dec.Decode()
			if err != nil {
				t.Errorf("%q: %v", cell, err)
				continue
			}
			if got := tr.Obj.String(); got != term.Value && got != "_:"+term.Value {
				t.Errorf("%q reads as %q, want %q", cell, got, term.Value)
			}
		}
	}
}

func TestXML(t *testing.T) {
	type node struct {
		Name  string  `xml:"name,attr"`
		URI   *string `xml:"uri"`
		Blank *string `xml:"bnode"`
		Lit   *struct {
			Lang string `xml:"http://www.w3.org/XML/1998/namespace lang,attr"`
			Type string `xml:"datatype,attr"`
			Text string `xml:",chardata"`
		} `xml:"literal"`
	}
	var doc struct {
		XMLName xml.Name
		Vars    []node `xml:"head>variable"`
		Rows    []struct {
			B []node `xml:"binding"`
		} `xml:"results>result"`
		Boolean string `xml:"boolean"`
	}
	r := awkward()
	if err := xml.Unmarshal(represent(t, r, "srx"), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.XMLName.Space != "http://www.w3.org/2005/sparql-results#" || len(doc.Vars) != 2 || len(doc.Rows) != r.Len() {
		t.Fatalf("%+v", doc)
	}
	for i := range r.Len() {
		var got []diff.Term = make([]diff.Term, 2)
		for _, b := range doc.Rows[i].B {
			k := strings.Index("so", b.Name)
			switch {
			case b.URI != nil:
				got[k] = diff.Term{Kind: diff.IRI, Value: *b.URI}
			case b.Blank != nil:
				got[k] = diff.Term{Kind: diff.Blank, Value: *b.Blank}
			default:
				got[k] = diff.Term{Kind: diff.Literal, Value: b.Lit.Text, Datatype: b.Lit.Type, Lang: b.Lit.Lang}
			}
		}
		if d := cmp.Diff(r.Terms(i), got); d != "" {
			t.Errorf("row %d (-want +got):\n%s", i, d)
		}
	}
	doc.Boolean = ""
	if err := xml.Unmarshal(represent(t, truthValue(t, true), "srx"), &doc); err != nil || doc.Boolean != "true" {
		t.Errorf("ASK: %v %v", doc.Boolean, err)
	}
}

// The answer to ASK is a value with a header.
func TestAskAsTable(t *testing.T) {
	for suffix, want := range map[string]string{"csv": "_askResult\r\ntrue\r\n", "tsv": "?_askResult\ntrue\n"} {
		if got := string(represent(t, truthValue(t, true), suffix)); got != want {
			t.Errorf("%s: %q", suffix, got)
		}
	}
}

// The Turtle document has the same triples as the canonical document.
func TestTurtle(t *testing.T) {
	blank := diff.Term{Kind: diff.Blank, Value: "b"}
	r := graph(t, [3]diff.Term{iri("a"), iri("p"), dangerous}, [3]diff.Term{iri("a"), iri("p"), iri("x")},
		[3]diff.Term{iri("a"), iri("q"), lit("1")},
		[3]diff.Term{iri("a b"), iri("p"), blank}, [3]diff.Term{blank, iri("p"), lit("2")},
		[3]diff.Term{iri("a"), {Kind: diff.IRI, Value: isA}, lit("odd")}, [3]diff.Term{iri("a"), {Kind: diff.IRI, Value: isA},
			iri("T")}, [3]diff.Term{iri("a"), {Kind: diff.IRI, Value: isA}, blank},
		[3]diff.Term{iri("a"), iri("n"), {Kind: diff.Literal, Value: "7", Datatype: "http://www.w3.org/2001/XMLSchema#integer"}},
		[3]diff.Term{iri("a"), iri("n"), {Kind: diff.Literal, Value: "sieben", Lang: "de"}})
	read := func(b []byte, f rdf.Format) (out []string) {
		dec := rdf.NewTripleDecoder(bytes.NewReader(b), f)
		for {
			tr, err := dec.Decode()
			if err == io.EOF {
				return out
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			out = append(out, tr.Serialize(rdf.NTriples))
		}
	}
	text := represent(t, r, "ttl")
	if d := cmp.Diff(read(r.Document(), rdf.NTriples), read(text, rdf.Turtle)); d != "" {
		t.Errorf("(-nt +ttl):\n%s\n%s", d, text)
	}
	if n := bytes.Count(text, []byte("/a>")); n != 1 {
		t.Errorf("a subject occurs %d times:\n%s", n, text)
	}
	if !bytes.Equal(represent(t, r, "nt"), r.Document()) || len(represent(t, graph(t), "ttl")) != 0 {
		t.Error("nt is not the canonical document, or nothing is not nothing")
	}
	var named bytes.Buffer
	const prologue = "prefix x: <http://example.org/> PREFIX x: <http://y/> PREFIX ex.a: <http://z/> # PREFIX : " +
		"<http://www.w3.org/2001/XMLSchema#>\nDESCRIBE x:a"
	if err := Represent(&named, r, "ttl", prologue); err != nil || !bytes.HasPrefix(named.Bytes(),
		[]byte("@prefix x: <http://example.org/> .\n@prefix : <http://www.w3.org/2001/XMLSchema#> .\n\n")) {
		t.Errorf("prefixes: %v\n%s", err, named.Bytes())
	}
	if d := cmp.Diff(read(r.Document(), rdf.NTriples), read(named.Bytes(), rdf.Turtle)); d != "" || !bytes.Contains(named.Bytes(),
		[]byte("x:a ")) {
		t.Errorf("(-nt +ttl with prefixes):\n%s\n%s", d, named.Bytes())
	}
	if got := linkedTriples(t, represent(t, r, "jsonld")); !slices.Equal(got, strings.Split(strings.TrimSpace(string(r.Document())), "\n")) {
		t.Errorf("as JSON-LD:\n%s\n%s", strings.Join(got, "\n"), represent(t, r, "jsonld"))
	}
	if Represent(io.Discard, r, "csv", "") == nil {
		t.Error("a graph as CSV")
	}
}

// A failure of the store is answered with 500, and its text is only logged.
func TestStoreFails(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	w.m.failure = io.ErrClosedPipe
	a := w.get("/v1/queries/"+id+"/results").problem(500, "internal")
	if strings.Contains(string(a.body), "pipe") || !strings.Contains(w.log.String(), io.ErrClosedPipe.Error()) {
		t.Errorf("%s\n%s", a.body, w.log)
	}
}

func TestNoResultWait(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	st := w.m.status[id]
	for until, want := range map[time.Duration]string{90 * time.Second: "90", -time.Second: "1", 48 * time.Hour: "3600"} {
		w.m.due[id], st.Error = morning.Add(until), "the endpoint is away"
		w.m.status[id] = st
		a := w.get("/v1/queries/"+id+"/results", "If-None-Match: *").problem(404, "no-result")
		if a.Header.Get("Retry-After") != want || !strings.Contains(a.string("detail"), "away") {
			t.Errorf("%v: %v %s", until, a.Header, a.body)
		}
	}
	for _, x := range slices.Sorted(maps.Keys(mediaTypes)) {
		w.get("/v1/queries/" + id + "/results." + x)
	}
	if w.m.status[id].State != registry.New || http.StatusText(404) == "" {
		t.Error("asking changed the state")
	}
}

// A client may be slow in total: each piece has a deadline of its own.
func TestPatience(t *testing.T) {
	d := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	n, err := patient(d).Write(make([]byte, 3*pieceSize+1))
	if n != 3*pieceSize+1 || err != nil || d.largest != pieceSize || len(d.deadlines) != 4 {
		t.Errorf("%d bytes, %v, pieces of up to %d, %d deadlines", n, err, d.largest, len(d.deadlines))
	}
	for _, at := range d.deadlines {
		if left := time.Until(at); left <= 0 || left > slowestPiece {
			t.Errorf("a piece has %v", left)
		}
	}
	d.fails = true
	if n, err := patient(d).Write(make([]byte, 2*pieceSize)); n != 0 || err == nil {
		t.Errorf("a dead connection takes %d bytes", n)
	}
}

type deadlined struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
	largest   int
	fails     bool
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.deadlines = append(d.deadlines, t)
	return nil
}

func (d *deadlined) Write(b []byte) (int, error) {
	if d.fails {
		return 0, io.ErrClosedPipe
	}
	d.largest = max(d.largest, len(b))
	return len(b), nil
}

// linkedTriples reads expanded JSON-LD as sorted N-Triples.
func linkedTriples(t *testing.T, document []byte) (list []string) {
	t.Helper()
	var nodes []map[string]json.RawMessage
	if err := json.Unmarshal(document, &nodes); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	node := func(id string) diff.Term {
		if blank, ok := strings.CutPrefix(id, "_:"); ok {
			return diff.Term{Kind: diff.Blank, Value: blank}
		}
		return diff.Term{Kind: diff.IRI, Value: id}
	}
	for _, n := range nodes {
		var subject string
		_ = json.Unmarshal(n["@id"], &subject)
		for member, raw := range n {
			var values []any
			if member == "@id" || json.Unmarshal(raw, &values) != nil {
				continue
			}
			for _, v := range values {
				object, property := diff.Term{}, member
				switch v := v.(type) {
				case string:
					object, property = node(v), "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
				case map[string]any:
					object = diff.Term{Kind: diff.Literal}
					object.Value, _ = v["@value"].(string)
					object.Lang, _ = v["@language"].(string)
					object.Datatype, _ = v["@type"].(string)
					if id, ok := v["@id"].(string); ok {
						object = node(id)
					}
				}
				list = append(list, node(subject).String()+" "+node(property).String()+" "+object.String()+" .")
			}
		}
	}
	slices.Sort(list)
	return list
}
