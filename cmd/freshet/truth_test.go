package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The truth tests run the program as users do: an endpoint, a server, clients.
// The endpoint's data changes step by step, each step is followed by a slot
// that executes everything. Every query is executed directly as well, before
// and after each step, and what the clients hear has to be what became true:
// every change, nothing else, each once, in order, byte for byte.

// TestTruthNomisma takes 300 steps with FRESHET_TRUTH=full, which needs half an
// hour and a -timeout to match.
func TestTruthNomisma(t *testing.T) {
	needEngine(t)
	t.Parallel()
	seed, steps := truthSeed(t), 60
	if os.Getenv("FRESHET_TRUTH") == "full" {
		steps = 300
	}
	truthTest{seed: seed, history: nomismaHistory(t, steps)}.run(t)
}

func TestTruthCity(t *testing.T) {
	needEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, 300, 60)}.run(t)
}

func TestTruthCityKilled(t *testing.T) {
	needEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, 300, 60), kills: 20}.run(t)
}

// TestTruthRace runs a server that looks for data races in itself.
func TestTruthRace(t *testing.T) {
	needEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, 20, 10), race: true}.run(t)
}

type truthTest struct {
	seed    uint64
	history history
	kills   int
	race    bool
}

// A truthRun is one test under way.
type truthRun struct {
	truthTest
	t        *testing.T
	rng      *rand.Rand
	endpoint string
	server   *undead
	oracle   *oracle
	audience *audience
	blows    map[int][]blow
	spans    []span
	lastTick time.Duration
	clients  []*tracked // the reference client
	looking  time.Duration
	ticking  time.Duration
	phases   strings.Builder

	objections int
}

const slowest = 3 * time.Second

func (x truthTest) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	r := &truthRun{truthTest: x, t: t, rng: rand.New(rand.NewPCG(x.seed, 1)), lastTick: 500 * time.Millisecond}
	r.phase("set up", func() { r.setUp(ctx) })
	r.phase("registrations", func() { r.register(ctx) })
	stop := r.invite(ctx)
	r.phase("revisions", func() {
		for revision := range len(x.history.steps) + 1 {
			r.step(ctx, revision)
		}
	})
	r.phase("last deliveries", func() { r.finish(ctx) })
	stop()
	r.phase("verdict", func() { r.verify(ctx) })
	r.phase("store check", r.tearDown)
	r.t.Logf("wall times:%s; direct execution %.1f s, slots %.1f s", r.phases.String(), r.looking.Seconds(), r.ticking.Seconds())
}

func (r *truthRun) phase(name string, do func()) {
	started := time.Now()
	do()
	fmt.Fprintf(&r.phases, " %s %.1f s", name, time.Since(started).Seconds())
}

// mostObjections bounds what one broken thing, which mostly breaks everything,
// writes.
const mostObjections = 25

func (r *truthRun) object(format string, args ...any) {
	r.t.Helper()
	if r.objections++; r.objections > mostObjections {
		r.t.Fail()
		return
	}
	r.t.Errorf(format, args...)
}

func (r *truthRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%v\nserver: %s", err, r.serverSays())
	}
}

func (r *truthRun) serverSays() string {
	if r.server == nil || r.server.p == nil {
		return "is not up"
	}
	return r.server.p.stderr.String()
}

func (r *truthRun) setUp(ctx context.Context) {
	plain := binary(r.t)
	bin := plain
	if r.race {
		bin = binary(r.t, "-race")
	}
	p := start(r.t, plain, "sparql", "--listen", "127.0.0.1:0", "--load", r.history.base)
	r.endpoint = p.url
	r.oracle = newOracle(p.url, r.history.questions)
	r.look(ctx, 0)
	if dropped := r.oracle.dropSlow(slowest); len(dropped) > 0 {
		r.t.Logf("%d queries take more than %v and are left out: %v", len(dropped), slowest, dropped)
	}
	r.server = &undead{t: r.t, bin: bin, addr: steadyAddr(r.t), data: r.t.TempDir(), yaml: fmt.Sprintf(`
endpoints:
  - {name: truth, url: %q, slot: never, budget: 10m, policy: rr}
log: {level: warn}
`, p.url)}
	r.server.rise()
	r.blows = blows(r.rng, r.kills, len(r.history.steps))
}

func (r *truthRun) look(ctx context.Context, revision int) {
	started := time.Now()
	r.must(r.oracle.look(ctx, revision))
	r.looking += time.Since(started)
}

// register registers all questions. A kill in between loses none of them.
func (r *truthRun) register(ctx context.Context) {
	hit := -1
	if len(r.blows[-1]) > 0 {
		hit = r.rng.IntN(len(r.oracle.facts))
	}
	ids := map[string]bool{}
	for n, f := range r.oracle.facts {
		if n == hit {
			killed, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = r.server.register(killed, f) // answered or not, it is asked again
			}()
			time.Sleep(time.Duration(r.rng.Int64N(int64(3 * time.Millisecond))))
			r.server.kill()
			cancel()
			<-done
		}
		r.must(r.server.register(ctx, f))
		if ids[f.id] {
			r.t.Fatalf("%s is the same question as another", f.Name)
		}
		ids[f.id] = true
	}
}

// step brings a revision: changes the data, finds out what is true, lets the
// server look.
func (r *truthRun) step(ctx context.Context, revision int) {
	if revision > 0 {
		r.must(applyChangeset(ctx, r.endpoint, r.history.steps[revision-1]))
		r.look(ctx, revision)
	}
	r.audience.revision.Store(int64(revision))
	for _, b := range r.blows[revision] {
		switch b.how {
		case "idle":
			r.server.kill()
		case "connect":
			r.server.kill()
			time.Sleep(time.Duration(b.after * float64(comeback)))
			r.server.kill()
		case "tick":
			r.cutTick(ctx, b)
		}
	}
	started := time.Now()
	s, err := r.server.tick(ctx, len(r.oracle.facts))
	r.must(err)
	r.lastTick = time.Since(started)
	r.ticking += r.lastTick
	first := uint64(1)
	if len(r.spans) > 0 {
		first = r.spans[len(r.spans)-1].last + 1
	}
	if s.Slot < first {
		r.t.Fatalf("slot %d after slot %d", s.Slot, first-1)
	}
	r.spans = append(r.spans, span{first, s.Slot})
}

// cutTick kills the server somewhere in a slot.
func (r *truthRun) cutTick(ctx context.Context, b blow) {
	done := make(chan error, 1)
	go func() {
		_, err := r.server.tick(ctx, len(r.oracle.facts))
		done <- err
	}()
	time.Sleep(time.Duration(b.after * float64(r.lastTick)))
	r.server.kill()
	if err := <-done; errors.Is(err, errIncomplete) {
		r.must(err)
	}
}

// finish lets everybody hear the rest.
func (r *truthRun) finish(ctx context.Context) {
	for _, f := range r.oracle.facts {
		var q struct {
			Seq, Changes, Executions uint64
			Epoch, State             string
		}
		r.must(r.server.get(ctx, "/v1/queries/"+f.id, &q))
		f.final = q.Seq
		if n := uint64(len(f.versions)); q.Seq != n || q.Changes != n-1 {
			r.object("%s: at %d with %d changes, but %d versions were true (revisions %v)\n%s", f.Name, q.Seq, q.Changes, n, revisions(f), f.Text)
		}
		if least := uint64(len(r.spans)); q.Executions < least || r.kills == 0 && q.Executions > least || q.State != "live" {
			r.object("%s: %s, %d executions instead of %d", f.Name, q.State, q.Executions, least)
		}
	}
	close(r.audience.over)
	heard := make(chan struct{})
	go func() {
		r.audience.members.Wait()
		close(heard)
	}()
	select {
	case <-heard:
	case <-time.After(2 * time.Minute):
		r.object("not everybody has heard the rest after 2 minutes")
	}
}

func revisions(f *fact) (list []int) {
	for _, v := range f.versions {
		list = append(list, v.revision)
	}
	return list
}

func (r *truthRun) verify(ctx context.Context) {
	j := &judge{spans: r.spans, nets: map[netKey]netChange{}}
	a := r.audience
	for _, w := range a.wrong {
		r.object("%s", w)
	}
	byFact := map[*fact][]*story{}
	covered := map[*fact]map[string]bool{}
	resumed, repeats := 0, 0
	for _, s := range a.stories {
		byFact[s.fact] = append(byFact[s.fact], s)
		if covered[s.fact] == nil {
			covered[s.fact] = map[string]bool{}
		}
		if len(s.records) > 0 && s.records[0].kind == "delta" { // the baseline
			kind, _, _ := strings.Cut(s.by, " ")
			covered[s.fact][kind] = true
		}
		resumed += s.resumed
		repeats += s.repeats
	}
	hashes := map[*fact]map[uint64]string{}
	for _, f := range r.oracle.facts {
		final, err := r.server.results(ctx, f)
		r.must(err)
		if err := isVersion(f, final, uint64(len(f.versions))); err != nil {
			r.object("%s: %v", f.Name, err)
		}
		log, err := r.server.log(ctx, f)
		r.must(err)
		hashes[f] = map[uint64]string{}
		for _, s := range append(byFact[f], log) {
			if err := j.judge(s, final, hashes[f]); err != nil {
				r.object("%s by %s: %v\n%s", f.Name, s.by, err, f.Text)
			}
		}
		if !covered[f]["ws"] || !covered[f]["sse"] {
			r.object("%s was not followed from the beginning by both WebSocket and SSE: %v", f.Name, covered[f])
		}
	}
	for _, c := range r.clients {
		if err := c.verify(hashes[c.fact]); err != nil {
			r.object("%s by the reference client: %v", c.fact.Name, err)
		}
	}
	if a.cuts.Load() == 0 || resumed == 0 || j.folded == 0 && len(r.history.steps) >= 60 {
		r.object("nothing was tried: %d cuts, %d resumed, %d folded", a.cuts.Load(), resumed, j.folded)
	}
	if more := r.objections - mostObjections; more > 0 {
		r.t.Logf("and %d more", more)
	}
	r.t.Logf("seed %d: %d queries, %d revisions, %d direct executions, %d true changes, %d slots, %d kills",
		r.seed, len(r.oracle.facts), len(r.spans), r.oracle.asked.Load(), r.oracle.changes(), r.spans[len(r.spans)-1].last, r.server.kills)
	r.t.Logf("%d stories: %d changes judged (%d of them folded, %d cancelled out), %d cuts by the client, %d failed connects, %d subscriptions resumed, %d repeats dropped",
		len(a.stories), j.deltas, j.folded, j.moved, a.cuts.Load(), a.failed.Load(), resumed, repeats)
}

func (r *truthRun) tearDown() {
	if err := r.server.p.stop(); err != nil {
		r.t.Errorf("the server ended with %v\n%s", err, r.serverSays())
	}
	if said := r.serverSays(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic") {
		r.t.Error(said)
	}
	checkStore(r.t, r.server.bin, r.server.data)
}

func command(t testing.TB, bin string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(bin, args...).CombinedOutput()
	return string(out), err
}

// invite brings everybody: some from before the first result on, some later.
func (r *truthRun) invite(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	pace := max(r.looking*2, 100*time.Millisecond)
	a := &audience{addr: r.server.addr, pace: pace, over: make(chan struct{}), seed: r.seed * 1000}
	r.audience = a
	facts := r.oracle.facts
	half := slices.Chunk(shuffled(r.rng, facts), (len(facts)+1)/2)
	for part := range half {
		a.websocket(ctx, wsFollower{member: a.member("ws plain", 0), life: 3 * pace, known: true}, part)
	}
	a.websocket(ctx, wsFollower{member: a.member("ws acks", 0), life: 4 * pace, ack: true}, shuffled(r.rng, facts)[:len(facts)/3])
	a.websocket(ctx, wsFollower{member: a.member("ws rated", 0), life: 9 * pace, rate: (6 * pace).Round(time.Millisecond).String()}, shuffled(r.rng, facts)[:len(facts)/4])
	for n := range 2 {
		from := int64(1 + r.rng.IntN(len(r.history.steps)))
		a.websocket(ctx, wsFollower{member: a.member(fmt.Sprint("ws late ", n), from), life: 2 * pace}, shuffled(r.rng, facts)[:len(facts)/4])
	}
	for n, f := range facts {
		from := int64(0)
		a.sse(ctx, a.member("sse query", from), 5*pace, f)
		if n%10 == 0 {
			from = int64(1 + r.rng.IntN(len(r.history.steps)))
			a.sse(ctx, a.member("sse late", from), 3*pace, f)
		}
	}
	var head struct{ Next string }
	r.must(r.server.get(ctx, "/v1/changes", &head))
	epoch, _, _ := strings.Cut(head.Next, ":")
	a.all(ctx, a.member("sse all", 0), 2*pace, epoch, facts)
	for _, f := range shuffled(r.rng, facts)[:10] {
		c := &tracked{fact: f}
		r.clients = append(r.clients, c)
		a.reference(ctx, a.member("client "+f.Name, 0), 3*pace, c)
	}
	return func() {
		cancel()
		a.members.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
}

func shuffled(r *rand.Rand, facts []*fact) []*fact {
	list := slices.Clone(facts)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
