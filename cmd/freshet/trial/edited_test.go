package trial

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// What an endpoint reported stays valid while its settings are edited, as long as it is about
// the same server, and also after a crash.

// edited is a server over one endpoint without slots of its own.
type edited struct {
	town
	*clitest.Process
	data, addr, yaml string
}

func toEdit(t *testing.T, endpoint string) *edited {
	t.Helper()
	e := &edited{data: t.TempDir(), addr: clitest.FreeAddr(t),
		yaml: fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: rr}]\n", endpoint)}
	e.begin(t)
	e.town = town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": e.Url}, Endpoint: endpoint}}
	return e
}

func (e *edited) begin(t *testing.T) {
	t.Helper()
	e.Process = clitest.Serve(t, binary(t), e.addr, e.data, e.yaml)
}

func (e *edited) crash(t *testing.T) {
	t.Helper()
	e.Kill()
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

// duringASlot edits a setting while the only query is being executed. The endpoint answers
// after the edit.
func (e *edited) duringASlot(t *testing.T, s *slow, setting string) {
	t.Helper()
	over := make(chan int)
	go func() {
		code, _, _ := runCLI(t, e.Env, "", "endpoint", "tick", "city", "--json")
		over <- code
	}()
	<-s.asked
	e.set(t, setting)
	close(s.answer)
	if code := <-over; code != cli.ExitOK {
		t.Fatalf("tick: exit code %d", code)
	}
}

// slow is an endpoint that asks every client to wait for an hour, once it may answer.
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

// answers returns an endpoint with the same result and header for every request.
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
		runCLI(t, e.Env, "", "endpoint", "tick", "city", "--json")
	}
	if len(s.asked) > 0 {
		t.Errorf("asked %d times although it asked to wait an hour", len(s.asked))
	}
}

// A wait that a server asked for does not apply to its successor, whether it asked before or
// after the edit, and also not after a crash.
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
			e.Kill()
		}
	}
}

// A cap that was reported again after an edit had dropped it survives a crash.
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

// A deleted endpoint leaves no series in the metrics. A note says whether it comes back.
func TestDeletedEndpointLeavesTheMetrics(t *testing.T) {
	e := toEdit(t, "http://"+clitest.FreeAddr(t)+"/sparql")
	e.tick(t)
	metrics := func() string {
		resp, err := http.Get(e.Url + "/metrics")
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
	e.must(t, "", "endpoint", "add", "other", e.Endpoint)
	for name, noted := range map[string]bool{"other": false, "city": true} {
		code, _, said := runCLI(t, e.Env, "", "endpoint", "rm", name)
		if code != cli.ExitOK || strings.Contains(said, "the configuration names "+name) != noted {
			t.Errorf("rm %s has exit code %d and says %q", name, code, said)
		}
		clitest.Eventually(t, "a line of the log about the removal", func() bool {
			return strings.Contains(e.Stderr.String(), fmt.Sprintf(`"endpoint":%q,"in_file":%v`, name, noted))
		})
	}
	for line := range strings.Lines(metrics()) {
		if strings.Contains(line, `endpoint="city"`) {
			t.Errorf("after the endpoint was deleted: %s", line)
		}
	}
}

// Once an edit of the URL is answered, no answer of the old server becomes a result, neither a
// first one nor a later one.
func TestNoAnswerOfTheOldServer(t *testing.T) {
	const question = "ASK { <http://x/1> ?p ?o }"
	for _, known := range []bool{false, true} {
		next := answers(t, "Server", "next", `{"head":{},"boolean":false}`)
		s := &slow{make(chan struct{}, 9), make(chan struct{})}
		first := known
		ep := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !first {
				s.asked <- struct{}{}
				<-s.answer
			}
			first = false
			w.Header().Set("Content-Type", "application/sparql-results+json")
			fmt.Fprintf(w, `{"head":{},"boolean":true}%*s`, len(s.asked)+1, "") // different bytes each time
		}))
		t.Cleanup(ep.Close)
		e := toEdit(t, ep.URL)
		e.add(t, question)
		if known {
			e.tick(t)
		}
		e.duringASlot(t, s, "url="+next)
		list := e.must(t, "", "query", "list", "--json")
		if known != strings.Contains(list, `"seq":1`) || !strings.Contains(list, `"outcome":"dropped"`) {
			t.Errorf("known %v: after the edit: %s", known, list)
		}
		e.tick(t)
		list = e.must(t, "", "query", "list", "--json")
		if want := map[bool]string{false: `"seq":1`, true: `"seq":2`}[known]; !strings.Contains(list, want) || !strings.Contains(list,
			`"changes":`+map[bool]string{false: "0", true: "1"}[known]) {
			t.Errorf("known %v: after the next slot: %s", known, list)
		}
		e.Kill()
	}
}

// Queries of an endpoint with a wrong URL run in the first slot after its correction, by the API
// or in the file while the server was down.
func TestCorrectedURLIsAskedAtOnce(t *testing.T) {
	right := answers(t, "Server", "right", `{"head":{},"boolean":true}`)
	wrong := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(wrong.Close)
	for _, file := range []bool{false, true} {
		e := toEdit(t, wrong.URL)
		e.add(t, "ASK { <http://x/1> ?p ?o }")
		for range 4 {
			e.tick(t)
		}
		if out := e.tick(t); !strings.Contains(out, `"run":0`) {
			t.Errorf("no back-off: %s", out)
		}
		if list := e.must(t, "", "query", "list", "--state", "failing"); !strings.Contains(list, "failing") || !strings.Contains(list, "404") {
			t.Errorf("the list does not say that the query fails, and why:\n%s", list)
		}
		if file {
			e.Kill()
			e.yaml = strings.ReplaceAll(e.yaml, wrong.URL, right)
			e.begin(t)
		} else {
			e.set(t, "url="+right)
		}
		if out := e.tick(t); !strings.Contains(out, `"complete":1`) {
			t.Errorf("in the file %v: it is not asked at once: %s", file, out)
		}
		e.Kill()

	}
}
