package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A recordingEndpoint is a SPARQL endpoint that records how it is used. Some of its queries are cheap,
// some slow, some never end, some fail.
type recordingEndpoint struct {
	mu      sync.Mutex
	running int
	most    int           // largest number of concurrent executions
	busy    time.Duration // execution seconds since the last take
	asked   int
	late    time.Duration // largest delay with which the machine woke a request, since the last take
}

func (s *recordingEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// settle is the time after which a request that was cut no longer counts as running.
	const settle = 20 * time.Millisecond
	arrived := time.Now()
	select {
	case <-time.After(settle):
	case <-r.Context().Done():
		return
	}
	s.enter(time.Since(arrived) - settle)
	began := time.Now()
	defer func() { s.leave(time.Since(began)) }()
	var n int
	if _, err := fmt.Sscanf(r.FormValue("query"), "ASK { <http://x/%d>", &n); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-r.Context().Done():
			return false
		}
	}
	switch {
	case n%97 == 0: // never ends by itself
		wait(time.Minute)
		return
	case n%13 == 0:
		http.Error(w, "no", http.StatusInternalServerError)
		return
	case n%11 == 0:
		if !wait(150 * time.Millisecond) {
			return
		}
	case n%7 == 0: // ends in the middle
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"head":{},`)
		return
	}
	w.Header().Set("Content-Type", "application/sparql-results+json")
	io.WriteString(w, `{"head":{},"boolean":true}`)
}

func (s *recordingEndpoint) enter(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = max(s.late, late)
	s.asked++
	s.running++
	s.most = max(s.most, s.running)
}

func (s *recordingEndpoint) leave(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.busy += d
}

// rest waits until the endpoint has noticed that executions were cut. A busy machine delays
// that, and the next slot must not be blamed for it.
func (s *recordingEndpoint) rest(t *testing.T) {
	t.Helper()
	idle := 0
	for range 3000 {
		s.mu.Lock()
		if s.running > 0 {
			idle = 0
		}
		s.mu.Unlock()
		if idle++; idle > 3 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("executions that were cut go on at the endpoint")
}

// take returns what was counted since the last call.
func (s *recordingEndpoint) take() (most int, busy, late time.Duration, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, busy, late, asked = s.most, s.busy, s.late, s.asked
	s.most, s.busy, s.late, s.asked = s.running, 0, 0, 0
	return most, busy, late, asked
}

// No slot uses more of a real endpoint than its budget and concurrency, neither by the
// server's reports nor by what the endpoint observed.
func TestBoundOverSockets(t *testing.T) {
	t.Parallel()
	const (
		budget = 400 * time.Millisecond
		lanes  = 3
		seed   = 7
	)
	t.Logf("seed %d", seed)
	recorder := &recordingEndpoint{}
	ep := httptest.NewServer(recorder)
	defer ep.Close()
	yaml := fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: rr, budget: %s, concurrency: %d}]\n", ep.URL, budget, lanes)
	srv := clitest.Serve(t, binary(t), clitest.FreeAddr(t), t.TempDir(), yaml)
	w := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}, Endpoint: ep.URL}}
	random := rand.New(rand.NewPCG(seed, seed))
	for range 300 {
		w.add(t, fmt.Sprintf("ASK { <http://x/%d> ?p ?o }", random.IntN(100000)))
	}
	complete, run, asked, slot, idle := 0, 0, 0, 0, 0
	var beyond []string
	for ; complete < 300 && slot < 300 && idle < 300; slot++ {
		recorder.rest(t)
		var s struct {
			Run, Complete int
			Used          float64 `json:"used_seconds"`
		}
		if err := json.Unmarshal([]byte(w.must(t, "", "endpoint", "tick", "city", "--json")), &s); err != nil {
			t.Fatal(err)
		}
		complete += s.Complete
		run += s.Run
		if s.Run == 0 { // after many failures in a row the endpoint is not queried for a while
			idle++
			slot--
			time.Sleep(200 * time.Millisecond)
		}
		most, busy, late, n := recorder.take()
		asked += n
		if s.Used > budget.Seconds() {
			t.Errorf("slot %d used %.3f s of %s", slot, s.Used, budget)
		}
		if most > lanes {
			t.Errorf("slot %d: %d executions at once, at most %d are allowed", slot, most, lanes)
		}
		// The endpoint measures less time for an execution than the server does, but it notices a cut
		// late. A machine that wakes requests late delays that too, in both processes and in each
		// concurrent execution. Most slots use up their budget.
		more := busy.Seconds() - s.Used - 2*lanes*late.Seconds()
		says := fmt.Sprintf("slot %d: the endpoint was busy for %s, %.3f s are reported, a request woke %s late", slot, busy, s.Used, late)
		if more > 30 { // queries that never end are cut
			t.Error(says)
		}
		if more > float64(n)*0.005+0.1 {
			beyond = append(beyond, says)
		}
	}
	if len(beyond) > slot/5 {
		t.Errorf("in %d of %d slots:\n%s", len(beyond), slot, strings.Join(beyond, "\n"))
	}
	recorder.rest(t)
	if _, _, _, n := recorder.take(); asked+n > run {
		t.Errorf("%d requests for %d executions", asked+n, run)
	}
	if complete < 300 {
		t.Errorf("%d complete executions in %d slots, and %d without any: the dear ones push out the cheap ones", complete, slot, idle)
	}
}

func (w town) add(t *testing.T, text string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"endpoint": "city", "query": text})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(w.Env["FRESHET_SERVER"]+"/v1/queries", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, b)
	}
}

// An endpoint that accepts connections and sends nothing delays no query for longer than the
// budget, and causes no change.
func TestSilentEndpoint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	srv := clitest.Serve(t, binary(t), clitest.FreeAddr(t), t.TempDir(), "endpoints: [{name: city, url: \"http://"+l.Addr().String()+
		"\", slot: never, policy: rr, budget: 300ms}]\n")
	w := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}}}
	w.add(t, "ASK { ?s ?p ?o }")
	clitest.Eventually(t, "a slot begins the execution within its budget", func() bool {
		out := w.must(t, "", "endpoint", "tick", "city", "--json")
		var s struct {
			Run, Changed int
			Used         float64 `json:"used_seconds"`
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil || s.Changed != 0 || s.Used > 0.3 {
			t.Fatalf("slot %s, %v", out, err)
		}
		return s.Run == 1
	})
}
