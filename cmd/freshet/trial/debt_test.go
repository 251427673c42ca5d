package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A slowEndpoint is a SPARQL endpoint with an adjustable response time.
type slowEndpoint struct {
	takes atomic.Int64 // nanoseconds
	asked atomic.Int64
}

func (d *slowEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.asked.Add(1)
	select {
	case <-time.After(time.Duration(d.takes.Load())):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/sparql-results+json")
	io.WriteString(w, `{"head":{},"boolean":true}`)
}

// A ledgerEntry is what a slot reports about its debt.
type ledgerEntry struct {
	Run, Complete, Skipped   int
	Used, Repaid, Debt, Lent float64
}

func readEntry(t *testing.T, text string) (x ledgerEntry) {
	t.Helper()
	var s struct {
		Run, Complete, Skipped int
		Used                   float64 `json:"used_seconds"`
		Repaid                 float64 `json:"repaid_seconds"`
		Debt                   float64 `json:"debt_seconds"`
		Lent                   float64 `json:"lent_seconds"`
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return ledgerEntry(s)
}

func (w town) debt(t *testing.T) float64 {
	t.Helper()
	var debt float64
	clitest.Eventually(t, "the state of the endpoint", func() bool { // it is missing while its loop starts
		var e struct {
			State *struct {
				Debt float64 `json:"debt_seconds"`
			} `json:"state"`
		}
		if err := json.Unmarshal([]byte(w.must(t, "", "endpoint", "show", "city", "--json")), &e); err != nil {
			t.Fatal(err)
		}
		if e.State != nil {
			debt = e.State.Debt
		}
		return e.State != nil
	})
	return debt
}

// Over sockets, an execution exceeds its slot's budget and finishes. Later slots repay it, and
// kill -9 during an execution forgives no debt.
func TestDebtOverSockets(t *testing.T) {
	t.Parallel()
	slow := &slowEndpoint{}
	ep := httptest.NewServer(slow)
	defer ep.Close()
	addr, data := clitest.FreeAddr(t), t.TempDir()
	budget, timeout := 1.6, 6.0
	settings := func() []string {
		return []string{fmt.Sprintf("budget=%gs", budget), fmt.Sprintf("timeout=%gs", timeout)}
	}
	yaml := fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: rr, rule: debt}]\n", ep.URL)
	srv := clitest.Serve(t, binary(t), addr, data, yaml)
	w := town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}, Endpoint: ep.URL}}
	tick := func() ledgerEntry {
		t.Helper()
		return readEntry(t, w.must(t, "", "endpoint", "tick", "city", "--json"))
	}
	w.add(t, "ASK { ?s ?p ?o }")
	// The commit that lends may take a quarter of the budget, or a second. If a busy machine needs
	// longer, the execution is cut and the test tries again with longer times.
	var s ledgerEntry
	again := false
	for try := 1; ; try++ {
		for slow.takes.Store(0); s.Debt > 0; s = tick() { // of the try before
		}
		w.must(t, "", append([]string{"endpoint", "set", "city"}, settings()...)...)
		slow.takes.Store(int64(2 * budget * float64(time.Second)))
		if s = tick(); s.Complete == 1 || try == 5 {
			break
		}
		budget, timeout, again = 2*budget, 2*timeout, true
	}
	if s.Complete != 1 || s.Used < 2*budget || math.Abs(s.Debt-(s.Used-budget)) > 1e-6 {
		t.Fatalf("a long execution: %+v", s)
	}
	if d := w.debt(t); d != s.Debt {
		t.Errorf("the endpoint shows a debt of %g s, the slot one of %g s", d, s.Debt)
	}
	if out := w.must(t, "", "endpoint", "list"); !strings.Contains(out, "in debt: ") {
		t.Errorf("the list says nothing of it:\n%s", out)
	}
	if out := w.must(t, "", "endpoint", "slots", "city"); !strings.Contains(out, "owes ") {
		t.Errorf("the slots say nothing of it:\n%s", out)
	}
	slow.takes.Store(0)
	for debt := s.Debt; debt > 0; debt = s.Debt {
		s = tick()
		if math.Abs(s.Repaid-min(debt, budget/2)) > 1e-6 || s.Debt-max(0, debt-budget/2) > 1e-6 && s.Run == 0 {
			t.Fatalf("of %g s a slot repays: %+v", debt, s)
		}
		if s.Repaid < debt && s.Run > 0 && !again { // the query is known to take longer than half a budget, and has never been quick
			t.Fatalf("it did not wait for the end of the debt: %+v", s)
		}
	}
	clitest.Eventually(t, "nothing is owed, and the query runs", func() bool { return s.Complete == 1 || tick().Complete == 1 })

	timeout = 600 // so that the process is killed before
	w.must(t, "", append([]string{"endpoint", "set", "city"}, settings()...)...)
	slow.takes.Store(int64(time.Hour))
	asked := slow.asked.Load()
	url := srv.Url
	go func() { // repeated if a slow commit caused a cut; ends with the process
		for {
			resp, err := http.Post(url+"/v1/endpoints/city/tick", "application/json", nil)
			if err != nil {
				return
			}
			resp.Body.Close()
		}
	}()
	clitest.Eventually(t, "an execution beyond the budget", func() bool {
		line, _, _ := strings.Cut(w.must(t, "", "endpoint", "slots", "city", "--limit", "1", "--json"), "\n")
		return slow.asked.Load() > asked && readEntry(t, line).Lent == timeout
	})
	srv.Kill()
	slow.takes.Store(0)
	srv = clitest.Serve(t, binary(t), addr, data, yaml)
	w.Env["FRESHET_SERVER"] = srv.Url
	if d := w.debt(t); d != timeout {
		t.Errorf("killed while an execution went beyond the budget: %g s are owed, want the timeout of %g s", d, timeout)
	}
	if s = tick(); s.Repaid != budget/2 || s.Debt != timeout-budget/2 {
		t.Errorf("afterwards: %+v", s)
	}
	w.must(t, "", "endpoint", "set", "city", "rule=strict")
	if s = tick(); s.Repaid != budget/2 || math.Abs(s.Debt-(timeout-budget)) > 1e-6 {
		t.Errorf("under strict what is owed has to be repaid all the same: %+v", s)
	}
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
}
