package endpoint

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// raw is an HTTP/1.1 answer with these header lines and exactly this body.
func raw(contentType, body string, header ...string) string {
	h := "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + contentType + "\r\n"
	for _, line := range header {
		h += line + "\r\n"
	}
	return h + "\r\n" + body
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func length(s string) string { return "Content-Length: " + strconv.Itoa(len(s)) }

// page returns a raw answer that arrives completely.
func page(contentType, body string) string { return raw(contentType, body, length(body)) }

// Each answer has status 200, and none may be compared.
func TestPartial(t *testing.T) {
	const chunked, gz = "Transfer-Encoding: chunked", "Content-Encoding: gzip"
	whole, graph := rows(3), triples(3)
	zip := zipped(graph)
	for _, c := range []struct {
		name, answer string
		q            *registry.Query
		says         string
	}{
		{"206", strings.Replace(raw(typeJSON, whole, length(whole)), "200 OK", "206 Partial Content", 1), sel("S"), "206"},
		{"203", strings.Replace(raw(typeJSON, whole, length(whole)), "200 OK", "203 Transformed", 1), sel("S"), "203"},
		{"X-SQL-State", raw(typeJSON, whole, length(whole), "X-SQL-State: S1TAT", "X-SQL-Message: RC...: Returning incomplete results"),
			sel("S"), "S1TAT RC...: Returning incomplete"},
		{"X-SQL-Message alone", raw(typeJSON, whole, length(whole), "X-SQL-Message: incomplete"), sel("S"), "incomplete"},
		{"X-SQL-State behind the body", raw(typeJSON, fmt.Sprintf("%x\r\n%s\r\n0\r\nX-SQL-State: S1TAT\r\n\r\n", len(whole), whole),
			chunked, "Trailer: X-SQL-State"), sel("S"), "S1TAT"},
		{"shorter than Content-Length", raw(typeNT, graph, "Content-Length: 1000"), construct(), "cut off"},
		{"chunks without an end", raw(typeNT, fmt.Sprintf("%x\r\n%s\r\n", len(graph), graph), chunked), construct(), "cut off"},
		{"gzip without its trailer", raw(typeNT, zip[:len(zip)-8], gz, length(zip[:len(zip)-8])), construct(), "cut off"},
		{"gzip with another checksum", raw(typeNT, zip[:len(zip)-8]+"12345678", gz, length(zip)), construct(), "cut off"},
		{"garbage behind gzip", raw(typeNT, zip+"xx", gz, length(zip+"xx")), construct(), "cut off"},
		{"not gzip at all", raw(typeNT, graph, gz, length(graph)), construct(), "cut off"},
		{"lines up to the end of the connection", raw(typeNT, graph), construct(), "without saying"},
		{"turtle up to the end of the connection", raw("text/turtle", graph), construct(), "without saying"},
		{"json without an end", raw(typeJSON, whole[:len(whole)-1]), sel("S"), "not a complete answer"},
		{"garbage behind json", raw(typeJSON, whole+"x", length(whole+"x")), sel("S"), "not a complete answer"},
		{"two documents", raw(typeJSON, whole+whole, length(whole+whole)), sel("S"), "not a complete answer"},
		{"an error as json", raw(typeJSON, `{"error":"quota"}`), sel("S"), "not a complete answer"},
		{"boolean for rows", raw(typeJSON, `{"head":{},"boolean":true}`), sel("S"), "not a complete answer"},
		{"rows for a boolean", raw(typeJSON, whole), ask(), "not a complete answer"},
		{"html", raw("text/html", "<!DOCTYPE html><html><head><title>x</title></head><body><h1>Under maintenance</h1></body></html>"),
			sel("S"), "Under maintenance"},
		{"rows called html", raw("text/html", whole, length(whole)), sel("S"), "text/html"},
		{"a graph called binary", raw("application/octet-stream", graph, length(graph)), construct(), "octet-stream"},
		{"html as json", raw(typeJSON, "<html><body>Too busy</body></html>"), sel("S"), "Too busy"},
		{"html as text for a graph", raw("text/plain", "<html><body>Too busy</body></html>", "Content-Length: 34"), construct(), "Too busy"},
		{"an error as text", raw("text/plain", "Virtuoso 42000 Error: no\n\nmore", "Content-Length: 30"), construct(),
			"Virtuoso 42000 Error: no"},
		{"nothing as text", raw("text/plain", "", "Content-Length: 0"), construct(), "empty"},
		{"nothing as json", raw(typeJSON, "", "Content-Length: 0"), sel("S"), "neither"},
		{"no type", strings.Replace(raw("", whole, length(whole)), "Content-Type: \r\n", "", 1), sel("S"), "has no known media type"},
		{"a type of something else", raw("text/csv", "x\r\n1\r\n", "Content-Length: 6"), sel("S"), "text/csv"},
		{"a bad line", raw(typeNT, graph+"<x> <y>\n", length(graph+"<x> <y>\n")), construct(), "line 4"},
		{"turtle without an end", raw("text/turtle", "<http://e/a> <http://e/b>", "Content-Length: 25"), construct(), "not a complete answer"},
		{"rdf/xml", page("application/rdf+xml", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>`), construct(),
			"N-Triples and Turtle only"},
		{"rdf/xml as text", page("text/plain", `<?xml version="1.0"?><rdf:RDF `+
			`xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>`), construct(), "N-Triples and Turtle only"},
		{"xhtml for a graph", page("application/xml", `<?xml version="1.0"?><!DOCTYPE html><html `+
			`xmlns="http://www.w3.org/1999/xhtml"><head/><body>Too busy</body></html>`), construct(), "N-Triples and Turtle only"},
		{"an xml error for a graph", page("text/xml", `<?xml version="1.0"?><error xmlns="http://e/ns#"><code>503</code></error>`),
			construct(), "N-Triples and Turtle only"},
		{"xml results for a graph", page("application/rdf+xml",
			`<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/><boolean>true</boolean></sparql>`), construct(),
			"N-Triples and Turtle only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := execute(t, client(t, serveRaw(t, c.answer), nil), c.q)
			want(t, a, registry.Partial, c.says)
		})
	}
}

// The same transports without a fault, to show that the test above is about the
// faults.
func TestWholeOverRawConnections(t *testing.T) {
	whole, graph := rows(3), triples(3)
	zip := zipped(graph)
	for name, answer := range map[string]string{
		"length":     raw(typeNT, graph, length(graph)),
		"chunks":     raw(typeNT, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(graph), graph), "Transfer-Encoding: chunked"),
		"gzip":       raw(typeNT, zip, "Content-Encoding: gzip", length(zip)),
		"gzip, open": raw(typeNT, zip, "Content-Encoding: gzip"),
	} {
		t.Run(name, func(t *testing.T) {
			a := execute(t, client(t, serveRaw(t, answer), nil), construct())
			want(t, a, registry.Changed)
			if a.Result.Len() != 3 {
				t.Errorf("%d triples", a.Result.Len())
			}
		})
	}
	// JSON shows its own end, so the end of the connection may be the only other
	// one.
	want(t, execute(t, client(t, serveRaw(t, raw(typeJSON, whole)), nil), sel("S")), registry.Changed)
}

// TLS does not show a missing end either.
func TestUnframedOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(s.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	serveRawOn(t, l, raw(typeNT, triples(3)))
	c := client(t, "https://"+l.Addr().String()+"/sparql", nil)
	a := execute(t, c, construct())
	want(t, a, registry.Failed, "certificate") // as long as it is not trusted
	c.http.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	want(t, execute(t, c, construct()), registry.Partial, "without saying")
}

// HTTP/2 frames show an end and a missing end.
func TestFramesOfHTTP2(t *testing.T) {
	cut := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("%s, not HTTP/2", r.Proto)
		}
		w.Header().Set("Content-Type", typeNT)
		for range 2 { // flushed, so that no length is known
			io.WriteString(w, triples(2))
			w.(http.Flusher).Flush()
		}
		if cut {
			panic(http.ErrAbortHandler)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	c := client(t, s.URL, nil)
	c.http.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	want(t, execute(t, c, construct()), registry.Changed)
	cut = true
	want(t, execute(t, c, construct()), registry.Partial, "cut off")
}

// An HTTP/2 connection whose packets are lost is given up, so that the next request opens another one.
func TestLostHTTP2Connection(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeNT)
		io.WriteString(w, triples(2))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var opened, lost atomic.Int32 // connections, and how many of the first of them lose all packets
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			number := opened.Add(1)
			pass := func(to, from net.Conn) {
				defer to.Close()
				for b := make([]byte, 4096); ; {
					n, err := from.Read(b)
					if err != nil {
						return
					}
					if number > lost.Load() {
						to.Write(b[:n])
					}
				}
			}
			go pass(to, from)
			go pass(from, to)
		}
	}()
	c := client(t, "https://"+l.Addr().String()+"/sparql", nil)
	transport := c.http.Transport.(*http.Transport)
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if h := transport.HTTP2; h != nil {
		h.SendPingTimeout /= 50
		h.PingTimeout /= 50
	}
	want(t, execute(t, c, construct()), registry.Changed)
	lost.Store(opened.Load())
	a := c.Execute(t.Context(), construct(), Memory{}, 3*time.Second)
	want(t, a, registry.Failed, "connection lost")
	want(t, execute(t, c, construct()), registry.Changed)
}

func TestRowCap(t *testing.T) {
	limited := func(q *registry.Query, n int64) *registry.Query { q.Limit = n; return q }
	for _, c := range []struct {
		name   string
		q      *registry.Query
		n      int    // rows or triples sent
		header string // X-SPARQL-MaxRows
		max    int    // max_rows
		want   registry.Outcome
	}{
		{"below the header's cap", sel("S"), 9, "10", 0, registry.Changed},
		{"at the header's cap", sel("S"), 10, "10", 0, registry.Partial},
		{"own LIMIT at the cap", limited(sel("S"), 10), 10, "10", 0, registry.Changed},
		{"own LIMIT below the cap", limited(sel("S"), 0), 0, "10", 0, registry.Changed},
		{"own LIMIT above the cap", limited(sel("S"), 11), 10, "10", 0, registry.Partial},
		{"below max_rows", sel("S"), 9, "", 10, registry.Changed},
		{"at max_rows", sel("S"), 10, "", 10, registry.Partial},
		{"above max_rows", sel("S"), 12, "", 10, registry.Partial},
		{"the lower of both counts", sel("S"), 10, "10", 20, registry.Partial},
		{"the lower of both counts, the other way", sel("S"), 10, "20", 10, registry.Partial},
		{"nonsense in the header", sel("S"), 10, "many", 0, registry.Changed},
		{"graph below", construct(), 9, "", 10, registry.Changed},
		{"graph at the cap", construct(), 10, "", 10, registry.Partial},
		{"graph one above, as Virtuoso cuts", construct(), 11, "", 10, registry.Partial},
		{"graph with as many as its own LIMIT", limited(construct(), 10), 10, "", 10, registry.Changed},
		{"graph with as many as its own LIMIT, but several of a solution",
			query(diff.Construct, "CONSTRUCT {?s <http://e/p> ?o, ?p} {?s ?p ?o} LIMIT 10", 10), 10, "", 10, registry.Partial},
		{"description with as many as its own LIMIT", query(diff.Describe, "DESCRIBE ?s {?s ?p ?o} LIMIT 10", 10), 10, "", 10, registry.Partial},
		{"graph with more than its own LIMIT", limited(construct(), 9), 11, "", 10, registry.Partial},
		{"graph with own LIMIT above the cap", limited(construct(), 12), 11, "", 10, registry.Partial},
	} {
		t.Run(c.name, func(t *testing.T) {
			contentType, body := typeJSON, rows(c.n)
			if c.q.Form.Graph() {
				contentType, body = typeNT, triples(c.n)
			}
			h := send(200, contentType, body)
			if c.header != "" {
				h = send(200, contentType, body, "X-SPARQL-MaxRows", c.header)
			}
			cl := client(t, serve(t, h), func(e *registry.Endpoint, o *Options) { e.MaxRows = c.max })
			want(t, execute(t, cl, c.q), c.want)
		})
	}
}

// Virtuoso reports its cap when rows reach it, never when triples do.
func TestCapOfTriples(t *testing.T) {
	server, said := "Virtuoso/07.20.3229 (Linux) x86_64-pc-linux-gnu", ""
	body, contentType := "", typeNT
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		send(200, contentType, body, "Server", server, "X-SPARQL-MaxRows", said)(w, r)
	})
	ask := func(c *Client, n int, wanted registry.Outcome, says ...string) {
		t.Helper()
		body, contentType = triples(n), typeNT
		want(t, execute(t, c, construct()), wanted, says...)
	}
	c := client(t, addr, nil)
	ask(c, usualCap, registry.Changed)
	ask(c, usualCap+1, registry.Partial, "10001", "ResultSetMaxRows")
	ask(c, usualCap+2, registry.Changed)
	ask(client(t, addr, func(e *registry.Endpoint, o *Options) { e.MaxRows = 2 * usualCap }), usualCap+1, registry.Changed)
	limited := construct()
	limited.Limit = usualCap + 1
	body = triples(usualCap + 1)
	want(t, execute(t, c, limited), registry.Partial)
	server = "Jetty"
	ask(c, usualCap+1, registry.Changed)

	ask(c, 21, registry.Changed)
	body, contentType, said = rows(20), typeJSON, "20"
	want(t, execute(t, c, sel("S")), registry.Partial, "20, as it reports")
	said = ""
	ask(c, 19, registry.Changed)
	ask(c, 21, registry.Partial, "20")
	kept := c.Health()
	restarted := client(t, addr, func(e *registry.Endpoint, o *Options) { o.Health = kept })
	ask(restarted, 21, registry.Partial, "20")
	ask(client(t, addr, func(e *registry.Endpoint, o *Options) { o.Predecessor = restarted }), 21, registry.Partial, "20")
	edited := client(t, addr, func(e *registry.Endpoint, o *Options) { o.Predecessor, e.MaxRows = restarted, 25 })
	ask(edited, 21, registry.Changed)
	ask(edited, 25, registry.Partial, "25")
	moved := client(t, addr+"/elsewhere", func(e *registry.Endpoint, o *Options) {
		o.Predecessor = client(t, addr, func(e *registry.Endpoint, o *Options) { o.Health = kept })
	})
	ask(moved, 21, registry.Changed)
	body, contentType = rows(30), typeJSON
	want(t, execute(t, c, sel("S")), registry.Changed) // more rows without a report: the cap was raised
	ask(c, 21, registry.Changed)
}

// Repeated triples are one in the result, but the endpoint counted each.
func TestCapCountsRepetitions(t *testing.T) {
	body := strings.Repeat("<http://e/s> <http://e/p> \"1\" .\n", 10)
	c := client(t, serve(t, send(200, typeNT, body)), func(e *registry.Endpoint, o *Options) { e.MaxRows = 10 })
	want(t, execute(t, c, construct()), registry.Partial, "10 (max_rows)")
}

// If the cap falls to the number of rows, the same bytes may be the rest of a
// longer result.
func TestEqualBytesUnderANewCap(t *testing.T) {
	var cap atomic.Bool
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if cap.Load() {
			w.Header().Set("X-SPARQL-MaxRows", "5")
		}
		send(200, typeJSON, rows(5))(w, r)
	}), nil)
	m := execute(t, c, sel("S")).Memory
	want(t, c.Execute(t.Context(), sel("S"), m, long), registry.Unchanged)
	cap.Store(true)
	want(t, c.Execute(t.Context(), sel("S"), m, long), registry.Partial, "5")
}

// Header warnings count for an answer that is otherwise the one remembered.
func TestEqualBytesWithAWarning(t *testing.T) {
	var warn atomic.Bool
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if warn.Load() {
			w.Header().Set("X-SQL-State", "S1TAT")
		}
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(304)
			return
		}
		send(200, typeJSON, rows(5))(w, r)
	}), nil)
	m := execute(t, c, sel("S")).Memory
	warn.Store(true)
	want(t, c.Execute(t.Context(), sel("S"), m, long), registry.Partial, "S1TAT")
	want(t, c.Execute(t.Context(), sel("S"), Memory{Body: m.Body}, long), registry.Partial, "S1TAT")
}

// An endless body, plain or as a zip bomb, is read up to max_bytes only.
func TestMaxBytes(t *testing.T) {
	const limit = 100 << 10
	small := func(e *registry.Endpoint, o *Options) { e.MaxBytes = limit }
	t.Run("plain", func(t *testing.T) {
		var sent atomic.Int64
		c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", typeNT)
			for {
				n, err := w.Write(bytes.Repeat([]byte("#"), 32<<10))
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		}), small)
		want(t, execute(t, c, construct()), registry.Failed, "larger than max_bytes (100KiB)")
		c.Close()
		// The excess is what fits into the buffers of two sockets.
		if sent.Load() > limit+32<<20 {
			t.Errorf("%d bytes went out", sent.Load())
		}
	})
	t.Run("declared", func(t *testing.T) {
		c := client(t, serveRaw(t, raw(typeNT, "# no more than this", "Content-Length: 1000000000000")), small)
		want(t, execute(t, c, construct()), registry.Failed, "larger than max_bytes")
	})
	t.Run("zip bomb", func(t *testing.T) {
		bomb := zipped(strings.Repeat("#", 20<<20))
		if len(bomb) > limit {
			t.Fatalf("the bomb has %d bytes", len(bomb))
		}
		c := client(t, serve(t, send(200, typeNT, bomb, "Content-Encoding", "gzip")), small)
		want(t, execute(t, c, construct()), registry.Failed, "larger than max_bytes")
		if b := c.buffer(); b.buf.Cap() > 8*limit {
			t.Errorf("%d bytes were kept for a limit of %d", b.buf.Cap(), limit)
		}
	})
	t.Run("exactly at it", func(t *testing.T) {
		body := triples(3)
		c := client(t, serve(t, send(200, typeNT, body)), func(e *registry.Endpoint, o *Options) { e.MaxBytes = registry.Size(len(body)) })
		if a := execute(t, c, construct()); a.Outcome != registry.Changed {
			t.Errorf("%s %s", a.Outcome, a.Error)
		}
	})
	t.Run("grown by prefixes", func(t *testing.T) {
		body := "@prefix p: <http://e/" + strings.Repeat("x", 10<<10) + "/> .\n" + strings.Repeat("p:a p:b p:c, p:d, p:e .\n", 100)
		for i := range 100 {
			body += fmt.Sprintf("p:a%d p:b p:c .\n", i)
		}
		c := client(t, serve(t, send(200, "text/turtle", body)), small)
		want(t, execute(t, c, construct()), registry.Failed, "larger than max_bytes")
	})
	t.Run("another coding", func(t *testing.T) {
		c := client(t, serve(t, send(200, typeNT, "x", "Content-Encoding", "br")), small)
		want(t, execute(t, c, construct()), registry.Failed, "Content-Encoding", "br")
	})
}

func TestTimeIsUp(t *testing.T) {
	stop := make(chan struct{})
	c := func(t *testing.T, slow func(http.ResponseWriter), timeout time.Duration) *Client {
		return client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			slow(w)
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		}), func(e *registry.Endpoint, o *Options) { e.Timeout = registry.Duration(timeout) })
	}
	defer close(stop)
	silent := func(http.ResponseWriter) {}
	halfway := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", typeJSON)
		io.WriteString(w, rows(3)[:40])
		w.(http.Flusher).Flush()
	}
	for name, slow := range map[string]func(http.ResponseWriter){"silent": silent, "halfway": halfway} {
		t.Run(name, func(t *testing.T) {
			own := c(t, slow, 50*time.Millisecond)
			a := own.Execute(t.Context(), sel("S"), Memory{}, long)
			want(t, a, registry.Timeout, "50ms")
			if a.Elapsed < 50*time.Millisecond || own.Health().Failures != 1 {
				t.Errorf("elapsed %v, health %v", a.Elapsed, own.Health())
			}
			foreign := c(t, slow, long)
			a = foreign.Execute(t.Context(), sel("S"), Memory{}, 50*time.Millisecond)
			want(t, a, registry.Cut)
			if a.Elapsed < 50*time.Millisecond || foreign.Health().Failures != 0 {
				t.Errorf("elapsed %v, health %v", a.Elapsed, foreign.Health())
			}
		})
	}
}

// The same bytes are the same answer however they arrive, and no others are.
func TestBytesAreRecognisedInAnyPieces(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	body := rows(3000)
	var answer atomic.Value
	var calls atomic.Uint64
	answer.Store(body)
	c := client(t, serve(t, func(w http.ResponseWriter, q *http.Request) {
		r := rand.New(rand.NewPCG(seed, calls.Add(1)))
		w.Header().Set("Content-Type", typeJSON)
		text := answer.Load().(string)
		if text[0] != '{' {
			w.Header().Set("Content-Encoding", "gzip")
		}
		for len(text) > 0 {
			n := 1 + r.IntN(min(len(text), 20_000))
			io.WriteString(w, text[:n])
			w.(http.Flusher).Flush()
			text = text[n:]
		}
	}), nil)
	first := execute(t, c, sel("S"))
	for n := range 12 {
		answer.Store([]string{body, zipped(body)}[n%2])
		want(t, c.Execute(t.Context(), sel("S"), first.Memory, long), registry.Unchanged, "")
	}
	at := len(`{"head":{"vars":["x"]},"results":{"bindings":[`) + r.IntN(1000)*len(`{"x":{"type":"literal","value":"0"}},`)
	k := at + strings.IndexAny(body[at:], "0123456789")
	answer.Store(body[:k] + string('0'+(body[k]-'0'+1)%10) + body[k+1:])
	if a := c.Execute(t.Context(), sel("S"), first.Memory, long); a.Outcome != registry.Changed || a.Memory.Body == first.Memory.Body {
		t.Errorf("seed %d: %s %s after byte %d changed", seed, a.Outcome, a.Error, k)
	}
}

// A large answer that is unchanged needs no memory of its own.
func TestUnchangedAllocates(t *testing.T) {
	body := rows(100_000)
	c := client(t, serve(t, send(200, typeJSON, body, "Content-Length", strconv.Itoa(len(body)))), nil)
	m := execute(t, c, sel("S")).Memory
	least := uint64(math.MaxUint64)
	for range 20 { // a collection of garbage may empty the pool in between
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		want(t, c.Execute(t.Context(), sel("S"), m, long), registry.Unchanged, "")
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 256<<10 {
		t.Errorf("%d bytes for a body of %d", least, len(body))
	}
}

// An endpoint that leaves out the columns without values, and writes the others in any order, changes nothing.
func TestHeadsThatVary(t *testing.T) {
	head := ""
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		fmt.Fprintf(w, `{"head":{"vars":[%s]},"results":{"bindings":[{"s":{"type":"uri","value":"x"},"o":{"type":"uri","value":"y"}}]}}`, head)
	}), nil)
	q, m := sel("SELECT ?s ?p ?o { ?s ?q ?o OPTIONAL { ?s <http://e/p> ?p } }"), Memory{}
	var old *diff.Result
	for _, head = range []string{`"s","p","o"`, `"o","s"`, `"s","p","o"`, `"p","o","s"`, `"s","o"`} {
		a := c.Execute(t.Context(), q, m, long)
		if a.Outcome != registry.Changed {
			continue // known by its bytes
		}
		if old != nil {
			if d := diff.Compare(old, a.Result); d != nil {
				t.Errorf("%s: removed %s, added %s, columns %v instead of %v", head, d.Removed, d.Added, d.Vars, d.OldVars)
			}
		}
		old, m = a.Result, a.Memory
	}
	head = `"s","o","zz"`
	want(t, c.Execute(t.Context(), q, m, long), registry.Partial, "does not ask for")
}

// An answer with a column that the query does not ask for is another query's. Columns in another order, and columns
// that are left out, are the query's own.
func TestForeignColumnsArePartial(t *testing.T) {
	head := ""
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		fmt.Fprintf(w, `{"head":{"vars":[%s]},"results":{"bindings":[{}]}}`, head)
	}), nil)
	m := Memory{}
	for _, x := range []struct {
		head string
		want registry.Outcome
	}{{`"s","o"`, registry.Changed}, {`"o","s"`, registry.Changed}, {`"zz"`, registry.Partial}, {`"s"`, registry.Changed},
		{`"s","o","p"`, registry.Partial}, {``, registry.Partial}} {
		head = x.head
		a := c.Execute(t.Context(), sel("SELECT ?s ?o { ?s ?p ?o }"), m, long)
		if a.Outcome != x.want || a.Outcome == registry.Partial && x.head != "" && !strings.Contains(a.Error, "does not ask for") {
			t.Errorf("columns %s: %s (%s)", head, a.Outcome, a.Error)
		}
		if a.Outcome.Complete() {
			m = a.Memory
		}
	}
}

// Rows without any of the columns that a query names are not its rows.
func TestRowsWithoutColumns(t *testing.T) {
	bindings := "{},{},{}"
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		fmt.Fprintf(w, `{"head":{"vars":[]},"results":{"bindings":[%s]}}`, bindings)
	}), nil)
	want(t, execute(t, c, sel("SELECT ?s ?p { ?s ?p ?o }")), registry.Partial, "none of the columns")
	want(t, execute(t, c, sel("SELECT (COUNT(?s) AS ?n) { ?s ?p ?o }")), registry.Partial, "none of the columns")
	want(t, execute(t, c, sel("SELECT * { <http://e/s> <http://e/p> <http://e/o> }")), registry.Changed)
	bindings = ""
	want(t, execute(t, c, sel("SELECT ?s ?p { ?s ?p ?o }")), registry.Changed)
}
