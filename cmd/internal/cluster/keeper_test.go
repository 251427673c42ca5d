package cluster

// Tests of keepers on stores that share a journal, in the time of a bubble.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock/clocktest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
)

const (
	ttl     = 10 * time.Second
	timeout = 4 * time.Second // of a request
)

// awake is the sleep of a machine whose system does not report it.
func awake() (time.Duration, bool) { return 0, false }

// A network lets nodes reach their journal, or not, and apply what they read, or not.
type network struct {
	mu   sync.Mutex
	cut  bool
	open chan struct{} // closed when cut ends
	late bool          // nothing is applied
}

func (n *network) lag(late bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.late = late
}

func (n *network) lags() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.late
}

func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cut && !n.cut {
		n.open = make(chan struct{})
	} else if !cut && n.cut {
		close(n.open)
	}
	n.cut = cut
}

func (n *network) wait(ctx context.Context) error {
	n.mu.Lock()
	cut, open := n.cut, n.open
	n.mu.Unlock()
	if !cut {
		return nil
	}
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A remote is a journal behind a network.
type remote struct {
	journal.Journal
	*network
}

func (r remote) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if err := r.wait(ctx); err != nil {
		return 0, err
	}
	return r.Journal.Append(ctx, id, cmd)
}

func (r remote) Head(ctx context.Context) (journal.Position, error) {
	if err := r.wait(ctx); err != nil {
		return journal.Position{}, err
	}
	return r.Journal.Head(ctx)
}

func (r remote) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return r.Journal.Read(ctx, after, func(e journal.Entry) error {
		if err := r.wait(ctx); err != nil {
			return err
		}
		for r.lags() && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		return f(e)
	})
}

// A town is a number of nodes. All of them send requests under their leases, and the town sees
// whether two nodes ask one endpoint at the same time.
type town struct {
	t     *testing.T
	ttl   time.Duration
	log   *memory.Log
	nodes map[string]*resident

	mu    sync.Mutex           // guards what follows
	lasts time.Duration        // of a request
	keys  []string             // besides those of endpoints
	busy  map[string]string    // key → node that has a request under way
	asked map[string]int       // requests by key
	by    map[string]string    // key → node that asked last
	ended map[string]time.Time // key → end of the last request
	gap   time.Duration        // the longest from the end of a request of a key to the next one
}

type resident struct {
	*Keeper
	dir     string
	net     *network
	db      *store.DB
	journal journal.Journal
	files   atomic.Pointer[string]
	log     logText
	stop    context.CancelFunc
	over    chan error
}

// A logText keeps what a node logs.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newTown(t *testing.T, keys int, nodes ...string) *town {
	w := &town{t: t, ttl: ttl, lasts: timeout, log: memory.New("test"), nodes: map[string]*resident{}, busy: map[string]string{},
		asked: map[string]int{}, by: map[string]string{}, ended: map[string]time.Time{}}
	for i := range keys {
		w.keys = append(w.keys, fmt.Sprint("shard/", i))
	}
	for _, n := range nodes {
		w.start(n, false)
	}
	return w
}

// setLasts sets how long the next requests last.
func (w *town) setLasts(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lasts = d
}

// all returns all keys that a node knows.
func (w *town) all(db *store.DB) ([]string, error) {
	endpoints, err := db.Endpoints.Endpoints()
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.Clone(w.keys)
	for _, e := range endpoints {
		keys = append(keys, store.EndpointLease(e.Name))
	}
	return keys, err
}

func (w *town) start(name string, gateway bool) {
	w.t.Helper()
	w.startIn(w.t.TempDir(), name, gateway)
}

// startIn starts a node with the store in a directory.
func (w *town) startIn(dir, name string, gateway bool) {
	w.t.Helper()
	r := &resident{dir: dir, net: new(network), journal: w.log.Open(), over: make(chan error, 1)}
	db, err := store.Open(dir, store.Options{Journal: remote{r.journal, r.net}})
	if err != nil {
		w.t.Fatal(err)
	}
	r.db = db
	r.files.Store(new(" "))
	r.Keeper = New(Config{
		Now: time.Now, Asleep: awake,
		Leases: db.Leases, Node: registry.Node{Name: name, Gateway: gateway, TTL: int64(w.ttl)},
		Keys: func() ([]string, error) { return w.all(db) },
		Linger: func(key string) time.Duration {
			if name, ok := strings.CutPrefix(key, store.EndpointLease("")); ok {
				e, _ := db.Endpoints.Endpoint(name) // removed: no request
				return time.Duration(e.Timeout)
			}
			return timeout
		},
		Report: func(n *registry.Node) { n.Files = *r.files.Load() }, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Work: func(ctx context.Context, h *Hold) { w.ask(ctx, name, h) },
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	r.stop = cancel
	go func() { r.over <- r.Run(ctx) }()
	w.nodes[name] = r
}

// ask sends one request after the other. A request of a node that stops abruptly runs to its end.
func (w *town) ask(ctx context.Context, node string, h *Hold) {
	var requests sync.WaitGroup
	defer requests.Wait()
	for ctx.Err() == nil {
		if h.Valid() {
			w.mu.Lock()
			if other := w.busy[h.Key]; other != "" {
				w.t.Errorf("%v: %s asks while a request of %s for %s is under way", time.Now(), node, other, h.Key)
			}
			w.busy[h.Key] = node
			w.asked[h.Key]++
			if last, ok := w.ended[h.Key]; ok {
				w.gap = max(w.gap, time.Since(last))
			}
			w.by[h.Key] = node
			lasts := w.lasts
			w.mu.Unlock()
			time.Sleep(lasts)
			w.mu.Lock()
			w.busy[h.Key] = ""
			w.ended[h.Key] = time.Now()
			w.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// close stops all nodes.
func (w *town) close() {
	for name := range w.nodes {
		w.leave(name)
	}
}

// leave stops a node in order.
func (w *town) leave(name string) {
	w.t.Helper()
	r := w.nodes[name]
	delete(w.nodes, name)
	r.net.set(false)
	r.stop()
	if err := <-r.over; err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
	if err := r.db.Close(); err != nil {
		w.t.Error(err)
	}
	r.journal.Close()
}

// owners expects that every key is asked by the node that should own it, of those given, and
// returns how long that took.
func (w *town) owners(within time.Duration, names ...string) time.Duration {
	w.t.Helper()
	begin := time.Now()
	w.mu.Lock()
	clear(w.by)
	w.mu.Unlock()
	for {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		w.mu.Lock()
		wrong := slices.IndexFunc(w.keys, func(key string) bool { return w.by[key] != Owner(key, names) })
		var detail string
		if wrong >= 0 {
			detail = fmt.Sprintf("%s is asked by %q, want %q", w.keys[wrong], w.by[w.keys[wrong]], Owner(w.keys[wrong], names))
		}
		w.mu.Unlock()
		if wrong < 0 {
			return time.Since(begin)
		}
		if time.Since(begin) > within {
			w.t.Fatalf("after %v: %s", within, detail)
		}
	}
}

// Nodes divide the keys among them, take over from one that is cut off, give back what it should
// have, and pass on what a node owns that drains, leaves, or is a gateway.
func TestKeepers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTown(t, 12, "a", "b", "c")
		defer w.close()
		const soon = timeout + 5*time.Second
		w.owners(soon, "a", "b", "c")
		w.nodes["b"].net.set(true)
		took := w.owners(ttl+2*timeout+2*time.Second, "a", "c")
		t.Logf("takeover with a TTL of %v and a timeout of %v: %v", ttl, timeout, took)
		if w.nodes["b"].Valid() || w.nodes["a"].Takeovers()+w.nodes["c"].Takeovers() == 0 {
			t.Error("the node that is cut off still trusts its leases")
		}
		if s, err := w.nodes["a"].Status(0); err != nil || s.Nodes[1].State != registry.NodeSilent || s.Nodes[0].State != registry.NodeReady {
			t.Errorf("%+v, %v", s.Nodes, err)
		}
		w.nodes["b"].net.set(false)
		w.owners(ttl+2*timeout, "a", "b", "c")
		if err := w.nodes["a"].db.Leases.Drain("c", true); err != nil {
			t.Fatal(err)
		}
		w.owners(soon, "a", "b")
		if s, err := w.nodes["c"].Status(0); err != nil || s.Nodes[2].State != registry.NodeDraining || s.Nodes[2].Leases != 0 {
			t.Errorf("%+v, %v", s.Nodes, err)
		}
		w.leave("a")
		w.owners(soon, "b")
		w.start("g", true)
		w.start("a", false)
		w.owners(soon, "a", "b")
		if !w.nodes["g"].Lives("c") || w.nodes["g"].Lives("x") {
			t.Error("c is a member, and x is none")
		}
	})
}

// A gateway may join before the first worker. Nothing has an owner until then.
func TestGatewayFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTown(t, 3)
		defer w.close()
		w.start("g", true)
		time.Sleep(ttl)
		if _, leases, err := w.nodes["g"].db.Leases.Nodes(); err != nil || len(leases) != 0 {
			t.Errorf("%+v, %v", leases, err)
		}
		w.start("a", false)
		w.owners(timeout+5*time.Second, "a")
	})
}

// When no node has reached the journal for a while, no lease changes its owner, and each owner goes on
// as soon as the journal takes its heartbeats.
func TestOutageOfTheJournal(t *testing.T) {
	for outage := 7 * time.Second; outage < 14*time.Second; outage += 2 * time.Second {
		bubble.Test(t, func(t *testing.T) {
			names := []string{"a", "b", "c"}
			w := newTown(t, 6, names...)
			defer w.close()
			w.setLasts(ttl / 20)
			w.owners(timeout+5*time.Second, names...)
			for _, r := range w.nodes {
				r.net.set(true)
			}
			time.Sleep(outage)
			w.nodes["a"].net.set(false)
			time.Sleep(ttl / 20)
			w.nodes["b"].net.set(false)
			w.nodes["c"].net.set(false)
			took := w.owners(ttl+2*timeout, names...)
			sum := uint64(0)
			for _, r := range w.nodes {
				sum += r.Takeovers()
			}
			if t.Logf("outage of %v: all go on after %v", outage, took); took > ttl/5 || sum > 0 {
				t.Errorf("outage of %v: all go on after %v, with %d takeovers", outage, took, sum)
			}
		})
	}
}

// A key of a node that was killed is asked again when its lease has run out and requests have timed
// out, also if the node comes back before that.
func TestReturnOfAKilledNode(t *testing.T) {
	for away := ttl * 2 / 3; away < ttl; away += time.Second { // by then it asks no more
		bubble.Test(t, func(t *testing.T) {
			names := []string{"a", "b", "c"}
			w := newTown(t, 6, names...)
			w.owners(timeout+5*time.Second, names...)
			killed := w.nodes["b"]
			killed.net.set(true)
			time.Sleep(away)
			w.start("b", false)
			took := away + w.owners(2*ttl+2*timeout, names...)
			if t.Logf("back after %v: all keys are asked after %v", away, took); took > ttl+timeout+ttl/5 {
				t.Errorf("back after %v: all keys are asked after %v", away, took)
			}
			killed.net.set(false)
			if err := <-killed.over; err == nil {
				t.Error("the killed process goes on")
			}
			killed.over <- nil
			w.close()
			w.nodes["b"] = killed
			w.close()
		})
	}
}

// An endpoint that is removed and made again, or gets a shorter timeout, is not asked by another node
// while a request of its owner may run, whether that node is cut off or drains. Nothing remains of
// an endpoint that stays removed.
func TestEditedEndpoint(t *testing.T) {
	const long, short = 8 * time.Second, time.Second
	key, names := store.EndpointLease("e"), []string{"a", "b", "c"}
	owner := Owner(key, names)
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == owner })
	for _, way := range []struct{ cut, removed, stays bool }{
		{true, true, false}, {true, false, false}, {false, true, false}, {true, true, true}, {false, true, true},
	} {
		for phase := range long / time.Second { // of the request that runs
			bubble.Test(t, func(t *testing.T) {
				w := newTown(t, 0, names...)
				defer w.close()
				w.setLasts(long)
				db := w.nodes[rest[0]].db
				put := func(url string, timeout time.Duration) {
					t.Helper()
					if _, err := db.Endpoints.EditEndpoint("e", func(x *registry.Configured, _ bool) error {
						x.Endpoint.URL, x.Endpoint.Timeout = url, registry.Duration(timeout)
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				asker := func() string {
					synctest.Wait()
					w.mu.Lock()
					defer w.mu.Unlock()
					return w.by[key]
				}
				put("http://x/", long)
				for asker() != owner {
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(phase * time.Second)
				if way.cut {
					w.nodes[owner].net.set(true)
				} else if err := db.Leases.Drain(owner, true); err != nil {
					t.Fatal(err)
				}
				if way.removed {
					put("", 0)
				}
				if !way.stays {
					put("http://x/", short)
					for end := time.Now().Add(ttl + 3*long); asker() == owner; time.Sleep(100 * time.Millisecond) {
						if time.Now().After(end) {
							t.Fatalf("%+v: no other node asks the endpoint", way)
						}
					}
					return
				}
				time.Sleep(ttl + 3*long)
				w.nodes[owner].net.set(false)
				if _, leases, err := db.Leases.Nodes(); err != nil || len(leases) > 0 {
					t.Errorf("%+v: left of a removed endpoint: %+v, %v", way, leases, err)
				}
			})
		}
	}
}

// A node whose machine was suspended does not trust leases that have run out meanwhile, although
// its monotonic clock has not advanced. Where the system reports suspensions, a clock that is set ends nothing.
func TestSuspendedMachine(t *testing.T) {
	for name, x := range map[string]struct {
		known       bool
		set, asleep time.Duration
		valid       bool
	}{
		"nothing":                {true, 0, 0, true},
		"set back":               {true, -time.Hour, 0, true},
		"set forward":            {true, time.Hour, 0, true},
		"a short sleep":          {true, 30 * time.Minute, 30 * time.Minute, true},
		"a long sleep":           {true, 40 * time.Minute, 40 * time.Minute, false},
		"with a clock as it was": {true, 0, 40 * time.Minute, false},
		"unknown":                {false, 0, 0, true},
		"unknown, set back":      {false, -time.Hour, 0, true},
		"unknown and short":      {false, 30 * time.Minute, 0, true},
		"unknown and long":       {false, 40 * time.Minute, 0, false},
	} {
		var machine clocktest.Machine
		asleep := time.Minute
		k := New(Config{Node: registry.Node{Name: "a", TTL: int64(time.Hour)}, Now: machine.Now,
			Asleep: func() (time.Duration, bool) { return asleep, x.known }})
		k.heartbeat.Store(k.now())
		machine.Set(x.set)
		if asleep += x.asleep; k.Valid() != x.valid {
			t.Errorf("%s: a lease of an hour counts: %t", name, !x.valid)
		}
	}
}

// A node that leaves while it takes leases gives them back, too.
func TestLeaveWhileTaking(t *testing.T) {
	for round := range 10 { // the journal takes what waits for it in any order
		bubble.Test(t, func(t *testing.T) {
			w := newTown(t, 0, "a")
			a := w.nodes["a"]
			w.owners(time.Minute)
			a.net.set(true)
			synctest.Wait()
			w.mu.Lock()
			w.keys = []string{"shard/0", "shard/1"}
			w.mu.Unlock()
			time.Sleep(ttl / 5) // it asks for both
			a.stop()
			synctest.Wait()
			a.net.set(false)
			if err := <-a.over; err != nil {
				t.Error(err)
			}
			_, leases, err := a.db.Leases.Nodes()
			if err != nil || len(leases) != 2 {
				t.Errorf("round %d: %+v, %v", round, leases, err)
			}
			for _, l := range leases {
				if l.Session != "" {
					t.Errorf("round %d: the node that has left has the lease %s", round, l.Key)
				}
			}
			a.over <- nil
			w.close()
		})
	}
}

// A node is not ready within 15 s after it lost the majority, or when it applies what is more than
// five seconds old, whatever the TTL is. It is ready again by itself.
func TestReady(t *testing.T) {
	for _, ttl := range []time.Duration{ttl, time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newTown(t, 1)
				w.ttl = ttl
				w.start("a", false)
				w.start("g", true)
				defer w.close()
				for name, r := range w.nodes {
					ready := func(want bool, after time.Duration) {
						t.Helper()
						time.Sleep(after)
						if err := r.Ready(); (err == nil) != want || err != nil && !errors.Is(err, ErrCut) {
							t.Errorf("%s after %v: %v", name, after, err)
						}
					}
					ready(true, time.Minute)
					r.net.set(true)
					ready(false, 14*time.Second)
					r.net.set(false)
					ready(true, 11*time.Second)
					r.net.lag(true) // it can write, and applies nothing
					ready(false, 14*time.Second)
					r.net.lag(false)
					ready(true, 11*time.Second)
				}
			})
		})
	}
}

// Every node knows what all have reported with their heartbeats.
func TestReports(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTown(t, 6, "a", "b", "c")
		defer w.close()
		w.nodes["c"].files.Store(new("city=1 town=2"))
		w.nodes["a"].files.Store(new("city=3 town=2"))
		w.owners(timeout+5*time.Second, "a", "b", "c")
		w.nodes["b"].net.set(true)
		w.owners(ttl+2*timeout+2*time.Second, "a", "c")
		time.Sleep(ttl)
		sum := w.nodes["a"].Takeovers() + w.nodes["c"].Takeovers()
		for _, name := range []string{"a", "c"} {
			s, err := w.nodes[name].Status(0)
			if err != nil || sum == 0 || s.Takeovers != sum || s.Nodes[0].Takeovers != w.nodes["a"].Takeovers() ||
				s.Nodes[2].Takeovers != w.nodes["c"].Takeovers() {
				t.Errorf("%s knows of %d takeovers of %d: %+v %v", name, s.Takeovers, sum, s.Nodes, err)
			}
			for _, n := range s.Nodes {
				if want := n.Name != name && n.Name != "b"; want != slices.Equal(n.Differs, []string{"city"}) {
					t.Errorf("%s: the file of %s differs in %v", name, n.Name, n.Differs)
				}
			}
		}
		w.nodes["c"].files.Store(new("city=3"))
		time.Sleep(ttl)
		if s, err := w.nodes["a"].Status(0); err != nil || s.Nodes[2].Differs != nil {
			t.Errorf("%+v %v", s.Nodes[2], err)
		}
		w.nodes["b"].net.set(false)
	})
}

// A node says once what it took over from a node that is gone, with the endpoints.
func TestTakeoverIsLoggedOnce(t *testing.T) {
	names, rest := []string{"a", "b", "c"}, []string{"a", "c"}
	var lost []string // endpoints of b that a takes over
	for i := 0; len(lost) < 2; i++ {
		name := fmt.Sprint("e", i)
		if key := store.EndpointLease(name); Owner(key, names) == "b" && Owner(key, rest) == "a" {
			lost = append(lost, name)
		}
	}
	bubble.Test(t, func(t *testing.T) {
		w := newTown(t, 24, names...)
		defer w.close()
		for _, name := range lost {
			if _, err := w.nodes["a"].db.Endpoints.EditEndpoint(name, func(x *registry.Configured, _ bool) error {
				x.Endpoint.URL, x.Endpoint.Timeout = "http://x/", registry.Duration(timeout)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		w.owners(timeout+5*time.Second, names...)
		time.Sleep(ttl)
		w.nodes["b"].net.set(true)
		w.owners(ttl+2*timeout+2*time.Second, rest...)
		for name, want := range map[string]string{"a": `endpoints="` + strings.Join(lost, ", ") + `"`, "c": `endpoints=""`} {
			text, took := w.nodes[name].log.String(), w.nodes[name].Takeovers()
			line := fmt.Sprintf(`msg="took over from a node that is gone" node=b leases=%d %s`, took, want)
			if took < 2 || strings.Count(text, "took over") != 1 || !strings.Contains(text, line) {
				t.Errorf("%s took %d leases over, and does not say once %s:\n%s", name, took, line, text)
			}
		}
		w.nodes["b"].net.set(false)
	})
}

// In a rolling restart each key waits less than for a takeover, whether a node is drained first or
// only stopped.
func TestRollingRestart(t *testing.T) {
	for _, drained := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			names := []string{"a", "b", "c"}
			w := newTown(t, 12, names...)
			defer w.close()
			w.owners(timeout+5*time.Second, names...)
			for _, name := range names {
				if drained {
					if err := w.nodes[name].db.Leases.Drain(name, true); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Second)
					if s, err := w.nodes[name].Status(0); err != nil || s.Nodes[slices.Index(names, name)].Leases > 0 {
						t.Errorf("%s owns leases 10 s after drain: %+v, %v", name, s.Nodes, err)
					}
				}
				w.leave(name)
				w.start(name, false)
				w.owners(timeout+5*time.Second, names...)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if t.Logf("drained: %t, the longest gap: %v", drained, w.gap); w.gap >= ttl {
				t.Errorf("drained: %t: a key was not asked for %v; a takeover takes %v", drained, w.gap, ttl+timeout)
			}
		})
	}
}

// Two processes of one name do not work at the same time: the older one ends.
func TestSecondProcessOfANode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTown(t, 3, "a")
		w.owners(time.Minute, "a")
		old := w.nodes["a"]
		w.start("a", false)
		if err := <-old.over; err == nil {
			t.Error("the older process goes on")
		}
		w.owners(time.Minute, "a")
		old.over <- nil
		w.close()
		w.nodes["a"] = old
		w.close()
	})
}

// Whatever happens to the nodes, no two of them ask one endpoint at the same time, and each
// endpoint is asked again once the nodes are well.
func TestKeepersUnderFaults(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				names := []string{"a", "b", "c"}
				w := newTown(t, 4, names...)
				defer w.close()
				for range 40 {
					time.Sleep(time.Duration(random.Int64N(int64(6 * time.Second))))
					switch name := names[random.IntN(3)]; random.IntN(4) {
					case 0, 1:
						w.nodes[name].net.set(random.IntN(2) == 0)
					case 2:
						w.leave(name)
						w.start(name, false)
					default:
						for _, r := range w.nodes {
							r.net.set(false)
						}
					}
				}
				for _, r := range w.nodes {
					r.net.set(false)
				}
				w.owners(5*ttl, names...)
			})
		})
	}
}

// A lease is not claimed with heartbeats that were seen after it was decided that its owner is gone.
func TestHeartbeatWhileClaiming(t *testing.T) {
	const key, silent = "endpoint/e", 7
	k := New(Config{Now: time.Now, Asleep: awake, Node: registry.Node{Name: "a", TTL: int64(ttl)}})
	k.workers = []string{"a"}
	l := store.Lease{Key: key, Node: "b", Session: "s", Token: 1}
	seen := func(h lastHeartbeat) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.seen[l.Session] = h
	}
	now := time.Now()
	seen(lastHeartbeat{silent, now.Add(-time.Hour)})
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() { // as Status does
		defer close(stopped)
		for {
			select {
			case <-over:
				return
			default:
				seen(lastHeartbeat{silent + 1, now})
				seen(lastHeartbeat{silent, now.Add(-time.Hour)})
			}
		}
	}()
	claims := 0
	for end := now.Add(300 * time.Millisecond); time.Now().Before(end) && !t.Failed(); {
		v := view{now: now, of: map[string]store.Lease{key: l}}
		k.unwanted(&v, l)
		k.decide(t.Context(), &v, key)
		claims += len(v.claims)
		for _, c := range v.claims {
			if c.Beats != silent {
				t.Errorf("claim %d is of a node that lives", claims)
			}
		}
	}
	close(over)
	if <-stopped; claims == 0 {
		t.Error("nothing was claimed")
	}
}

// A node that was stopped for long does not work under a lease that was taken meanwhile, also before it has looked at all leases.
func TestHeartbeatAfterPause(t *testing.T) {
	j := memory.New("test").Open()
	defer j.Close()
	db, err := store.Open(t.TempDir(), store.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := New(Config{Now: time.Now, Asleep: awake, Leases: db.Leases,
		Node: registry.Node{Name: "a", TTL: int64(ttl)}, Report: func(*registry.Node) {},
		Work: func(ctx context.Context, h *Hold) { <-ctx.Done() }, Logger: slog.New(slog.DiscardHandler)})
	other := registry.Node{Name: "b", Session: "b"}
	take := func(n registry.Node, c store.Claim) store.Lease {
		t.Helper()
		granted, err := db.Leases.Take(n, []store.Claim{c})
		if err != nil || len(granted) != 1 {
			t.Fatal(granted, err)
		}
		return granted[0]
	}
	for _, n := range []registry.Node{k.node, other} {
		if err := db.Leases.Join(n); err != nil {
			t.Fatal(err)
		}
	}
	lost, kept := take(k.node, store.Claim{Key: "shard/1"}), take(k.node, store.Claim{Key: "shard/2"})
	for _, l := range []store.Lease{lost, kept} {
		k.begin(t.Context(), l)
		k.work[l.Key].hold.Begin()
	}
	nodes, _, err := db.Leases.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	take(other, store.Claim{Key: lost.Key, Token: lost.Token, Beats: nodes[0].Beats})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.live(ctx) }()
	for !k.Valid() {
		time.Sleep(time.Millisecond)
	}
	if k.Held(lost.Key) != nil {
		t.Error("it works under a lease that was taken")
	}
	if h := k.Held(kept.Key); h == nil || !h.Valid() {
		t.Error("it does not work under a lease that it has")
	}
	cancel()
	<-ended
}

// The keys move only to or from a node that joins or leaves, and every node gets its part.
func TestOwner(t *testing.T) {
	counts := map[string]int{}
	for i := range 900 {
		key := fmt.Sprint("endpoint/", i)
		all, fewer := Owner(key, []string{"a", "b", "c"}), Owner(key, []string{"b", "a"})
		counts[all]++
		if all != "c" && all != fewer {
			t.Fatalf("%s moves from %s to %s without a reason", key, all, fewer)
		}
	}
	for _, n := range []string{"a", "b", "c"} {
		if counts[n] < 250 || counts[n] > 350 {
			t.Errorf("%s has %d of 900 keys", n, counts[n])
		}
	}
	if Owner("x", nil) != "" {
		t.Error("no node, but an owner")
	}
}
