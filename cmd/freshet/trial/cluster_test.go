package trial

// Tests of a cluster of three processes.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
)

const clusterGap = 200 * time.Millisecond

// A counted endpoint answers with one number. It fails the test if two requests run at the same time, or
// follow each other too soon.
type countedEndpoint struct {
	t    *testing.T
	http *httptest.Server

	mu    sync.Mutex
	value int
	busy  map[*countedRequest]bool
	ended time.Time // of the last request that was answered
	asked int
}

// A countedRequest is a request that runs, or that another one has met.
type countedRequest struct {
	met      []*countedRequest // others that ran at the same time
	answered bool              // it is over, and its client has waited for it
}

func newCounted(t *testing.T) *countedEndpoint {
	e := &countedEndpoint{t: t, busy: map[*countedRequest]bool{}}
	e.http = httptest.NewServer(e)
	t.Cleanup(e.http.Close)
	return e
}

func (e *countedEndpoint) set(n int) {
	e.mu.Lock()
	e.value = n
	e.mu.Unlock()
}

// ServeHTTP implements http.Handler. The gap between two requests is never shorter here than
// at the client, which counts it from when it has read the answer. A request whose client has given up
// counts for nothing: this process notices that late, so an answer waits for it, and has ended before.
func (e *countedEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const takes, soon, notices = 10 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond
	_, _ = io.Copy(io.Discard, r.Body) // until then it is not noticed that the client has gone
	began, own := time.Now(), new(countedRequest)
	e.mu.Lock()
	for other := range e.busy {
		own.met, other.met = append(own.met, other), append(other.met, own)
	}
	e.busy[own] = true
	last, n := e.ended, e.value
	e.asked++
	e.mu.Unlock()
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	wait(takes)
	ended := time.Now()
	wait(soon)
	e.mu.Lock()
	if len(own.met) > 0 || time.Since(began) > notices {
		e.mu.Unlock()
		wait(notices)
		e.mu.Lock()
	}
	delete(e.busy, own)
	if r.Context().Err() == nil {
		own.answered, e.ended = true, ended
		if gap := began.Sub(last); !last.IsZero() && gap < clusterGap {
			e.t.Errorf("a request %v after the end of the last one", gap)
		}
		if slices.ContainsFunc(own.met, func(other *countedRequest) bool { return other.answered }) {
			e.t.Error("two requests at the same time")
		}
	}
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/sparql-results+json")
	fmt.Fprintf(w, `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d"}}]}}`, n)
}

// A processNode is a node of a cluster, as a process that can be started again.
type processNode struct {
	name, config string
	client       *http.Client
	*clitest.Process
}

// A clusterPlan says what startNodes starts.
type clusterPlan struct {
	at       map[string]string // name of a node → address of its API
	endpoint string
	cluster  func(node string) string // settings of the journal, as lines of YAML
	more     string                   // further settings
	client   *http.Client             // nil for the usual one
}

// startCluster starts three nodes with an embedded journal. Each waits for a majority.
func startCluster(t *testing.T, endpoint string, more string) map[string]*processNode {
	t.Helper()
	var peers []string
	at := map[string]string{}
	apis := addresses(t, "n1", "n2", "n3")
	for n := range apis {
		at[n] = clitest.FreeAddr(t)
		peers = append(peers, fmt.Sprintf("%s: %q", n, at[n]))
	}
	return startNodes(t, clusterPlan{at: apis, endpoint: endpoint, more: more, cluster: func(n string) string {
		return fmt.Sprintf("  listen: %s\n  peers: {%s}\n", at[n], strings.Join(peers, ", "))
	}})
}

// addresses returns an address for the API of each node.
func addresses(t *testing.T, names ...string) map[string]string {
	at := map[string]string{}
	for _, n := range names {
		at[n] = clitest.FreeAddr(t)
	}
	return at
}

// nodesSecret is what the nodes share.
const nodesSecret = "shared by the three nodes"

// startNodes starts the nodes of a cluster together.
func startNodes(t *testing.T, p clusterPlan) map[string]*processNode {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte(nodesSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*processNode{}
	for n, at := range p.at {
		x := &processNode{name: n, config: filepath.Join(dir, n+".yaml"), client: cmp.Or(p.client, http.DefaultClient)}
		text := fmt.Sprintf(`
listen: %s
data: %s
log: {level: info, format: text}
endpoints:
  - {name: numbers, url: %q, slot: "@every 1s", budget: 500ms, timeout: 2s, min_gap: %s, policy: rr, merge: "off"}
%scluster:
  name: test
  node: %s
  token_file: %s
  lease: 5s
%s`, at, filepath.Join(dir, n), p.endpoint, clusterGap, p.more, n, secret, p.cluster(n))
		if err := os.WriteFile(x.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		nodes[n] = x
	}
	startAll(t, nodes)
	return nodes
}

// startAll starts nodes that do not run, at the same time.
func startAll(t *testing.T, nodes map[string]*processNode) {
	t.Helper()
	bin := binary(t)
	var starting sync.WaitGroup
	for _, x := range nodes {
		starting.Go(func() { x.Process = clitest.Start(t, bin, "serve", "--config", x.config) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (n *processNode) status(t *testing.T) (s registry.ClusterStatus) {
	t.Helper()
	code, text := n.get(t, "/v1/cluster")
	if err := json.Unmarshal([]byte(text), &s); code != http.StatusOK || err != nil {
		t.Fatalf("status of %s: %d, %v, %s", n.name, code, err, text)
	}
	return s
}

// owner returns the node that has the lease of the endpoint, "" if there is none.
func (n *processNode) owner(t *testing.T) string {
	for _, l := range n.status(t).Leases {
		if l.Key == "endpoint/numbers" {
			return l.Node
		}
	}
	return ""
}

func (n *processNode) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := n.client.Get(n.Url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// asks returns whether the node answers a call about the endpoint that another node may ask. While
// that one changes, it says that the call is to be repeated.
func (n *processNode) asks(t *testing.T, method, path string) bool {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, n.Url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		t.Fatal(err)
	case r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") != "" && strings.Contains(string(b),
		"/problems/unavailable"):
		return false
	case r.StatusCode/100 != 2:
		t.Fatalf("%s: %s %s: %s %s", n.name, method, path, r.Status, b)
	}
	return true
}

// A numberFollower follows the query, at one node after the other, and checks the order.
type numberFollower struct {
	t      *testing.T
	query  string
	dialer *websocket.Dialer // nil for the usual one
	from   *client.State
	seen   chan string
	cancel context.CancelFunc
	done   chan struct{}
}

// follow goes on at another node, from the position reached.
func (f *numberFollower) follow(n *processNode) {
	f.stop()
	ctx, cancel := context.WithCancel(f.t.Context())
	f.cancel, f.done = cancel, make(chan struct{})
	go func() {
		defer close(f.done)
		first := f.from
		_ = client.Follow(ctx, client.Options{Server: n.Url, Query: f.query, From: first, Dialer: f.dialer}, func(e client.Event) error {
			switch {
			case e.Kind == client.Snapshot && f.from != nil && f.from.Seq > 0:
				f.t.Errorf("a snapshot at %d instead of the next change: %s", f.from.Seq, e.Reason)
			case e.Kind == client.Delta && f.from != nil && e.Prev != f.from.Seq:
				f.t.Errorf("a step from %d at %d", e.Prev, f.from.Seq)
			}
			if e.Kind != client.Snapshot && e.Kind != client.Delta && e.Kind != client.Alive {
				return nil
			}
			state := e.State
			f.from = &state
			if e.Kind != client.Alive {
				f.seen <- numberOf(e.Result)
			}
			return nil
		})
	}()
}

func (f *numberFollower) stop() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
	}
}

// expect waits for a number. Every message brings one, so none is passed over.
func (f *numberFollower) expect(n int) {
	f.t.Helper()
	select {
	case got := <-f.seen:
		if got != fmt.Sprint(n) {
			f.t.Fatalf("the result is %s, want %d", got, n)
		}
	case <-time.After(2 * time.Minute):
		f.t.Fatalf("%d did not come", n)
	}
}

func numberOf(r *diff.Result) string {
	if r == nil {
		return "none"
	}
	_, n, _ := strings.Cut(string(r.Document()), `"value":"`)
	n, _, _ = strings.Cut(n, `"`)
	return n
}

// Three nodes ask one endpoint in turn. A query that is registered at one node is followed at
// the others. Killed nodes lose no change, repeat none and renumber none, and the endpoint never
// sees two nodes at once.
func TestClusterOfProcesses(t *testing.T) {
	t.Parallel()
	e := newCounted(t)
	nodes := startCluster(t, e.http.URL, "websub: {allow_callback_networks: [127.0.0.0/8]}\n")
	for _, n := range nodes {
		clitest.Eventually(t, n.name+" is ready", func() bool { code, _ := n.get(t, "/readyz"); return code == 200 })
	}
	value := 1
	e.set(value)
	code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": nodes["n1"].Url}, "SELECT ?n { ?s ?p ?n }", "query", "add",
		"--endpoint", "numbers", "--name", "number", "--json", "-")
	if code != 0 {
		t.Fatalf("%d %s%s", code, out, stderr)
	}
	for i := range 2 { // so that requests follow each other in a slot
		if code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": nodes["n3"].Url}, fmt.Sprintf("SELECT ?n { ?s ?p%d ?n }",
			i), "query", "add", "--endpoint", "numbers", "--name", fmt.Sprint("other", i), "-"); code != 0 {
			t.Fatalf("%d %s%s", code, out, stderr)
		}
	}
	f := &numberFollower{t: t, query: "number", seen: make(chan string, 100)}
	defer f.stop()
	f.follow(nodes["n2"])
	f.expect(value)
	next := func(times int) {
		t.Helper()
		for range times {
			value++
			e.set(value)
			f.expect(value)
		}
	}
	hook := newCallback(t)
	if code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": nodes["n3"].Url}, "", "webhook", "add", "--query",
		"number", hook.http.URL+"/hook"); code != 0 {
		t.Fatalf("%d %s%s", code, out, stderr)
	}
	delivered := func() (seqs []uint64) {
		hook.mu.Lock()
		defer hook.mu.Unlock()
		for _, s := range hook.got {
			var m struct {
				Data struct {
					Seq uint64 `json:"seq"`
				} `json:"data"`
			}
			if err := json.Unmarshal([]byte(s.body), &m); err != nil {
				t.Fatal(err, s.body)
			}
			if n := m.Data.Seq; n > 0 {
				seqs = append(seqs, n)
			}
		}
		return seqs
	}
	next(2)
	clitest.Eventually(t, "the callback has the last change", func() bool { return slices.Contains(delivered(), uint64(value)) })
	if seqs := delivered(); !slices.Equal(seqs, slices.Compact(slices.Clone(seqs))) || seqs[len(seqs)-1] != uint64(value) {
		t.Errorf("delivered %v, want each change once", seqs)
	}
	// Every node answers what only the owner of the endpoint knows, and shows how it is.
	for name, n := range nodes {
		for _, call := range [][2]string{{"POST", "/v1/endpoints/numbers/tick"}, {"GET", "/v1/queries/number/explain"},
			{"POST", "/v1/endpoints/numbers/hints"}, {"GET", "/v1/endpoints/numbers/templates"}} {
			clitest.Eventually(t, name+" answers "+call[1], func() bool { return n.asks(t, call[0], call[1]) })
		}
		clitest.Eventually(t, name+" shows that the endpoint is healthy, and when it is asked next", func() bool {
			_, text := n.get(t, "/v1/endpoints/numbers")
			return strings.Contains(text, `"health":{"state":"healthy"`) && !strings.Contains(text, `"next":null`) &&
				!strings.Contains(text, `"halted"`)
		})
	}
	owner := nodes["n1"].owner(t)
	for round := range 2 {
		var others []string
		for name := range nodes {
			if name != owner {
				others = append(others, name)
			}
		}
		slices.Sort(others)
		f.follow(nodes[others[0]])
		next(1)
		nodes[owner].Kill()
		for _, name := range others { // until one of them takes over
			nodes[name].asks(t, "POST", "/v1/endpoints/numbers/tick")
			clitest.Eventually(t, name+" shows the endpoint of a node that is gone as healthy", func() bool { // unless it has stalled just before
				code, text := nodes[name].get(t, "/v1/endpoints/numbers")
				if code != 200 {
					t.Fatalf("%s shows the endpoint of a node that is gone as %d %s", name, code, text)
				}
				return strings.Contains(text, `"health":{"state":"healthy"`)
			})
		}
		next(2)
		clitest.Eventually(t, others[1]+" knows another owner than "+owner+", which is gone", func() bool {
			now := nodes[others[1]].owner(t)
			return now != owner && now != ""
		})
		settings, err := os.ReadFile(nodes[owner].config)
		if err == nil {
			_, rest, _ := strings.Cut(string(settings), "listen:")
			err = os.WriteFile(nodes[owner].config, []byte(fmt.Sprintf("limits: {rules: %d}\nlisten:%s", 5000+round, rest)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		nodes[owner].Process = clitest.Start(t, binary(t), "serve", "--config", nodes[owner].config)
		clitest.Eventually(t, owner+" is ready again", func() bool { code, _ := nodes[owner].get(t, "/readyz"); return code == 200 })
		clitest.Eventually(t, "the setting of "+owner+" that differs is named", func() bool {
			_, out, _ := runCLI(t, map[string]string{"FRESHET_SERVER": nodes[others[0]].Url}, "", "cluster", "status")
			return strings.Contains(out, fmt.Sprintf("the settings of %s differ from those of %s: limits.rules\n", owner, others[0]))
		})
		next(1)
		if round == 0 { // the best node gets the endpoint back; then another one dies
			clitest.Eventually(t, "the endpoint returns to "+owner, func() bool { return nodes[others[0]].owner(t) == owner })
		}
	}
	// A node that drains gives the endpoint away.
	clitest.Eventually(t, "the endpoint has an owner", func() bool { owner = nodes["n1"].owner(t); return owner != "" })
	if code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": nodes["n3"].Url}, "", "cluster", "drain", owner); code != 0 {
		t.Fatalf("drain: %d %s%s", code, out, stderr)
	}
	clitest.Eventually(t, owner+", which drains, gives the endpoint away", func() bool { return nodes["n2"].owner(t) != owner })
	next(1)
	clitest.Eventually(t, "the callback has the last change", func() bool { return slices.Contains(delivered(), uint64(value)) })
	last := uint64(0)
	for _, seq := range delivered() { // a message under way at a node that is killed comes again
		if seq != last && seq != last+1 && last > 0 {
			t.Errorf("change %d is delivered after %d", seq, last)
		}
		last = seq
	}
	// All nodes have the same numbered changes, and each value once.
	var first string
	for _, n := range []string{"n1", "n2", "n3"} {
		clitest.Eventually(t, n+" has all changes", func() bool {
			_, text := nodes[n].get(t, "/v1/queries/"+f.from.Query+"/changes/latest")
			return strings.Contains(text, fmt.Sprintf(`"seq":%d,`, value))
		})
		_, text := nodes[n].get(t, "/v1/queries/"+f.from.Query+"/changes?after="+f.from.Epoch+":0&limit=1000")
		if first == "" {
			first = text
		}
		if text != first || strings.Count(text, `"seq":`) != value {
			t.Errorf("%s has other changes, or not %d:\n%s\n%s", n, value, text, first)
		}
	}
	var slots struct {
		Slots []struct {
			Slot         uint64
			Used, Budget float64
		}
	}
	_, text := nodes["n1"].get(t, "/v1/endpoints/numbers/slots?limit=1000")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "used_seconds", "used"), "budget_seconds", "budget")
	if err := json.Unmarshal([]byte(text), &slots); err != nil || len(slots.Slots) == 0 {
		t.Fatal(err, text)
	}
	for i, s := range slots.Slots {
		if s.Used > s.Budget || i > 0 && s.Slot >= slots.Slots[i-1].Slot {
			t.Errorf("slot %d after %d used %v of %v seconds", slots.Slots[max(0, i-1)].Slot, s.Slot, s.Used, s.Budget)
		}
	}
	for _, n := range nodes {
		if err := n.Stop(); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
	}
	t.Logf("%d changes, %d requests", value, e.asked)
}
