// The nemesis: faults in a cluster of three processes, and what must hold in spite of them.

package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// TestTruthNemesis injects faults into a cluster while its data changes and followers move between its
// nodes. FRESHET_NEMESIS_FAULTS sets their number ("make nemesis" runs 1000), FRESHET_NEMESIS_SEED
// what is random about them, FRESHET_NEMESIS_LEASE the lease of the nodes, and FRESHET_NEMESIS_ONLY
// parts of the names of the kinds of faults that are wanted.
//
// The endpoint logs every request: no two nodes ask at once, none within the gap or a Retry-After,
// and no slot exceeds the budget. A revision of the data begins only after the one before is
// recorded, so every node must end with exactly the changes that were true, each with its number.
// No follower may get another change, miss one, or get one twice: by WebSocket, event streams, webhook,
// feeds, SEPA and WebSub, as each of them promises. A call of the API may be refused with 503, and
// never has a wrong answer.
func TestTruthNemesis(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	newNemesis(t, nil).run()
}

func (n *nemesis) run() {
	n.register()
	stop := n.follow()
	n.patches.proved(n)
	ctx, end := context.WithCancel(n.ctx)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer n.over.Store(true)
		for ctx.Err() == nil && n.revise() {
			n.sleep(ctx, time.Duration(n.writes.ExpFloat64()*float64(200*time.Millisecond)))
		}
	})
	writing.Go(func() { n.callNodes(ctx) })
	n.attack()
	end()
	writing.Wait()
	n.settle()
	stop()
	n.verify()
	n.report()
}

// A nemesis is one run of the test.
type nemesis struct {
	t        *testing.T
	ctx      context.Context
	seed     uint64
	faults   int
	lease    time.Duration
	rng      *rand.Rand // of the faults
	writes   *rand.Rand // of the data
	harm     *rand.Rand // of damaged files
	began    time.Time
	engine   string
	endpoint *loggedEndpoint
	oracle   *oracle
	public   string       // URL of the cluster
	patches  *patchFeed   // that the endpoint names, nil without a feed
	hook     *judgingHook // of the query for everything
	hub      *hubCallback // of the topics of two queries
	sepa     []*sepaFollower
	links    *linkSet
	changes  changeLog
	names    []string
	nodes    map[string]*victim
	audience *audience
	value    int // the last value that was written
	trials   int

	revision int
	done     atomic.Int64 // revisions that were recorded
	over     atomic.Bool  // no revision follows
	waiting  atomic.Int64 // since when a revision waits to be recorded, in Unix milliseconds; 0: none does
	counts   map[string]int

	mu     sync.Mutex
	wrong  []string
	delays map[bool][]time.Duration // from the answer to a follower, by whether it is at the owner
	calls  map[string]int           // answers of the API, by kind of call
	recent map[string]uint64        // the slot of the last change, by query
}

// A victim is a node. Its lock is held while a fault is in force at its process.
type victim struct {
	name, config, data, addr string
	sync.Mutex
	p       *clitest.Process
	damaged bool // its journal was damaged and not rebuilt since, so the node may end by itself
}

// nemesisNumber returns a number from the environment.
func nemesisNumber(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// nemesisQuestions ask for one predicate each, except one that asks for all.
func nemesisQuestions() (list []question) {
	for i, form := range []string{"SELECT ?s ?n { ?s <http://x/p%d> ?n }", "SELECT ?s ?n { ?s <http://x/p%d> ?n } ORDER BY ?n ?s",
		"CONSTRUCT { ?s <http://x/is> ?n } WHERE { ?s <http://x/p%d> ?n }", "SELECT ?s ?n { ?s <http://x/p%d> ?n }"} {
		f, _, _ := strings.Cut(form, " ")
		list = append(list, question{fmt.Sprint("q", i), f, fmt.Sprintf(form, i)})
	}
	return append(list, question{"all", "SELECT", "SELECT ?s ?p ?n { ?s ?p ?n }"})
}

func newNemesis(t *testing.T, patches *patchFeed) *nemesis {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if end, ok := t.Deadline(); ok { // leave time to report errors and to end the processes
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
		t.Cleanup(cancel)
	}
	lease, err := time.ParseDuration(cmp.Or(os.Getenv("FRESHET_NEMESIS_LEASE"), "3s"))
	if err != nil {
		t.Fatalf("FRESHET_NEMESIS_LEASE: %v", err)
	}
	n := &nemesis{
		t: t, ctx: ctx, patches: patches, seed: nemesisNumber(t, "FRESHET_NEMESIS_SEED", 1),
		faults: int(nemesisNumber(t, "FRESHET_NEMESIS_FAULTS", 6)),
		lease:  lease, names: []string{"n1", "n2", "n3"}, nodes: map[string]*victim{},
		began: time.Now(), links: newLinks(t), counts: map[string]int{}, delays: map[bool][]time.Duration{},
		calls: map[string]int{}, recent: map[string]uint64{}, public: "http://" + clitest.FreeAddr(t),
	}
	t.Logf("seed %d, %d faults, lease %v", n.seed, n.faults, n.lease)
	n.rng, n.writes = rand.New(rand.NewPCG(n.seed, 1)), rand.New(rand.NewPCG(n.seed, 2))
	n.harm = rand.New(rand.NewPCG(n.seed, 3))
	dir := t.TempDir()
	base := filepath.Join(dir, "base.nt")
	n.must(os.WriteFile(base, []byte("<http://x/0> <http://x/other> \"0\" .\n"), 0o600))
	n.engine = clitest.Start(t, binary(t), "sparql", "--listen", "127.0.0.1:0", "--load", base).Url
	n.endpoint = newLogged(t, n.engine, n.seed)
	n.endpoint.patches = patches
	n.hook = newJudgingHook(t)
	n.audience = &audience{} // replaced when followers start
	n.oracle = newOracle(n.engine, nemesisQuestions())
	n.must(n.oracle.look(ctx, 0))
	n.configure(dir)
	var starting sync.WaitGroup // each waits for a majority
	for _, v := range n.nodes {
		starting.Go(func() { n.start(v) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	n.ready()
	go func() {
		for ; n.ctx.Err() == nil; n.sleep(n.ctx, 100*time.Millisecond) {
			for _, v := range n.nodes {
				n.rebuildEnded(v)
			}
		}
	}()
	return n
}

func (n *nemesis) configure(dir string) {
	secret := filepath.Join(dir, "token")
	n.must(os.WriteFile(secret, []byte("shared by the three nodes\n"), 0o600))
	listen := map[string]string{}
	var peers []string
	for _, name := range n.names {
		listen[name] = clitest.FreeAddr(n.t)
		peers = append(peers, fmt.Sprintf("%s: %q", name, n.links.proxy("journal", name, listen[name])))
	}
	for _, name := range n.names {
		v := &victim{name: name, config: filepath.Join(dir, name+".yaml"), data: filepath.Join(dir, name), addr: clitest.FreeAddr(n.t)}
		n.nodes[name] = v
		n.must(os.WriteFile(v.config, fmt.Appendf(nil, `
listen: %s
public_url: %s
data: %s
log: {level: warn, format: text}
contact: mailto:%s@x.example
websub: {allow_callback_networks: [127.0.0.0/8]}
endpoints:
  - {name: truth, url: %q, slot: "@every %v", budget: %v, timeout: %v, min_gap: %v, policy: rr, %s}
%s
cluster: {name: nemesis, node: %s, listen: %q, peers: {%s}, api: {%s: "http://%s"}, token_file: %q, lease: %v}
`, v.addr, n.public, v.data, name, n.endpoint.http.URL, nemesisSlot, nemesisBudget, nemesisTimeout, nemesisGap,
			cmp.Or(n.patches.ofEndpoint(), `merge: "off"`), n.patches.settings(),
			name, listen[name], strings.Join(peers, ", "), name, n.links.proxy("API", name, v.addr), secret,
			n.lease), 0o600))
	}
}

func (n *nemesis) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *nemesis) object(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrong = append(n.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (n *nemesis) count(kind string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[kind]++
}

func (n *nemesis) note(format string, args ...any) {
	n.t.Logf("%s %6.1fs  %s", time.Now().Format("15:04:05.000"), time.Since(n.began).Seconds(), fmt.Sprintf(format, args...))
}

func (n *nemesis) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// start starts a node, which must come up unless its journal is to be rebuilt first.
func (n *nemesis) start(v *victim) {
	p, err := clitest.TryStart(n.t, nil, binary(n.t), "serve", "--config", v.config)
	switch {
	case err == nil:
		v.p = p
	case v.damaged && asksForRebuild(err):
		n.rebuild(v, err)
	default:
		n.object("%s does not start: %v", v.name, err)
		n.t.Fatal(err)
	}
}

func (v *victim) ended() bool {
	select {
	case <-v.p.Ended:
		return true
	default:
		return false
	}
}

// rebuildEnded rebuilds a node that has ended by itself because its journal is damaged. It may notice that at any time.
// Without a damage no node ends by itself.
func (n *nemesis) rebuildEnded(v *victim) {
	if !v.TryLock() { // something is done to it
		return
	}
	defer v.Unlock()
	if !v.ended() || n.t.Failed() { // a node that did not start has ended, too
		return
	}
	err := fmt.Errorf("%s ended by itself: %w\n%s", v.name, v.p.Err, v.p.Stderr)
	if !v.damaged || !asksForRebuild(err) {
		n.object("%v", err)
	}
	n.rebuild(v, err)
}

// get reads one document of the API of a node.
func (n *nemesis) get(v *victim, path string, out any) error {
	ctx, cancel := context.WithTimeout(n.ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.addr+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, resp.Status, b)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(b, out)
	}
	return err
}

func (n *nemesis) eventually(what string, ok func() bool) {
	n.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) || n.ctx.Err() != nil {
			n.report()
			for _, name := range n.names { // why not, and what the nodes say
				v := n.nodes[name]
				n.t.Logf("%s: %v\n%s", name, n.get(v, "/readyz", nil), lastLines(v.p.Stderr.String(), 40))
			}
			n.t.Fatalf("did not come: %s", what)
		}
	}
}

func (n *nemesis) ready() {
	n.t.Helper()
	for _, v := range n.nodes {
		n.eventually(v.name+" is ready", func() bool { return n.get(v, "/readyz", nil) == nil })
	}
}

func (n *nemesis) register() {
	for i, f := range n.oracle.facts {
		u := &restartingServer{t: n.t, addr: n.nodes[n.names[i%len(n.names)]].addr}
		n.must(u.register(n.ctx, f))
	}
	code, out, stderr := runCLI(n.t, map[string]string{"FRESHET_SERVER": "http://" + n.nodes["n2"].addr}, "", "webhook", "add",
		"--query", n.everything().id, n.hook.http.URL)
	if code != 0 {
		n.t.Fatalf("%d %s%s", code, out, stderr)
	}
	for _, v := range n.nodes { // so that no node may say that it does not know a query
		n.eventually("the first results at "+v.name, func() bool { return n.recorded(v) })
	}
}

// recorded reports whether a node has all versions that were true.
func (n *nemesis) recorded(v *victim) bool {
	for _, f := range n.oracle.facts {
		var q struct{ Seq uint64 }
		if err := n.get(v, "/v1/queries/"+f.id, &q); err != nil || q.Seq < uint64(len(f.versions)) {
			return false
		}
	}
	return true
}

// follow starts the followers.
func (n *nemesis) follow() (stop func()) {
	ctx, cancel := context.WithCancel(n.ctx)
	const pace = 400 * time.Millisecond
	a := &audience{pace: pace, faults: true, over: make(chan struct{}), seed: n.seed * 1000}
	for _, name := range n.names {
		a.nodes = append(a.nodes, n.nodes[name].addr)
	}
	n.audience = a
	a.websocket(ctx, wsFollower{member: a.member("ws plain", 0), life: 5 * pace, known: true}, n.oracle.facts)
	a.websocket(ctx, wsFollower{member: a.member("ws acks", 0), life: 3 * pace, ack: true}, n.oracle.facts)
	for _, f := range n.oracle.facts {
		a.sse(ctx, a.member("sse query", 0), 5*pace, f)
	}
	var page struct{ Next string }
	n.must(n.get(n.nodes["n1"], "/v1/changes?limit=1000", &page))
	epoch, _, _ := strings.Cut(page.Next, ":")
	a.all(ctx, a.member("sse all", 0), 4*pace, epoch, n.oracle.facts)
	a.feed(ctx, a.member("feed", 0), n.public, "/v1/queries/"+n.everything().id+"/changes.atom", []*fact{n.everything()})
	a.feed(ctx, a.member("feed of all", 0), n.public, "/v1/changes.atom", n.oracle.facts)
	for _, f := range []*fact{n.oracle.facts[0], n.everything()} {
		n.sepa = append(n.sepa, a.sepa(ctx, a.member("sepa", 0), 4*pace, f))
	}
	n.hub = newHubCallback(n.t, a, map[string]string{"/all": n.public + "/v1/queries/" + n.everything().id + "/results.srj",
		"/graph": n.public + "/v1/queries/" + n.oracle.facts[2].id + "/results.nt"})
	n.eventually("the hub has asked the subscriber", func() bool { n.hub.subscribe(ctx, n.public+"/v1/hub"); return n.hub.confirmed() })
	n.hub.renew(ctx, a, n.public+"/v1/hub", n.seed)
	for _, name := range n.names {
		n.watch(ctx, name, epoch)
	}
	return func() {
		close(a.over)
		received := make(chan struct{})
		go func() {
			a.members.Wait()
			close(received)
		}()
		select {
		case <-received:
		case <-time.After(2 * time.Minute):
			n.object("some followers have not received everything after 2 minutes")
		}
		cancel()
		a.members.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
}

// watch stays at one node and measures when changes arrive there.
func (n *nemesis) watch(ctx context.Context, name, epoch string) {
	texts := map[string]string{}
	for _, f := range n.oracle.facts {
		texts[f.id] = f.Text
	}
	a := &audience{nodes: []string{n.nodes[name].addr}}
	offset, known := uint64(0), map[string]uint64{}
	n.audience.members.Go(func() {
		for ctx.Err() == nil && !n.audience.isOver() {
			life, cancel := context.WithCancel(ctx)
			go func() {
				select {
				case <-n.audience.over:
					cancel()
				case <-life.Done():
				}
			}()
			if resp, err := a.getStream(life, "/v1/changes", fmt.Sprintf("%s:%d", epoch, offset)); err == nil {
				readEvents(resp.Body, func(e event) bool {
					now := time.Now()
					var c struct {
						Query             string
						Seq, Offset, Slot uint64
					}
					if e.kind != "change" || json.Unmarshal([]byte(e.data), &c) != nil {
						return true
					}
					offset, known[c.Query] = c.Offset, c.Seq
					n.mu.Lock()
					n.recent[c.Query] = max(n.recent[c.Query], c.Slot)
					n.mu.Unlock()
					if answered := n.endpoint.answered(texts[c.Query]); !answered.IsZero() && n.calm() {
						n.mu.Lock()
						at := name == n.endpoint.owner()
						n.delays[at] = append(n.delays[at], now.Sub(answered))
						n.mu.Unlock()
					}
					return true
				})
				resp.Body.Close()
			}
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// calm reports whether no fault is in force.
func (n *nemesis) calm() bool {
	for _, v := range n.nodes {
		if !v.TryLock() {
			return false
		}
		v.Unlock()
	}
	return true
}

// revise changes the data and waits until the change is recorded. It returns false if that fails.
func (n *nemesis) revise() bool {
	n.revision++
	n.value++
	p := n.writes.IntN(4)
	update := fmt.Sprintf("DELETE WHERE { <http://x/%d> <http://x/p%d> ?o }; INSERT DATA { <http://x/%d> <http://x/p%d> \"%d\" }",
		n.value%5, p, n.value%5, p, n.value)
	if _, err := ask(n.ctx, http.DefaultClient, n.engine, url.Values{"update": {update}}, ""); err != nil {
		n.object("the update: %v", err)
		return false
	}
	n.endpoint.revise()
	n.patches.publish(n.value%5, p, n.value)
	if err := n.oracle.look(n.ctx, n.revision); err != nil {
		n.object("the oracle: %v", err)
		return false
	}
	began := time.Now()
	n.waiting.Store(began.UnixMilli())
	defer n.waiting.Store(0)
	for ; n.ctx.Err() == nil && time.Since(began) < 4*time.Minute; time.Sleep(20 * time.Millisecond) {
		for _, name := range n.names {
			if v := n.nodes[name]; v.TryLock() { // no answer comes from a node that is stopped
				done := n.recorded(v)
				v.Unlock()
				if done {
					n.done.Add(1)
					return true
				}
			}
		}
	}
	n.object("revision %d was not recorded in %v", n.revision, time.Since(began))
	return false
}

// settle lets the cluster apply everything.
func (n *nemesis) settle() {
	n.endpoint.mu.Lock()
	n.endpoint.calm = true
	n.endpoint.mu.Unlock()
	n.ready()
	if !n.revise() {
		n.report()
		n.t.Fatal("the cluster does not go on after the faults")
	}
	for _, f := range n.oracle.facts {
		f.final = uint64(len(f.versions))
	}
	for _, v := range n.nodes {
		n.eventually(v.name+" has applied everything", func() bool { return n.recorded(v) })
	}
	n.callAll()
	n.eventually("the last message of the webhook", func() bool { return n.delivered(n.hook.at() == n.everything().final) })
	for path, f := range n.topics() {
		final := n.final(n.names[0], f)
		n.eventually("the newest content at the subscriber "+path, func() bool { return n.delivered(n.hub.newest(path) == string(final)) })
	}
}

// everything returns the query that asks for everything.
func (n *nemesis) everything() *fact { return n.oracle.facts[len(n.oracle.facts)-1] }

// topics returns the queries that the subscriber of the hub follows, by the path of its callback.
func (n *nemesis) topics() map[string]*fact {
	return map[string]*fact{"/all": n.everything(), "/graph": n.oracle.facts[2]}
}

// delivered returns done. If it is false, it lets callbacks be called at once that have failed, because
// the pauses between attempts grow.
func (n *nemesis) delivered(done bool) bool {
	var list struct {
		Subscriptions []struct {
			ID       string
			Failures int
		}
	}
	v := n.nodes[n.names[0]]
	if done || n.get(v, "/v1/subscriptions?limit=500", &list) != nil {
		return done
	}
	for _, x := range list.Subscriptions {
		if x.Failures > 0 {
			_, _ = (&restartingServer{t: n.t, addr: v.addr}).call(n.ctx, http.MethodPost, "/v1/subscriptions/"+x.ID+"/resume", nil) // it is repeated
		}
	}
	return false
}

// final returns the result of a query at a node.
func (n *nemesis) final(node string, f *fact) []byte {
	b, err := (&restartingServer{t: n.t, addr: n.nodes[node].addr}).results(n.ctx, f)
	n.must(err)
	return b
}

// history returns all changes at a node.
func (n *nemesis) history(v *victim) (list []string) {
	after := ""
	n.eventually("all changes at "+v.name, func() bool {
		var page struct {
			Changes []json.RawMessage
			Next    string
		}
		if err := n.get(v, "/v1/changes?limit=1000"+after, &page); err != nil {
			return v.damaged && v.ended() // what it had is compared
		}
		for _, c := range page.Changes {
			list = append(list, string(c))
		}
		after = "&after=" + url.QueryEscape(page.Next)
		return len(page.Changes) == 0
	})
	return list
}

// verify judges what was received and what is stored.
func (n *nemesis) verify() {
	j := &judge{nets: map[netKey]netChange{}}
	for range n.revision + 1 { // slots are judged by their order
		j.spans = append(j.spans, span{0, math.MaxUint64})
	}
	a := n.audience
	n.wrong = append(n.wrong, a.wrong...)
	by := map[*fact][]*transcript{}
	for _, s := range a.transcripts {
		by[s.fact] = append(by[s.fact], s)
	}
	hashes := map[*fact]map[uint64]string{}
	for _, f := range n.oracle.facts {
		o := ending{fact: f, nodes: n.names, received: by[f]}
		for _, name := range n.names {
			log, err := (&restartingServer{t: n.t, addr: n.nodes[name].addr}).log(n.ctx, f)
			n.must(err)
			o.finals, o.logs = append(o.finals, n.final(name, f)), append(o.logs, log)
		}
		var wrong []string
		hashes[f], wrong = o.judge(j)
		n.wrong = append(n.wrong, wrong...)
	}
	n.patches.judge(n)
	first := n.history(n.nodes[n.names[0]])
	for _, name := range n.names[1:] {
		log := n.history(n.nodes[name])
		if err := sameLog(log, first); err != nil || len(log) != len(first) {
			n.object("%s has %d changes in all, %s has %d: %v", name, len(log), n.names[0], len(first), err)
		}
	}
	for path, f := range n.topics() {
		repeats, late, err := judgeTopic(n.hub.got[path], hashes[f], f.final)
		if late > n.counts["stop and continue"] { // a node that is stopped while it sends cannot know that another one has sent
			n.object("websub %s: %d deliveries of one node came after a newer one of another", path, late)
		}
		if err != nil {
			n.object("websub %s: %v", path, err)
		}
		n.t.Logf("websub %s: %d deliveries, %d of them again, %d late, %d verifications of %d requests", path, len(n.hub.got[path]),
			repeats, late, n.hub.asked[path], n.hub.renewed)
	}
	for _, f := range n.sepa {
		notes, wrong := f.judge()
		n.wrong = append(n.wrong, wrong...)
		n.t.Logf("sepa %s: %d notifications on %d connections", f.fact.Name, notes, len(f.notes))
	}
	n.endpoint.mu.Lock()
	requests, reused := n.endpoint.log.requests, n.endpoint.log.reused()
	n.endpoint.mu.Unlock()
	n.wrong = append(n.wrong, overspent(requests)...)
	if reused == 0 {
		n.object("none of %d requests came on the connection of the one before, so gaps could not be judged", len(requests))
	}
	for i, name := range n.names {
		v := n.nodes[name]
		v.Lock() // for good
		if i > 0 {
			v.p.Kill() // the others have no majority, so what they write waits
		} else if err := v.p.Stop(); err != nil {
			n.object("%s: %v\n%s", name, err, v.p.Stderr)
		}
		if said := v.p.Stderr.String(); strings.Contains(said, "panic") || strings.Contains(said, "DATA RACE") {
			n.object("%s: %s", name, said)
		}
		checkStore(n.t, binary(n.t), v.data)
	}
	n.t.Logf("%d revisions, %d changes, %d changes judged, %d folded, %d cuts by followers, %d failed connects", n.revision,
		n.oracle.changes(), j.deltas, j.folded, a.cuts.Load(), a.failed.Load())
}

// report prints the counts and fails the test for everything that was wrong.
func (n *nemesis) report() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endpoint.mu.Lock()
	defer n.endpoint.mu.Unlock()
	log := n.endpoint.log
	n.hook.mu.Lock()
	wrong := slices.Concat(n.wrong, log.wrong, n.hook.wrong)
	n.t.Logf("the webhook received %d messages and %d of them again", len(n.hook.bodies), n.hook.repeats)
	n.hook.mu.Unlock()
	if n.hub != nil {
		n.hub.mu.Lock()
		wrong = append(wrong, n.hub.wrong...)
		n.hub.mu.Unlock()
	}
	var table strings.Builder
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(n.counts)) {
		fmt.Fprintf(&table, "%5d  %s\n", n.counts[kind], kind)
		if kind[0] != ' ' {
			total += n.counts[kind]
		}
	}
	n.t.Logf("%d faults in %v:\n%s%5d  requests, %d told to wait\n", total, time.Since(n.began).Round(time.Second), table.String(),
		len(log.requests), log.denied)
	n.links.mu.Lock()
	n.t.Logf("calls of the API: %v; pieces of data through proxies: %v", n.calls, n.links.passed)
	n.links.mu.Unlock()
	n.reportPauses()
	n.t.Logf("from the end of the answer to a follower at the owner: %s; at another node: %s", quantiles(n.delays[true]),
		quantiles(n.delays[false]))
	for i, w := range wrong {
		if i == maxObjections {
			n.t.Errorf("and %d more", len(wrong)-i)
			return
		}
		n.t.Errorf("%s", w)
	}
}

func quantiles(list []time.Duration) string {
	if len(list) == 0 {
		return "not measured"
	}
	list = slices.Sorted(slices.Values(list))
	at := func(p float64) time.Duration {
		return list[int(p*float64(len(list)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("n %d, least %v, median %v, 90%% %v, most %v", len(list), at(0), at(0.5), at(0.9), at(1))
}
