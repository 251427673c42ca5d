package endpoint

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	typeJSON = "application/sparql-results+json"
	typeXML  = "application/sparql-results+xml"
	typeNT   = "application/n-triples"
	long     = time.Minute
)

func sel(text string) *registry.Query {
	return &registry.Query{ID: "q_test", Text: text, Form: diff.Select, Limit: -1}
}

func construct() *registry.Query {
	return &registry.Query{ID: "q_graph", Text: "CONSTRUCT WHERE {?s ?p ?o}", Form: diff.Construct, Limit: -1}
}

func ask() *registry.Query {
	return &registry.Query{ID: "q_ask", Text: "ASK {?s ?p ?o}", Form: diff.Ask, Limit: -1}
}

func query(form diff.Form, text string, limit int64) *registry.Query {
	return &registry.Query{ID: "q", Text: text, Form: form, Limit: limit}
}

// fetchAs requests one format and decodes the answer.
func fetchAs(t testing.TB, c *Client, accept string, q *registry.Query) *diff.Result {
	t.Helper()
	r, err := c.newRequest(q, long)
	if err != nil {
		t.Fatal(err)
	}
	r.template.Header.Set("Accept", accept)
	x, err := c.exchange(clockIn(t.Context(), long, long), r, Memory{})
	if err != nil || x.err != nil || x.status != 200 {
		t.Fatal(x.status, err, x.err)
	}
	if got := x.header.Get("Content-Type"); !strings.HasPrefix(got, accept) {
		t.Fatalf("%s came as %s", accept, got)
	}
	f, err := formats.Detect(q.Form, x.header.Get("Content-Type"), x.buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := formats.Decode(f, x.buf.Bytes(), q.Form, diff.Options{})
	if err != nil {
		t.Fatalf("%s: %v\n%s", accept, err, x.buf.String())
	}
	return res
}

// rows is a results document of n rows.
func rows(n int) string {
	var b strings.Builder
	b.WriteString(`{"head":{"vars":["x"]},"results":{"bindings":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"x":{"type":"literal","value":"%d"}}`, i)
	}
	b.WriteString(`]}}`)
	return b.String()
}

// triples is an N-Triples document of n lines.
func triples(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<http://e/s%d> <http://e/p> \"%d\" .\n", i, i)
	}
	return b.String()
}

// client returns a client of the server at addr; edit changes its settings.
func client(t testing.TB, addr string, edit func(*registry.Endpoint, *Options)) *Client {
	t.Helper()
	e, o := registry.Endpoint{Name: "test", URL: addr}, Options{Contact: "mailto:ops@example.org", Version: "1.2", Seed: 7}
	if edit != nil {
		edit(&e, &o)
	}
	c, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve runs a handler; the clients of the test are closed before it.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// send answers every request with the same body.
func send(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// serveRaw answers the first request of each connection with exactly these
// bytes and ends the connection.
func serveRaw(t testing.TB, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveRawOn(t, l, answer)
	return "http://" + l.Addr().String() + "/sparql"
}

func serveRawOn(t testing.TB, l net.Listener, answer string) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.Copy(io.Discard, r.Body)
				io.WriteString(conn, answer)
			}
			conn.Close()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
}

// execute executes a query without a memory.
func execute(t testing.TB, c *Client, q *registry.Query) Answer {
	t.Helper()
	return c.Execute(t.Context(), q, Memory{}, long)
}

// want checks the outcome and that the error says each of the words.
func want(t testing.TB, a Answer, o registry.Outcome, words ...string) {
	t.Helper()
	if a.Outcome != o {
		t.Fatalf("outcome %s (%s), want %s", a.Outcome, a.Error, o)
	}
	if (a.Result != nil) != (o == registry.Changed) {
		t.Errorf("outcome %s with result %v", o, a.Result)
	}
	if !o.Complete() && !reflect.DeepEqual(a.Memory, Memory{}) {
		t.Errorf("outcome %s remembers %v", o, a.Memory)
	}
	if o.Complete() == (a.Error != "") {
		t.Errorf("outcome %s with error %q", o, a.Error)
	}
	for _, w := range words {
		if !strings.Contains(a.Error, w) {
			t.Errorf("error %q does not say %q", a.Error, w)
		}
	}
}

func TestResultsOfEveryForm(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		q                       *registry.Query
		want                    string
	}{
		{"select json", typeJSON, rows(1), sel("SELECT"),
			`{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"literal","value":"0"}}]}}`},
		{"ask json", typeJSON, `{"head":{},"boolean":true}`, ask(), `{"head":{},"boolean":true}`},
		{"ask xml", typeXML, `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/><boolean>false</boolean></sparql>`, ask(),
			`{"head":{},"boolean":false}`},
		{"n-triples", typeNT, "<http://e/b>\t<http://e/p> \"x\"@EN .\n<http://e/a> <http://e/p> <http://e/ü> . # so\n\n", construct(),
			"<http://e/a> <http://e/p> <http://e/ü> .\n<http://e/b> <http://e/p> \"x\"@en .\n"},
		{"empty graph", typeNT, "# Empty NT\n", construct(), ""},
		{"empty body", typeNT, "", construct(), ""},
		{"turtle", "text/turtle; charset=UTF-8", "@prefix e: <http://e/> .\ne:a e:p 1, \"x\"@EN ; a e:T .\n", construct(),
			"<http://e/a> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n<http://e/a> <http://e/p> \"x\"@en .\n" +
				"<http://e/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T> .\n"},
		// Wrong labels among result types are accepted, since the body shows its
		// format.
		{"json as xml", typeXML, rows(0), sel("SELECT"), `{"head":{"vars":["x"]},"results":{"bindings":[]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := execute(t, client(t, serve(t, send(200, c.contentType, c.body)), nil), c.q)
			want(t, a, registry.Changed)
			if d := cmp.Diff(c.want, string(a.Result.Document())); d != "" {
				t.Error(d)
			}
			if a.Elapsed <= 0 || a.Memory.Body == [2]uint64{} {
				t.Errorf("elapsed %v, memory %v", a.Elapsed, a.Memory)
			}
			// Some servers begin with a byte order mark.
			marked := execute(t, client(t, serve(t, send(200, c.contentType, "\ufeff"+c.body)), nil), c.q)
			want(t, marked, registry.Changed)
			if marked.Result.Hash() != a.Result.Hash() {
				t.Errorf("with a byte order mark: %s", marked.Result.Document())
			}
		})
	}
}

// Age is the age of an answer on arrival. Invalid values are ignored, in
// particular negative ones.
func TestAge(t *testing.T) {
	for value, age := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 300 ": 5 * time.Minute, "-300": 0, "1.5": 0, "old": 0,
		"99999999999": (1 << 31) * time.Second, "99999999999999999999999": 0,
	} {
		a := execute(t, client(t, serve(t, send(200, typeJSON, rows(1), "Age", value)), nil), sel("S"))
		if want(t, a, registry.Changed); a.Age != age {
			t.Errorf("Age: %s is read as %v, want %v", value, a.Age, age)
		}
	}
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var form url.Values
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got, form = r, r.Form
		send(200, typeJSON, rows(0))(w, r)
	})
	c := client(t, addr+"/sparql?key=1#there", func(e *registry.Endpoint, o *Options) {
		e.TimeoutParam, e.Timeout = "timeout", registry.Duration(5*time.Second)
		e.DefaultGraphURI, e.NamedGraphURI = []string{"http://g/1", "http://g/2"}, []string{"http://n"}
		e.Headers = map[string]string{"x-key": "k", "accept": "text/html", "host": "sparql.test"}
	})
	t.Run("short by GET", func(t *testing.T) {
		want(t, execute(t, c, sel("SELECT * {?x ?p \"ü&+%\"}")), registry.Changed)
		wantForm := url.Values{"key": {"1"}, "query": {"SELECT * {?x ?p \"ü&+%\"}"}, "timeout": {"5000"},
			"default-graph-uri": {"http://g/1", "http://g/2"}, "named-graph-uri": {"http://n"}}
		if d := cmp.Diff(wantForm, form); d != "" {
			t.Error(d)
		}
		h := got.Header
		if got.Method != "GET" || got.Host != "sparql.test" || h.Get("User-Agent") != "Freshet/1.2 (+mailto:ops@example.org)" ||
			h.Get("Accept-Encoding") != "gzip" || h.Get("X-Key") != "k" || h.Get("Accept") != acceptRows[0] {
			t.Errorf("%s %s %v", got.Method, got.Host, h)
		}
	})
	t.Run("long by POST", func(t *testing.T) {
		text := "SELECT ?x {} #" + strings.Repeat("x", longestGET)
		want(t, execute(t, c, sel(text)), registry.Changed)
		if got.Method != "POST" || got.PostForm.Get("query") != text || got.PostForm.Get("timeout") != "5000" || got.Form.Get("key") != "1" {
			t.Errorf("%s %v", got.Method, got.PostForm)
		}
		if ct := got.Header.Get("Content-Type"); ct != "application/x-www-form-urlencoded" {
			t.Errorf("Content-Type %s", ct)
		}
		if _, sent := got.Header["Idempotency-Key"]; sent {
			t.Error("Idempotency-Key was sent")
		}
	})
	t.Run("own graphs replace the endpoint's, own limit the timeout", func(t *testing.T) {
		q := sel("SELECT")
		q.NamedGraphs = []string{"http://own"}
		want(t, c.Execute(t.Context(), q, Memory{}, 4*time.Second), registry.Changed)
		if form.Get("default-graph-uri") != "" || form.Get("named-graph-uri") != "http://own" || form.Get("timeout") != "4000" {
			t.Errorf("%v", form)
		}
	})
	t.Run("the graphs of the text are not mixed with the endpoint's", func(t *testing.T) {
		for text, alone := range map[string]bool{
			"SELECT * FROM <http://own> {?s ?p ?x}":                           true,
			"SELECT * from named <http://own> {GRAPH ?g {?s ?p ?x}}":          true,
			"SELECT * F\\u0052OM <http://own> {?s ?p ?x}":                     true,
			"DEFINE input:default-graph-uri <http://own> SELECT * {?s ?p ?x}": true,
			"SELECT ?x {?from <http://from> \"FROM\"} # FROM <http://x>":      false,
		} {
			want(t, execute(t, c, sel(text)), registry.Changed)
			if sent := form.Get("default-graph-uri") + form.Get("named-graph-uri"); (sent == "") != alone {
				t.Errorf("%s: sent with %q", text, sent)
			}
		}
		q := sel("SELECT * FROM <http://own> {?s ?p ?x}")
		q.DefaultGraphs = []string{"http://asked"}
		want(t, execute(t, c, q), registry.Changed)
		if got := form["default-graph-uri"]; len(got) != 1 || got[0] != "http://asked" || form.Has("named-graph-uri") {
			t.Errorf("registered with a graph: %v", form)
		}
	})
	t.Run("graphs are asked for as such", func(t *testing.T) {
		execute(t, c, construct())
		if got.Header.Get("Accept") != acceptGraph[0] {
			t.Errorf("Accept %s", got.Header.Get("Accept"))
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		e    registry.Endpoint
		o    Options
		ok   bool
	}{
		{"private without contact", registry.Endpoint{URL: "http://127.0.0.1:1/s"}, Options{}, true},
		{"neighbour without contact", registry.Endpoint{URL: "http://fuseki:3030/s"}, Options{}, true},
		{"public without contact", registry.Endpoint{URL: "https://dbpedia.org/sparql"}, Options{}, false},
		{"public address without contact", registry.Endpoint{URL: "https://192.0.2.1/sparql"}, Options{}, false},
		{"public with contact", registry.Endpoint{URL: "https://dbpedia.org/sparql"}, Options{Contact: "mailto:a@b"}, true},
		{"file", registry.Endpoint{URL: "file:///etc/passwd"}, Options{}, false},
		{"no host", registry.Endpoint{URL: "http:///x"}, Options{}, false},
		{"credentials in the URL", registry.Endpoint{URL: "http://u:p@localhost/"}, Options{}, false},
		{"two kinds of auth", registry.Endpoint{URL: "http://localhost/", Auth: registry.Auth{
			Basic: &registry.Password{}, Bearer: &registry.Bearer{}}}, Options{}, false},
	} {
		if _, err := New(c.e, c.o); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		} else if err != nil && strings.Contains(err.Error(), ":p@") {
			t.Errorf("%s: the password is in %q", c.name, err)
		}
	}
}

func TestUnchanged(t *testing.T) {
	body := atomic.Pointer[string]{}
	set := func(s string) { body.Store(&s) }
	set(rows(3))
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) { send(200, typeJSON, *body.Load())(w, r) }), nil)
	first := execute(t, c, sel("SELECT"))
	want(t, first, registry.Changed)
	again := c.Execute(t.Context(), sel("SELECT"), first.Memory, long)
	want(t, again, registry.Unchanged)
	if !reflect.DeepEqual(again.Memory, first.Memory) {
		t.Errorf("%v became %v", first.Memory, again.Memory)
	}
	set(rows(4))
	want(t, c.Execute(t.Context(), sel("SELECT"), first.Memory, long), registry.Changed)
	other := client(t, c.settings.URL, func(e *registry.Endpoint, o *Options) { o.Seed = 8 })
	if m := execute(t, other, sel("SELECT")).Memory; m.Body == execute(t, c, sel("SELECT")).Memory.Body {
		t.Error("the fingerprint does not depend on the seed")
	}
}

func TestValidators(t *testing.T) {
	const modified, date = "Fri, 20 Nov 2026 09:00:00 GMT", "Fri, 20 Nov 2026 09:00:05 GMT"
	tag, lm := `"v1"`, ""
	conditions := ""
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conditions = r.Header.Get("If-None-Match") + r.Header.Get("If-Modified-Since")
		w.Header().Set("ETag", tag)
		w.Header().Set("Last-Modified", lm)
		w.Header().Set("Date", date)
		w.Header().Set("Age", "120")
		if conditions != "" {
			w.WriteHeader(304)
			return
		}
		send(200, typeJSON, rows(1))(w, r)
	})
	c := client(t, addr, nil)
	first := execute(t, c, sel("SELECT"))
	want(t, first, registry.Changed)
	if conditions != "" || first.Age != 2*time.Minute {
		t.Fatalf("conditions %q, age %v", conditions, first.Age)
	}
	second := c.Execute(t.Context(), sel("SELECT"), first.Memory, long)
	want(t, second, registry.Unchanged)
	if conditions != tag || !reflect.DeepEqual(second.Memory, first.Memory) || second.Age != 2*time.Minute {
		t.Errorf("%q %v %v", conditions, first.Memory, second)
	}
	t.Run("bound to the request", func(t *testing.T) {
		want(t, c.Execute(t.Context(), sel("SELECT other"), first.Memory, long), registry.Unchanged) // by its bytes
		if conditions != "" {
			t.Errorf("an ETag of another query was sent: %s", conditions)
		}
		user := registry.Password{Username: "u", Password: "p"}
		for what, edit := range map[string]func(*registry.Endpoint){
			"other graphs":     func(e *registry.Endpoint) { e.DefaultGraphURI = []string{"http://g"} },
			"another cap":      func(e *registry.Endpoint) { e.MaxRows = 1000 },
			"another header":   func(e *registry.Endpoint) { e.Headers = map[string]string{"X-Tenant": "2"} },
			"a user":           func(e *registry.Endpoint) { e.Auth.Basic = &user },
			"a user by digest": func(e *registry.Endpoint) { e.Auth.Digest = &user },
			"a bearer":         func(e *registry.Endpoint) { e.Auth.Bearer = &registry.Bearer{Token: "t"} },
		} {
			moved := client(t, addr, func(e *registry.Endpoint, o *Options) { edit(e) })
			conditions = "not asked"
			moved.Execute(t.Context(), sel("SELECT"), first.Memory, long)
			if conditions != "" {
				t.Errorf("%s: an ETag given without was sent: %s", what, conditions)
			}
		}
	})
	t.Run("not on POST", func(t *testing.T) {
		q := sel(strings.Repeat("x", longestGET))
		m := execute(t, c, q).Memory
		want(t, c.Execute(t.Context(), q, m, long), registry.Unchanged)
		if conditions != "" {
			t.Error("a POST was conditional")
		}
	})
	t.Run("Last-Modified", func(t *testing.T) {
		tag, lm = "", modified
		m := execute(t, c, sel("SELECT")).Memory
		want(t, c.Execute(t.Context(), sel("SELECT"), m, long), registry.Unchanged)
		if conditions != modified {
			t.Errorf("conditions %q", conditions)
		}
		lm = date // changed in the second of the answer, in which it may change again
		if m := execute(t, c, sel("SELECT")).Memory; m.LastModified != "" {
			t.Errorf("remembered %v", m)
		}
	})
	t.Run("too long", func(t *testing.T) {
		defer func() { tag, lm = "", "" }()
		tag = `"` + strings.Repeat("x", longestValidator) + `"`
		lm = strings.Replace(modified, ":00 ", ":00."+strings.Repeat("0", longestValidator)+" ", 1)
		if m := execute(t, c, sel("SELECT")).Memory; m.ETag != "" || m.LastModified != "" {
			t.Errorf("remembered %.50s (%d bytes) and %.50s (%d bytes)", m.ETag, len(m.ETag), m.LastModified, len(m.LastModified))
		}
		tag, lm = `"`+strings.Repeat("x", longestValidator-2)+`"`, modified
		if m := execute(t, c, sel("SELECT")).Memory; m.ETag == "" || m.LastModified == "" {
			t.Errorf("not remembered: %+v", m)
		}
	})
	t.Run("304 without its validators", func(t *testing.T) {
		c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if conditions = r.Header.Get("If-None-Match"); conditions != "" {
				w.WriteHeader(304)
				return
			}
			send(200, typeJSON, rows(1), "ETag", `"v2"`)(w, r)
		}), nil)
		m := execute(t, c, sel("SELECT")).Memory
		for range 2 {
			a := c.Execute(t.Context(), sel("SELECT"), m, long)
			want(t, a, registry.Unchanged)
			if conditions != `"v2"` {
				t.Errorf("conditions %q: the ETag is forgotten", conditions)
			}
			m = a.Memory
		}
	})
	t.Run("304 with those of a body never seen", func(t *testing.T) {
		state := 1
		c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", fmt.Sprintf(`"v%d"`, state))
			if r.Header.Get("If-None-Match") == w.Header().Get("ETag") {
				state = 2 // before the header is written
				w.Header().Set("ETag", `"v2"`)
				w.WriteHeader(304)
				return
			}
			send(200, typeJSON, rows(state))(w, r)
		}), nil)
		m := execute(t, c, sel("SELECT")).Memory
		a := c.Execute(t.Context(), sel("SELECT"), m, long)
		want(t, a, registry.Unchanged)
		want(t, c.Execute(t.Context(), sel("SELECT"), a.Memory, long), registry.Changed)
	})
	t.Run("a weak ETag", func(t *testing.T) {
		state := 1
		c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `W/"v"`)
			w.Header().Set("Last-Modified", modified)
			w.Header().Set("Date", date)
			if r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != "" {
				w.WriteHeader(304)
				return
			}
			send(200, typeJSON, rows(state))(w, r)
		}), nil)
		m := execute(t, c, sel("SELECT")).Memory
		for range 2 {
			state++ // which the weak ETag does not tell
			for range mostWeak {
				a := c.Execute(t.Context(), sel("SELECT"), m, long)
				want(t, a, registry.Unchanged)
				m = a.Memory
			}
			a := c.Execute(t.Context(), sel("SELECT"), m, long)
			want(t, a, registry.Changed)
			m = a.Memory
		}
	})
	t.Run("304 to nothing", func(t *testing.T) {
		want(t, execute(t, client(t, serve(t, send(304, typeJSON, "")), nil), sel("SELECT")), registry.Failed, "304")
	})
}

func TestExecuteNeedsTime(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) { t.Error("a request was sent") }), nil)
	want(t, c.Execute(t.Context(), sel("S"), Memory{}, 0), registry.Cut)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, c.Execute(ctx, sel("S"), Memory{}, long), registry.Cut)
}

// An unchanged answer is recognised without parsing: hundreds of rows take no
// more memory than one.
func TestUnchangedCostsNoParse(t *testing.T) {
	allocations := func(n int) float64 {
		c := client(t, serve(t, send(200, typeJSON, rows(n))), nil)
		q := sel("SELECT")
		r, err := c.newRequest(q, long)
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.exchange(clockIn(t.Context(), long, long), r, Memory{})
		if err != nil {
			t.Fatal(err)
		}
		clock := clockIn(t.Context(), long, long)
		defer clock.cancel()
		m := c.judge(x, nil, q, r, Memory{}, clock).Memory
		least := math.Inf(1)
		for range 10 { // other goroutines and a collection of garbage allocate too
			least = min(least, testing.AllocsPerRun(20, func() {
				if v := c.judge(x, nil, q, r, m, clock); v.Outcome != registry.Unchanged {
					t.Fatalf("%+v", v)
				}
			}))
		}
		return least
	}
	if one, many := allocations(1), allocations(5000); many > one {
		t.Errorf("%v allocations for 5000 rows, %v for one", many, one)
	}
}

// The order of the variables in the head has no meaning and is kept.
func TestHeadOrderIsKept(t *testing.T) {
	bodies := []string{
		`{"head":{"vars":["a","b"]},"results":{"bindings":[{"a":{"type":"literal","value":"1"}}]}}`,
		`{"head":{"vars":["b","a"]},"results":{"bindings":[{"a":{"type":"literal","value":"1"}}]}}`,
	}
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/sparql-results+json")
		io.WriteString(w, bodies[n%2])
		n++
	}))
	defer s.Close()
	c := client(t, s.URL, nil)
	q := sel("SELECT * { ?s ?a ?b }")
	first := c.Execute(t.Context(), q, Memory{}, time.Second)
	second := c.Execute(t.Context(), q, first.Memory, time.Second)
	if first.Result == nil || second.Result == nil || second.Result.Hash() != first.Result.Hash() {
		t.Errorf("%+v and %+v, want the same document", first, second)
	}
}

// Where the endpoint tells its position, an answer must not come from a cache that was filled before.
func TestCachesAreAskedToPassRequestsOn(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(e *registry.Endpoint, o *Options)
		want string
	}{
		"no position": {func(*registry.Endpoint, *Options) {}, ""},
		"a position":  {func(e *registry.Endpoint, o *Options) { e.Feed, e.Position = "wd", "dateModified" }, "no-cache"},
		"a header of the user's": {func(e *registry.Endpoint, o *Options) {
			e.Feed, e.Position, e.Headers = "wd", "dateModified", map[string]string{"cache-control": "max-age=5"}
		}, "max-age=5"},
	} {
		r, err := client(t, "http://x.example/sparql", c.edit).newRequest(ask(), long)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.template.Header.Get("Cache-Control"); got != c.want {
			t.Errorf("%s: Cache-Control: %q, want %q", name, got, c.want)
		}
	}
	was := registry.Endpoint{URL: "http://x.example/sparql", Feed: "wd"}
	now := was
	if now.Position = "dateModified"; !registry.RequestsDiffer(was, now) {
		t.Error("a position that is added changes no request")
	}
}
