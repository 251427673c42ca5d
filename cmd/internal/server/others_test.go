// Tests of servers that share a journal.

package server

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/registry/clock/clocktest"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal"
	memoryjournal "github.com/freshet/freshet/store/journal/memory"
)

// A node is a server of a cluster in this process.
type node struct {
	*Server
	t    testing.TB
	name string // in its cluster; "" if it shares the journal alone
	role string // "worker" by default
	// secret is the token with which ask calls the API, "" for none.
	secret string
	lag    *sync.RWMutex // locked while the node applies nothing
	dir    string
	// public is public_url, "" for the usual one. A port 0 becomes that of the API.
	public   string
	conf     func(*config.Config) // edits its settings; nil leaves them
	open     func() journal.Journal
	stop     func()
	machine  clocktest.Machine // at which it runs
	patience time.Duration     // of its clock
}

// A sensor is an endpoint with one number.
type sensor struct {
	value, asked atomic.Int64
	answered     atomic.Pointer[time.Time]
}

func (s *sensor) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.asked.Add(1)
	w.Header().Set("Content-Type", "application/sparql-results+json")
	fmt.Fprintf(w, `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d"}}]}}`, s.value.Load())
	now := time.Now()
	s.answered.Store(&now)
}

// A lagging journal hands out no entry while lag is locked.
type lagging struct {
	journal.Journal
	lag *sync.RWMutex
}

// Read implements journal.Journal.
func (j lagging) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return j.Journal.Read(ctx, after, func(e journal.Entry) error {
		j.lag.RLock()
		defer j.lag.RUnlock()
		return f(e)
	})
}

// newNodes starts servers on one journal in memory. Slots run on request only.
func newNodes(t *testing.T, count int) (*sensor, []*node) { return startNodes(t, count, "") }

// newMembers starts nodes of a cluster, which have leases.
func newMembers(t *testing.T, count int, edit ...func(*node)) (*sensor, []*node) {
	return startNodes(t, count, "n", edit...)
}

// startNodes starts nodes, each after it was edited.
func startNodes(t *testing.T, count int, name string, edit ...func(*node)) (*sensor, []*node) {
	t.Helper()
	s := new(sensor)
	ep := httptest.NewServer(s)
	t.Cleanup(ep.Close)
	log := memoryjournal.New("test")
	var list []*node
	for i := range count {
		n := &node{t: t, patience: clock.Patience, dir: t.TempDir(), lag: new(sync.RWMutex)}
		n.open = func() journal.Journal { return lagging{log.Open(), n.lag} }
		if name != "" {
			n.name = fmt.Sprint(name, i+1)
		}
		for _, e := range edit {
			e(n)
		}
		n.start()
		t.Cleanup(func() { n.stop() })
		list = append(list, n)
	}
	list[0].call("POST", "/v1/endpoints", map[string]any{"name": "city", "url": ep.URL, "slot": "never", "budget": "1m"}, nil)
	return s, list
}

// settles sets how long a node waits until it has applied what another one answered. It returns what it was.
func (n *node) settles(d time.Duration) (was time.Duration) {
	w := *n.peers.waits.Load()
	was, w.settle = w.settle, d
	n.peers.waits.Store(&w)
	return was
}

func (n *node) start() {
	n.t.Helper()
	conf := config.Default()
	conf.Listen, conf.Data = "127.0.0.1:0", n.dir
	conf.PublicURL, conf.WebSub.AllowCallbackNetworks = n.public, []string{"127.0.0.0/8"}
	if err := conf.Check(); err != nil {
		n.t.Fatal(err)
	}
	if n.name != "" {
		conf.Cluster = config.Cluster{Name: "test", Node: n.name, Role: cmp.Or(n.role, "worker"), Lease: registry.Duration(30 * time.Second)}
	}
	if n.conf != nil {
		n.conf(&conf)
	}
	j := n.open()
	s, err := newOn(n.t.Context(), &conf, slog.New(slog.DiscardHandler), j, n.clock())
	if err != nil {
		n.t.Fatal(err)
	}
	if p := s.peers; p != nil { // so that no answer depends on the speed of the machine
		p.waits.Store(&waitTimes{time.Minute, time.Minute, time.Minute})
		p.client.Transport.(*http.Transport).DialContext = new(net.Dialer).DialContext
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	n.Server = s
	n.stop = func() {
		n.stop = func() {}
		cancel()
		if err := <-over; err != nil {
			n.t.Error(err)
		}
		s.Close()
		j.Close()
	}
}

// clock returns the clock of the server on its machine.
func (n *node) clock() *clock.Clock {
	return clock.New(n.machine.Now, n.patience, slog.New(slog.DiscardHandler))
}

// call calls the API and fails the test unless it succeeds.
func (n *node) call(method, path string, body, out any) {
	n.t.Helper()
	if err := n.Call(n.t.Context(), method, path, body, out); err != nil {
		n.t.Fatal(err)
	}
}

// await waits until f returns nil. Its limit is that of a test that hangs.
func await(t testing.TB, what string, f func() error) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

type change struct {
	Epoch string
	Seq   uint64
}

// changes reads the changes of a query after a position as a poll does.
func (n *node) changes(query, after string) (ids []string) {
	n.t.Helper()
	var page struct{ Changes []change }
	n.call("GET", "/v1/queries/"+query+"/changes?limit=1000&after="+after, nil, &page)
	for _, c := range page.Changes {
		ids = append(ids, fmt.Sprintf("%s:%d", c.Epoch, c.Seq))
	}
	return ids
}

// stream reads the ids of changes from an event stream until ctx ends.
func (n *node) stream(ctx context.Context, query, after string) <-chan string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", n.URL()+"/v1/queries/"+query+"/changes", nil)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		n.t.Fatalf("%s: %s", answer.Status, text)
	}
	ids := make(chan string, 100)
	go func() {
		defer close(ids)
		defer answer.Body.Close()
		for in := bufio.NewScanner(answer.Body); in.Scan(); {
			if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
				ids <- id
			}
		}
	}()
	return ids
}

// follow returns the positions that a WebSocket client receives until ctx ends.
func (n *node) follow(ctx context.Context, query string, from *client.State) <-chan client.State {
	states := make(chan client.State, 100)
	go func() {
		defer close(states)
		_ = client.Follow(ctx, client.Options{Server: n.URL(), Query: query, From: from}, func(e client.Event) error {
			if e.Kind == client.Snapshot || e.Kind == client.Delta {
				states <- e.State
			}
			return nil
		})
	}()
	return states
}

func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("%s: the stream has ended", what)
		}
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: nothing came", what)
	}
	panic("not reached")
}

// TestFollowersOfAnotherNode registers and executes at one node. Followers at another node
// receive the same changes under the same positions, by every protocol, and continue at the
// first node where they stopped at the other, even after that node was restarted from a
// compacted file.
func TestFollowersOfAnotherNode(t *testing.T) {
	s, nodes := newNodes(t, 2)
	a, b := nodes[0], nodes[1]
	var q struct{ ID string }
	a.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }", "name": "n"}, &q)
	b.call("GET", "/v1/queries/"+q.ID, nil, nil)
	tick := func() (id string) {
		t.Helper()
		s.value.Add(1)
		before := len(a.changes(q.ID, ""))
		a.call("POST", "/v1/endpoints/city/tick", nil, nil)
		ids := a.changes(q.ID, "")
		if len(ids) != before+1 {
			t.Fatalf("%d changes after %d", len(ids), before)
		}
		return ids[before]
	}
	first := tick()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket, stream := b.follow(ctx, q.ID, nil), b.stream(ctx, q.ID, first)
	if at := receive(t, "WebSocket", socket); at.Position() != first {
		t.Fatalf("a snapshot of %s, not of %s", at.Position(), first)
	}
	var last string
	var state client.State
	woken := b.Waker.Follow(q.ID) // the protocols also look at the log now and then
	defer woken.Close()
	for range 5 {
		last = tick()
		receive(t, "wake-up", woken.C())
		if state = receive(t, "WebSocket", socket); state.Position() != last {
			t.Fatalf("WebSocket: %s, want %s", state.Position(), last)
		}
		if id := receive(t, "event stream", stream); id != last {
			t.Fatalf("event stream: %s, want %s", id, last)
		}
		if got := b.changes(q.ID, first); got[len(got)-1] != last {
			t.Fatalf("poll: %v, want %s at the end", got, last)
		}
	}
	cancel()
	missed := []string{tick(), tick()}
	for _, at := range []*node{a, b, compacted(b), a} {
		if got := at.changes(q.ID, last); strings.Join(got, " ") != strings.Join(missed, " ") {
			t.Fatalf("poll after %s: %v, want %v", last, got, missed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream, socket := at.stream(ctx, q.ID, last), at.follow(ctx, q.ID, &state)
		for i, want := range missed {
			if id := receive(t, "event stream", stream); id != want {
				t.Fatalf("event stream: %s, want %s", id, want)
			}
			if i == len(missed)-1 { // a client that reconnects may get both in one message
				for receive(t, "WebSocket", socket).Position() != want {
				}
			}
		}
		cancel()
	}
	ended := b.follow(t.Context(), q.ID, nil)
	receive(t, "WebSocket", ended)
	a.call("DELETE", "/v1/queries/"+q.ID, nil, nil)
	select {
	case _, more := <-ended:
		if more {
			t.Error("a released query has changed")
		}
	case <-time.After(time.Minute):
		t.Error("a follower of a released query waits at the other node")
	}
}

// compacted restarts a node on a compacted copy of its file.
func compacted(n *node) *node {
	n.t.Helper()
	n.stop()
	j := n.open()
	db, err := store.Open(n.dir, store.Options{Journal: j})
	if err != nil {
		n.t.Fatal(err)
	}
	small := filepath.Join(n.dir, "small")
	if err := db.Compact(small); err != nil {
		n.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		n.t.Fatal(err)
	}
	j.Close()
	if err := os.Rename(small, filepath.Join(n.dir, store.File)); err != nil {
		n.t.Fatal(err)
	}
	n.start()
	return n
}

// TestSettingsOfAnotherNode edits endpoints, rules and tokens at one node and expects them in
// force at the other.
func TestSettingsOfAnotherNode(t *testing.T) {
	_, nodes := newNodes(t, 2)
	a, b := nodes[0], nodes[1]
	budget := func(want registry.Duration) func() error {
		return func() error {
			e, _, err := b.fleet.InForce("city")
			if err == nil && e.Budget != want {
				err = fmt.Errorf("the budget is %s, not %s", e.Budget, want)
			}
			return err
		}
	}
	await(t, "a new endpoint", budget(registry.Duration(time.Minute)))
	a.call("PATCH", "/v1/endpoints/city", map[string]string{"budget": "7s"}, nil)
	await(t, "an edited endpoint", budget(registry.Duration(7*time.Second)))
	before := b.Registry.Revision()
	var q, rule struct{ ID string }
	a.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, &q)
	await(t, "the revision of the registry", func() error {
		if b.Registry.Revision() == before {
			return fmt.Errorf("it is still %d", before)
		}
		return nil
	})
	a.call("POST", "/v1/rules", map[string]any{"name": "many", "query": q.ID, "when": "rows > 3"}, &rule)
	await(t, "a new rule", func() error { return b.Call(t.Context(), "GET", "/v1/rules/"+rule.ID, nil, nil) })
	if err := b.Call(t.Context(), "POST", "/v1/rules", map[string]any{"name": "many", "query": q.ID, "when": "rows > 4"}, nil); err == nil {
		t.Error("two rules have one name")
	}
	b.call("DELETE", "/v1/rules/"+rule.ID, nil, nil)
	await(t, "a removed rule", func() error {
		if a.Call(t.Context(), "GET", "/v1/rules/"+rule.ID, nil, nil) == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := b.stream(ctx, q.ID, "")
	a.call("POST", "/v1/tokens", map[string]string{"name": "root", "role": "admin"}, nil)
	select {
	case _, more := <-stream:
		if more {
			t.Error("a query without a result has changed")
		}
	case <-time.After(time.Minute):
		t.Error("a follower without a token goes on at the other node")
	}
	if err := b.Call(t.Context(), "GET", "/v1/queries/"+q.ID, nil, nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a request without a token: %v", err)
	}
}

// TestSettingsThatDiffer starts two nodes with different settings. Each names those of the other, and
// one whose own are reloaded names those that differ then.
func TestSettingsThatDiffer(t *testing.T) {
	river := registry.Endpoint{Name: "river", URL: "http://127.0.0.1:9/sparql", Slot: "never"}
	_, nodes := newMembers(t, 2, func(n *node) {
		n.conf = func(c *config.Config) {
			c.Endpoints = []registry.Endpoint{river}
			if n.name == "n2" {
				c.Limits.Queries, c.Retention.Changes, c.Limits.Connections = 7, 5, 9
			}
		}
	})
	expect := func(nodes []*node, want ...string) {
		t.Helper()
		for _, n := range nodes {
			await(t, n.name+" names the settings", func() error {
				s, err := n.member.Status()
				if err != nil || len(s.Nodes) != 2 {
					return fmt.Errorf("%+v %w", s.Nodes, err)
				}
				for _, x := range s.Nodes {
					if x.Name != n.name && !slices.Equal(x.Differs, want) || x.Name == n.name && x.Differs != nil {
						return fmt.Errorf("%s differs in %v", x.Name, x.Differs)
					}
				}
				return nil
			})
		}
	}
	expect(nodes, "limits.queries", "retention.changes")
	if a := nodes[0].ask("GET", "/metrics", ""); !strings.Contains(a.body, "\nfreshet_nodes_differing 1\n") {
		t.Errorf("the metrics do not say that the settings of a node differ:\n%s", a.body)
	}
	changed, edited := *nodes[0].Server.conf, river
	edited.Budget = registry.Duration(3 * time.Second)
	changed.Endpoints = []registry.Endpoint{edited}
	if err := nodes[0].Reload(&changed); err != nil {
		t.Fatal(err)
	}
	expect(nodes[:1], "endpoints.river", "limits.queries", "retention.changes")
}
