package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const people = `<http://x/ann> <http://x/knows> <http://x/bob> .
<http://x/bob> <http://x/knows> <http://x/cem> .
<http://x/ann> <http://x/age> "41"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://x/bob> <http://x/name> "Böb"@de .
`

// runaway is a query that does not end on a few hundred triples.
const runaway = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o . ?p ?q ?r }"

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<http://x/s%d> <http://x/p> \"%d\" .\n", i, i)
	}
	return b.String()
}

func TestQueryFormats(t *testing.T) {
	e := loaded(t, people)
	const rows = "SELECT ?s ?o { ?s <http://x/name> ?o }"
	const graph = "CONSTRUCT { ?s <http://x/of> ?o } WHERE { ?o <http://x/knows> ?s . ?o <http://x/age> ?a }"
	for _, c := range []struct{ query, format, want string }{
		{rows, "json", `{"head":{"vars":["s","o"]},"results":{"bindings":[{"s":{"type":"uri","value":"http://x/bob"},` +
			`"o":{"type":"literal","value":"Böb","xml:lang":"de"}}]}}`},
		{rows, "csv", "s,o\r\nhttp://x/bob,Böb\r\n"},
		{rows, "tsv", "?s\t?o\n<http://x/bob>\t\"Böb\"@de\n"},
		{rows, "xml", `<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable ` +
			`name="s"/><variable name="o"/></head><results><result><binding name="s"><uri>http://x/bob</uri></binding><binding ` +
			`name="o"><literal xml:lang="de">Böb</literal></binding></result></results></sparql>`},
		{"ASK { ?s <http://x/age> 41 }", "json", `{"head":{},"boolean":true}`},
		{"ASK { ?s <http://x/age> 42 }", "xml", `<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#">` +
			`<head></head><boolean>false</boolean></sparql>`},
		{graph, "nt", "<http://x/bob> <http://x/of> <http://x/ann> .\n"},
		{graph, "ttl", "<http://x/bob> <http://x/of> <http://x/ann> .\n"},
		{"DESCRIBE <http://x/bob>", "rdf", `<?xml version="1.0" encoding="UTF-8"?>`},
	} {
		got, err := e.Query(context.Background(), c.query, c.format, nil, nil)
		if err != nil {
			t.Errorf("%s as %s: %v", c.query, c.format, err)
		} else if c.format == "rdf" && strings.HasPrefix(string(got), c.want) && strings.Contains(string(got), "cem") {
			continue
		} else if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s as %s: -want +got\n%s", c.query, c.format, diff)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	e := loaded(t, people)
	ctx := context.Background()
	for _, c := range []struct {
		text string
		kind error
	}{
		{"SELECT bad", ErrSyntax},
		{"", ErrSyntax},
		{"SELECT * { ?s nope:p ?o }", ErrSyntax},
		{"ASK { ?s <no iri> ?o }", ErrSyntax},
		{"SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o }", ErrSyntax},
		{"INSERT DATA { <http://x/a> <http://x/b> 1 }", ErrSyntax}, // not a query
		{"SELECT (<http://x/f>(1) AS ?x) {}", ErrEval},
		{"SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }", ErrEval},
	} {
		_, err := e.Query(ctx, c.text, "json", nil, nil)
		var said *CallError
		if !errors.Is(err, c.kind) || !errors.As(err, &said) || said.Message == "" {
			t.Errorf("%q: got %v, want %v", c.text, err, c.kind)
		}
	}
	if err := e.Update(ctx, "INSERT DATA { ?s <http://x/b> 1 }"); !errors.Is(err, ErrSyntax) {
		t.Errorf("update: got %v", err)
	}
	if err := e.Update(ctx, "LOAD <http://127.0.0.1:1/>"); !errors.Is(err, ErrEval) {
		t.Errorf("load: got %v", err)
	}
	if n, err := e.Size(ctx); err != nil || n != 4 {
		t.Errorf("size %d, %v after errors, want 4", n, err)
	}
}

func TestDatasetOfTheProtocol(t *testing.T) {
	e := openEngine(t)
	ctx := context.Background()
	quads := `<http://x/a> <http://x/p> "0" .
<http://x/a> <http://x/p> "1" <http://x/g1> .
<http://x/a> <http://x/p> "2" <http://x/g2> .
`
	if err := e.Load(ctx, strings.NewReader(quads), "nq"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query         string
		defaults, all []string
		want          string
	}{
		{"SELECT ?o { ?s ?p ?o } ORDER BY ?o", nil, nil, "o\r\n0\r\n"},
		{"SELECT ?o { ?s ?p ?o } ORDER BY ?o", []string{"http://x/g1", "http://x/g2"}, nil, "o\r\n1\r\n2\r\n"},
		{"SELECT ?o { ?s ?p ?o } ORDER BY ?o", nil, []string{"http://x/g1"}, "o\r\n"},
		{"SELECT ?o { GRAPH ?g { ?s ?p ?o } } ORDER BY ?o", nil, []string{"http://x/g2"}, "o\r\n2\r\n"},
		{"SELECT ?o { GRAPH ?g { ?s ?p ?o } } ORDER BY ?o", []string{"http://x/g1"}, nil, "o\r\n"},
	} {
		got, err := e.Query(ctx, c.query, "csv", c.defaults, c.all)
		if err != nil || string(got) != c.want {
			t.Errorf("%s over %v, %v: %q, %v, want %q", c.query, c.defaults, c.all, got, err, c.want)
		}
	}
}

// A load is one scope of blank nodes, however many chunks it has.
func TestLoadInChunks(t *testing.T) {
	e := openEngine(t)
	ctx := context.Background()
	var b strings.Builder
	b.WriteString("_:shared <http://x/first> \"1\" .\n")
	filler := strings.Repeat("y", 1<<20)
	for i := range 9 {
		fmt.Fprintf(&b, "<http://x/big%d> <http://x/is> \"%s\" .\n", i, filler)
	}
	b.WriteString("_:shared <http://x/last> \"2\" .\n")
	if b.Len() <= chunkSize {
		t.Fatal("the document fits into one chunk")
	}
	if err := e.Load(ctx, strings.NewReader(b.String()), "application/n-triples"); err != nil {
		t.Fatal(err)
	}
	got, err := e.Query(ctx, "ASK { ?b <http://x/first> ?x ; <http://x/last> ?y }", "csv", nil, nil)
	if err != nil || string(got) != "true" {
		t.Errorf("shared blank node: %s, %v", got, err)
	}
}

func TestFailedLoadLeavesNothing(t *testing.T) {
	e := loaded(t, people)
	var log bytes.Buffer
	e.log = slog.New(slog.NewTextHandler(&log, nil))
	before := sortedQuads(t, e)
	for name, c := range map[string]struct {
		source io.Reader
		want   error
	}{
		"syntax": {strings.NewReader("<http://x/new> <http://x/p> \"1\" .\n<http://x/new> <http://x/p> 1 .\n"), ErrSyntax},
		"broken": {io.MultiReader(strings.NewReader("<http://x/new> <http://x/p> \"1\" .\n"), brokenReader{}), errTorn},
	} {
		if err := e.Load(context.Background(), c.source, "nt"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, sortedQuads(t, e)); diff != "" {
			t.Errorf("%s: -before +after\n%s", name, diff)
		}
	}
	if log.Len() > 0 { // the error says what happened
		t.Errorf("it logs %s", log.String())
	}
}

var errTorn = errors.New("torn")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errTorn }

// A call that is cut leaves the dataset as it was.
func TestCutLosesNothing(t *testing.T) {
	e := loaded(t, numbers(300))
	ctx := context.Background()
	accepted := []string{
		"INSERT DATA { <http://x/new> <http://x/p> 'now and then', <http://x/o> }",
		"DELETE DATA { <http://x/s1> <http://x/p> '1' }",
		"INSERT { <http://x/id> <http://x/p> ?u, ?t } WHERE { BIND (STRUUID() AS ?u) BIND (NOW() AS ?t) }",
		"INSERT DATA { GRAPH <http://x/g> { <http://x/after> <http://x/p> 'it' } }",
		"CREATE GRAPH <http://x/empty>",
	}
	for _, u := range accepted {
		if err := e.Update(ctx, u); err != nil {
			t.Fatalf("%s: %v", u, err)
		}
	}
	before, version := sortedQuads(t, e), e.Version()
	for lives := time.Second; e.Version() == version && lives < time.Minute; lives *= 2 { // until one begins before it ends
		short, cancel := context.WithTimeout(ctx, lives)
		_, err := e.Query(short, runaway, "json", nil, nil)
		cancel()
		if !errors.Is(err, ErrCut) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("runaway query: %v", err)
		}
	}
	if diff := cmp.Diff(before, sortedQuads(t, e)); diff != "" {
		t.Errorf("after a cut query: -before +after\n%s", diff)
	}
	if e.Version() == version {
		t.Error("a rebuilt engine has the same version")
	}

	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := e.Update(short, "INSERT DATA { <http://x/never> <http://x/p> 1 } ; INSERT { <http://x/never> <http://x/p> ?n } "+
		"WHERE { { "+runaway+" } }")
	if !errors.Is(err, ErrCut) {
		t.Fatalf("runaway update: %v", err)
	}
	if diff := cmp.Diff(before, sortedQuads(t, e)); diff != "" {
		t.Errorf("after a cut update: -before +after\n%s", diff)
	}
	got, err := e.Query(ctx, "ASK { GRAPH <http://x/empty> {} }", "csv", nil, nil)
	if err != nil || string(got) != "true" {
		t.Errorf("the empty graph is gone: %s, %v", got, err)
	}
}

func TestWaitingCallsHonourTheirContext(t *testing.T) {
	e := loaded(t, numbers(100))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := e.Query(ctx, runaway, "json", nil, nil); !errors.Is(err, ErrCut) {
			t.Errorf("runaway: %v", err)
		}
	})
	for len(e.exclusive) != 0 {
		time.Sleep(time.Millisecond)
	}
	short, done := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer done()
	if _, err := e.Size(short); !errors.Is(err, ErrCut) {
		t.Errorf("waiting call: %v", err)
	}
	cancel()
	running.Wait()
	if n, err := e.Size(context.Background()); n != 100 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
}

func TestClosed(t *testing.T) {
	e := loaded(t, people)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Query(context.Background(), "ASK {}", "json", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	notWasm, other := filepath.Join(dir, "text.wasm"), filepath.Join(dir, "other.wasm")
	if err := os.WriteFile(notWasm, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "absent"): ErrNoEngine, notWasm: ErrEngineVersion, other: ErrEngineVersion,
	} {
		_, err := Open(context.Background(), Options{Path: path})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", filepath.Base(path), err, want)
		}
		if path == other && !strings.Contains(err.Error(), "make deps") {
			t.Errorf("the error does not say what differs and what to do: %v", err)
		}
	}
}
