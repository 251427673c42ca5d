package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What an endpoint says holds while its settings are edited, as far as they are
// still about the same server, and over a crash after that.

// edited is a server over one endpoint without slots of its own.
type edited struct {
	town
	*process
	data, addr, yaml string
}

func toEdit(t *testing.T, endpoint string) *edited {
	t.Helper()
	e := &edited{data: t.TempDir(), addr: freeAddr(t),
		yaml: fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: rr}]\n", endpoint)}
	e.begin(t)
	e.town = town{env: map[string]string{"FRESHET_SERVER": e.url}, endpoint: endpoint}
	return e
}

func (e *edited) begin(t *testing.T) {
	t.Helper()
	e.process = serve(t, binary(t), e.addr, e.data, e.yaml)
}

func (e *edited) crash(t *testing.T) {
	t.Helper()
	e.kill()
	e.begin(t)
}

func (e *edited) set(t *testing.T, setting string) {
	t.Helper()
	e.must(t, "", "endpoint", "set", "city", setting)
}

func (e *edited) tick(t *testing.T) string {
	t.Helper()
	return e.must(t, "", "endpoint", "tick", "city", "--json")
}

// duringASlot edits a setting while the one query is being executed, which is
// answered only then.
func (e *edited) duringASlot(t *testing.T, s *slow, setting string) {
	t.Helper()
	over := make(chan int)
	go func() {
		code, _, _ := cli(t, e.env, "", "endpoint", "tick", "city", "--json")
		over <- code
	}()
	<-s.asked
	e.set(t, setting)
	close(s.answer)
	if code := <-over; code != exitOK {
		t.Fatalf("tick: exit code %d", code)
	}
}

// slow is an endpoint that asks everybody to wait an hour, once it is let answer.
type slow struct{ asked, answer chan struct{} }

func asksToWait(t *testing.T) (*slow, string) {
	s := &slow{make(chan struct{}, 9), make(chan struct{})}
	ep := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked <- struct{}{}
		<-s.answer
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "later", http.StatusTooManyRequests)
	}))
	t.Cleanup(ep.Close)
	return s, ep.URL
}

// answers is an endpoint with one result and one header for everybody.
func answers(t *testing.T, header, value, result string) string {
	ep := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/sparql-results+json")
		w.Header().Set(header, value)
		io.WriteString(w, result)
	}))
	t.Cleanup(ep.Close)
	return ep.URL
}

func TestEditingKeepsRetryAfter(t *testing.T) {
	s, url := asksToWait(t)
	e := toEdit(t, url)
	e.add(t, "ASK { <http://x/1> ?p ?o }")
	e.duringASlot(t, s, "timeout=20s")
	for range 3 {
		cli(t, e.env, "", "endpoint", "tick", "city", "--json")
	}
	if len(s.asked) > 0 {
		t.Errorf("asked %d times although told to wait an hour", len(s.asked))
	}
}

// What a server asked for is no concern of the one that takes its place, whether
// it said so before or after, and after a crash either.
func TestMovingEndsTheWait(t *testing.T) {
	next := answers(t, "Server", "next", `{"head":{},"boolean":true}`)
	for _, late := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			s, url := asksToWait(t)
			e := toEdit(t, url)
			e.add(t, "ASK { <http://x/1> ?p ?o }")
			if late {
				e.duringASlot(t, s, "url="+next)
			} else {
				close(s.answer)
				e.tick(t)
				e.set(t, "url="+next)
			}
			if crash {
				e.crash(t)
			}
			if out := e.tick(t); !strings.Contains(out, `"complete":1`) {
				t.Errorf("late %v, crash %v: the new server was not asked: %s", late, crash, out)
			}
			e.kill()
		}
	}
}

// A cap that was told of again after an edit that made it forgotten outlives a
// crash as the first one did.
func TestCapToldAgainIsKept(t *testing.T) {
	const row = `{"s":{"type":"uri","value":"http://x/1"}}`
	e := toEdit(t, answers(t, "X-SPARQL-MaxRows", "2", `{"head":{"vars":["s"]},"results":{"bindings":[`+row+`,`+row+`]}}`))
	e.add(t, "SELECT ?s { ?s ?p ?o }")
	e.tick(t)
	e.set(t, "max_rows=100")
	for range 3 {
		e.tick(t)
	}
	e.crash(t)
	if out := e.must(t, "", "endpoint", "show", "city", "--json"); !strings.Contains(out, `"max_rows":2`) {
		t.Errorf("after a crash the cap is forgotten: %s", out)
	}
}

// A deleted endpoint leaves no series in the metrics.
func TestDeletedEndpointLeavesTheMetrics(t *testing.T) {
	e := toEdit(t, "http://"+freeAddr(t)+"/sparql")
	e.tick(t)
	metrics := func() string {
		resp, err := http.Get(e.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if s := metrics(); !strings.Contains(s, `freshet_slots_total{endpoint="city"} 1`) {
		t.Fatalf("the slot is not counted:\n%s", s)
	}
	e.must(t, "", "endpoint", "rm", "city")
	for line := range strings.Lines(metrics()) {
		if strings.Contains(line, `endpoint="city"`) {
			t.Errorf("after the endpoint was deleted: %s", line)
		}
	}
}
