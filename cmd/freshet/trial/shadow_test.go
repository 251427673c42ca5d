package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/shadow"
)

// A replayServer is a server that replays a past under one policy. Its embedded endpoint counts
// requests.
type replayServer struct {
	*testServer
	clitest.History
	asked   atomic.Int64
	queries []string
}

func newReplayServer(t *testing.T, p clitest.History, policy string) *replayServer {
	t.Helper()
	clitest.NeedEngine(t)
	base := filepath.Join(t.TempDir(), "base.nt")
	if err := os.WriteFile(base, []byte("<http://x/0> <http://x/other> \"0\" .\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ep := clitest.Start(t, binary(t), "sparql", "--listen", "127.0.0.1:0", "--load", base)
	at, err := url.Parse(ep.Url)
	if err != nil {
		t.Fatal(err)
	}
	r := &replayServer{History: p}
	proxy := &httputil.ReverseProxy{Rewrite: func(x *httputil.ProxyRequest) {
		r.asked.Add(1)
		x.SetURL(&url.URL{Scheme: at.Scheme, Host: at.Host})
	}}
	counting := httptest.NewServer(proxy)
	t.Cleanup(counting.Close)
	s := &testServer{t: t, addr: clitest.FreeAddr(t), data: t.TempDir()}
	s.yaml = fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: %q, budget: 30s}]\n", counting.URL+at.Path, policy)
	s.srv = clitest.Serve(t, binary(t), s.addr, s.data, s.yaml)
	s.town = town{clitest.Town{Env: map[string]string{"FRESHET_SERVER": s.srv.Url}, Endpoint: ep.Url}}
	r.testServer = s
	for i := range p.Changes {
		r.queries = append(r.queries, strings.TrimSpace(s.must(t, fmt.Sprintf("SELECT ?s ?n { ?s <http://x/p%d> ?n }", i), "query", "add", "-")))
	}
	return r
}

// play ticks slots of the past.
func (r *replayServer) play(from, to int) {
	r.t.Helper()
	for slot := from; slot <= to; slot++ {
		var rows strings.Builder
		for q, at := range r.Changes {
			if _, found := slices.BinarySearch(at, slot); found {
				fmt.Fprintf(&rows, "<http://x/%d> <http://x/p%d> \"%d\" . ", slot, q, slot)
			}
		}
		if rows.Len() > 0 {
			r.Update(r.t, "INSERT DATA { "+rows.String()+"}")
		}
		if out := r.must(r.t, "", "endpoint", "tick", "city"); !strings.HasPrefix(out, fmt.Sprintf("slot %d:", slot)) {
			r.t.Fatalf("tick prints %q", out)
		}
	}
}

// An outcome is what a run really did after its first slot.
type outcome struct {
	total, found int
	slots        int // of delay
	requests     int64
}

func (o outcome) delay() float64 { return float64(o.slots) / float64(max(1, o.found)) }

// outcome computes the executions from the slots, and the found changes and their delay from the
// change logs and the past.
func (r *replayServer) outcome() outcome {
	r.t.Helper()
	o := outcome{requests: r.asked.Load()}
	for line := range strings.Lines(r.must(r.t, "", "endpoint", "slots", "city", "--limit", "1000", "--json")) {
		var s scheduler.Slot
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			r.t.Fatal(err)
		}
		if s.Cut > 0 || s.Failed > 0 || s.Skipped > 0 {
			r.t.Fatalf("a slot that should have had room for all: %s", line)
		}
		if s.Number > 1 {
			o.total += s.Complete
		}
	}
	for i, id := range r.queries {
		resp, err := http.Get(r.srv.Url + "/v1/queries/" + id + "/changes?limit=1000")
		if err != nil {
			r.t.Fatal(err)
		}
		var page struct {
			Changes []struct {
				Slot     int
				Baseline bool
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			r.t.Fatalf("changes of query %d: %s, %v", i, resp.Status, err)
		}
		last := 1
		for _, c := range page.Changes {
			if c.Baseline {
				continue
			}
			n, _ := slices.BinarySearch(r.Changes[i], last+1)
			if n == len(r.Changes[i]) || r.Changes[i][n] > c.Slot {
				r.t.Fatalf("query %d changed in slot %d, as nothing did: %v", i, c.Slot, r.Changes[i])
			}
			o.found++
			o.slots += c.Slot - r.Changes[i][n]
			last = c.Slot
		}
	}
	return o
}

func (r *replayServer) shadows() (s shadow.Comparison) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.must(r.t, "", "endpoint", "shadow", "list", "city", "--json")), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// A server's estimates for other policies agree with servers that run those policies: the same
// number of executions and of found changes and the same delay, up to what changes that the
// endpoint's own policy has not found may do. The estimate sends no request to the endpoint and is the same after a crash.
func TestShadowsForetell(t *testing.T) {
	const slots, seed = 40, 11
	p := clitest.NewHistory(seed, slots)
	t.Logf("seed %d: %d changes in %v", seed, p.Total(), p.Changes)
	others := []string{"ttl:max=2:reset", "ttl:max=8:half"}
	r := newReplayServer(t, p, "ttl:max=3:reset")
	r.must(t, "", append([]string{"endpoint", "shadow", "add", "city"}, others...)...)
	r.play(1, slots)
	own := r.outcome()
	if run := int64(own.total + len(r.queries)); own.requests != run {
		t.Errorf("%d requests for %d executions", own.requests, run)
	}
	said := r.shadows()
	r.crash()
	if d := cmp.Diff(said, r.shadows()); d != "" {
		t.Errorf("after a crash (-before +after):\n%s", d)
	}
	if n := r.asked.Load(); n != own.requests {
		t.Errorf("comparing asked the endpoint %d times", n-own.requests)
	}
	if len(said.Policies) != 1+len(others) || said.Slot != slots {
		t.Fatalf("%+v", said)
	}
	for i, x := range said.Policies {
		e, real := x.Estimate, own
		if e == nil || e.From != 2 || e.To != slots || e.Queries != len(r.queries) || e.Known != own.found {
			t.Fatalf("%s: %+v, really %+v", x.Policy, e, own)
		}
		if i > 0 {
			if x.Policy != others[i-1] || x.Current {
				t.Fatalf("%+v in place %d", x, i)
			}
			o := newReplayServer(t, p, x.Policy)
			o.play(1, slots)
			real = o.outcome()
		} else if !x.Current || e.Same.Total != own.total {
			t.Errorf("the endpoint's own: %+v, really %+v", x, own)
		}
		t.Logf("%s: total %d of %+v, found %d of %+v, delay %.3f of %+v", x.Policy, real.total, e.Total, real.found, e.Relevant,
			real.delay(), e.Delay)
		unknown := float64(p.Total() - own.found)
		clitest.Within(t, x.Policy+" executions", float64(real.total), e.Total, float64(real.total)/10)
		clitest.Within(t, x.Policy+" found", float64(real.found), e.Relevant, unknown)
		clitest.Within(t, x.Policy+" delay", real.delay(), e.Delay, 0.5)
	}
}

// The commands select the policies to compare, and print the comparison.
func TestShadowCommands(t *testing.T) {
	w := newTown(t, "")
	chosen := func() []string {
		var e struct{ Shadows []string }
		if err := json.Unmarshal([]byte(w.must(t, "", "endpoint", "show", "city", "--json")), &e); err != nil {
			t.Fatal(err)
		}
		return e.Shadows
	}
	table := func() [][]string {
		var rows [][]string
		for line := range strings.Lines(w.must(t, "", "endpoint", "shadow", "list", "city")) {
			rows = append(rows, strings.Fields(line))
		}
		return rows
	}
	w.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "-")
	if out := w.must(t, "", "endpoint", "shadow", "add", "city", "dj", "ttl:max=32:reset", "dj"); out != "" {
		t.Errorf("add prints %q on standard output", out)
	}
	if d := cmp.Diff([]string{"dj", "ttl:max=32:reset"}, chosen()); d != "" {
		t.Errorf("chosen -want +got:\n%s", d)
	}
	nothing := "nothing is recorded yet"
	if rows := table(); len(rows) != 4 || strings.Join(rows[1], " ") != "rr yes "+nothing ||
		strings.Join(rows[3], " ") != "ttl:max=32:reset "+nothing {
		t.Errorf("before the first slot: %q", rows)
	}
	w.must(t, "", "endpoint", "tick", "city")
	w.Update(t, `INSERT DATA { <http://x/c> <http://x/n> "3" }`)
	w.must(t, "", "endpoint", "tick", "city")
	w.must(t, "", "endpoint", "tick", "city")
	rows := table()
	for i, want := range []string{"", "rr yes 2-3 2 1 1 0 0 slots", "dj 2-3 2 1 1 0 0 slots", "ttl:max=32:reset 2-3 2 1 1 0 0 slots"} {
		if got := strings.Join(rows[i], " "); i > 0 && !strings.HasPrefix(got, want+" ") {
			t.Errorf("row %d is %q, want %q and the seconds", i, got, want)
		}
	}
	var many []string
	for n := range scheduler.MaxShadows - 7 { // one more than fit
		many = append(many, fmt.Sprintf("ttl:max=%d:half", n+2))
	}
	for _, x := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUsage, "lru", []string{"add", "city", "lru"}},
		{cli.ExitUsage, "simulator alone", []string{"add", "city", "cv"}},
		{cli.ExitNotFound, "", []string{"add", "nowhere", "rr"}},
		{cli.ExitNotFound, "", []string{"list", "nowhere"}},
		{cli.ExitNotFound, "", []string{"rm", "city", "rr"}},
		{cli.ExitUsage, "POLICY is missing", []string{"add", "city"}},
		{cli.ExitUsage, "too many", append([]string{"add", "city", "rr", "sjf", "ljf", "cr", "sqrt", "hybrid"}, many...)},
	} {
		code, out, stderr := runCLI(t, w.Env, "", append([]string{"endpoint", "shadow"}, x.args...)...)
		if code != x.code || !strings.Contains(stderr, x.says) {
			t.Errorf("shadow %s: exit code %d, want %d; prints %q and says %q", strings.Join(x.args, " "), code, x.code, out, stderr)
		}
	}
	if n := len(chosen()); n != scheduler.MaxShadows {
		t.Errorf("%d are chosen, the greatest number is %d", n, scheduler.MaxShadows)
	}
	w.must(t, "", "endpoint", "shadow", "rm", "city", "rr", "ttl:max=32:reset")
	if d := cmp.Diff([]string{"dj", "sjf:lambda=0.5", "ljf:lambda=0.5", "cr:lambda=0", "sqrt"}, chosen()[:5]); d != "" {
		t.Errorf("left -want +got:\n%s", d)
	}
}
