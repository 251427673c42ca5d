package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// The truth tests run the program like users do: an endpoint, a server, clients. The endpoint's
// data changes step by step, and a slot that executes everything follows each step. The tests also
// execute every query directly before and after each step. The clients must receive exactly what
// became true: every change and nothing else, each once, in order, byte for byte.

// atLength returns a number for a long run, which FRESHET_TRUTH=full asks for, or for a short one.
// All truth tests together take an hour in full on an idle machine, and need a suitable -timeout.
func atLength(full, short int) int {
	if os.Getenv("FRESHET_TRUTH") == "full" {
		return full
	}
	return short
}

func TestTruthNomisma(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	h := nomismaHistory(t, atLength(300, 16))
	rand.New(rand.NewPCG(seed, 6)).Shuffle(len(h.questions), func(i, j int) {
		h.questions[i], h.questions[j] = h.questions[j],
			h.questions[i]
	})
	h.questions = h.questions[:min(len(h.questions), atLength(1000, 160))]
	truthTest{seed: seed, history: h}.run(t)
}

func TestTruthCityKilled(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, atLength(300, 120), atLength(60, 30)), kills: atLength(20, 12)}.run(t)
}

// The same with merged requests: every slot asks for several queries at once, or first for digests.
func TestTruthCityMergedAndKilled(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	for _, mode := range []string{"values", "probe"} {
		t.Run(mode, func(t *testing.T) {
			truthTest{seed: seed, history: cityHistory(t, seed, atLength(120, 80), atLength(24, 12)), kills: atLength(8, 5), merge: mode}.run(t)
		})
	}
}

// TestTruthRace runs a server that was built with the race detector.
func TestTruthRace(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, 20, 10), race: true}.run(t)
}

type truthTest struct {
	seed    uint64
	history history
	kills   int
	race    bool
	merge   string // setting of the endpoint
	journal string // of a cluster with two gateways, which also serve; "" for one server alone
}

// A truthRun is one running test.
type truthRun struct {
	truthTest
	t        *testing.T
	rng      *rand.Rand
	endpoint string
	server   *restartingServer
	gateways []*restartingServer
	oracle   *oracle
	audience *audience
	planned  map[int][]plannedKill
	spans    []span
	lastTick time.Duration
	clients  []*tracked // the reference client
	stable   *stableFollower
	looking  time.Duration
	ticking  time.Duration
	phases   strings.Builder

	objections int
}

const slowest = 3 * time.Second

func (x truthTest) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if end, ok := t.Deadline(); ok { // leave a minute to report errors
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
	}
	defer cancel()
	r := &truthRun{truthTest: x, t: t, rng: rand.New(rand.NewPCG(x.seed, 1)), lastTick: 500 * time.Millisecond}
	r.phase("set up", func() { r.setUp(ctx) })
	r.phase("registrations", func() { r.register(ctx) })
	stop := r.startFollowers(ctx)
	r.phase("revisions", func() {
		for revision := range len(x.history.steps) + 1 {
			r.step(ctx, revision)
		}
	})
	r.phase("last deliveries", func() { r.finish(ctx) })
	stop()
	r.phase("verdict", func() { r.verify(ctx) })
	r.phase("store check", r.tearDown)
	if s := r.server; r.merge != "" && s.asked > s.ran*9/10 {
		r.t.Errorf("%d requests for %d executions: they were hardly merged", s.asked, s.ran)
	}
	r.t.Logf("%d requests for %d executions", r.server.asked, r.server.ran)
	r.t.Logf("wall times:%s; direct execution %.1f s, slots %.1f s", r.phases.String(), r.looking.Seconds(), r.ticking.Seconds())
}

func (r *truthRun) phase(name string, do func()) {
	started := time.Now()
	do()
	fmt.Fprintf(&r.phases, " %s %.1f s", name, time.Since(started).Seconds())
}

// maxObjections limits the number of reported errors, because one fault usually causes many.
const maxObjections = 25

func (r *truthRun) object(format string, args ...any) {
	r.t.Helper()
	if r.objections++; r.objections > maxObjections {
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
	return r.server.p.Stderr.String()
}

func (r *truthRun) setUp(ctx context.Context) {
	plain := binary(r.t)
	bin := plain
	if r.race {
		bin = binary(r.t, "-race")
	}
	p := clitest.Start(r.t, plain, "sparql", "--listen", "127.0.0.1:0", "--load", r.history.base)
	r.endpoint = p.Url
	r.oracle = newOracle(p.Url, r.history.questions)
	r.look(ctx, 0)
	if dropped := r.oracle.dropSlow(slowest); len(dropped) > 0 {
		r.t.Logf("%d queries take more than %v and are left out: %v", len(dropped), slowest, dropped)
	}
	r.server = &restartingServer{t: r.t, bin: bin, addr: clitest.FreeAddr(r.t), data: r.t.TempDir(), yaml: fmt.Sprintf(`
endpoints:
  - {name: truth, url: %q, slot: never, budget: 10m, policy: rr, merge: %q}
log: {level: warn}
`, p.Url, cmp.Or(r.merge, "off"))}
	if r.journal != "" {
		r.startCluster()
	} else {
		r.server.start()
	}
	r.planned = planKills(r.rng, r.kills, len(r.history.steps))
}

func (r *truthRun) look(ctx context.Context, revision int) {
	started := time.Now()
	r.must(r.oracle.look(ctx, revision))
	r.looking += time.Since(started)
}

// register registers all questions. A kill during that loses none of them.
func (r *truthRun) register(ctx context.Context) {
	hit := -1
	if len(r.planned[-1]) > 0 {
		hit = r.rng.IntN(len(r.oracle.facts))
	}
	ids := map[string]bool{}
	for n, f := range r.oracle.facts {
		if n == hit {
			killed, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = r.server.register(killed, f) // repeated below, whether it was answered or not
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

// step performs a revision: it changes the data, determines what is true, and lets the server run
// a slot.
func (r *truthRun) step(ctx context.Context, revision int) {
	if revision > 0 {
		r.must(applyChangeset(ctx, r.endpoint, r.history.steps[revision-1]))
		r.look(ctx, revision)
	}
	r.audience.revision.Store(int64(revision))
	for _, b := range r.planned[revision] {
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
	_, last := r.head(ctx, fmt.Sprintf("%s:%d", r.stable.epoch, r.stable.offset.Load()))
	if err := r.stable.waitFor(ctx, last); err != nil {
		r.t.Fatalf("after slot %d: %v", s.Slot, err)
	}
	first := uint64(1)
	if len(r.spans) > 0 {
		first = r.spans[len(r.spans)-1].last + 1
	}
	if s.Slot < first {
		r.t.Fatalf("slot %d after slot %d", s.Slot, first-1)
	}
	r.spans = append(r.spans, span{first, s.Slot})
}

// head returns the end of the log of all changes, which must not be before a position.
func (r *truthRun) head(ctx context.Context, after string) (epoch string, offset uint64) {
	r.t.Helper()
	for {
		var page struct {
			Next    string
			Changes []json.RawMessage
		}
		r.must(r.server.get(ctx, "/v1/changes?limit=1000&after="+url.QueryEscape(after), &page))
		if after = page.Next; len(page.Changes) > 0 {
			continue
		}
		epoch, at, _ := strings.Cut(page.Next, ":")
		offset, err := strconv.ParseUint(at, 10, 64)
		r.must(err)
		return epoch, offset
	}
}

// cutTick kills the server at some point in a slot.
func (r *truthRun) cutTick(ctx context.Context, b plannedKill) {
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

// startFollowers starts all followers: some before the first result, some later.
func (r *truthRun) startFollowers(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	pace := max(r.looking*2, 100*time.Millisecond)
	a := &audience{nodes: []string{r.server.addr}, pace: pace, over: make(chan struct{}), seed: r.seed * 1000}
	for _, g := range r.gateways {
		a.nodes = append(a.nodes, g.addr)
	}
	r.audience = a
	facts := r.oracle.facts
	half := slices.Chunk(shuffled(r.rng, facts), (len(facts)+1)/2)
	for part := range half {
		a.websocket(ctx, wsFollower{member: a.member("ws plain", 0), life: 3 * pace, known: true}, part)
	}
	a.websocket(ctx, wsFollower{member: a.member("ws acks", 0), life: 4 * pace, ack: true}, shuffled(r.rng, facts)[:len(facts)/3])
	a.websocket(ctx, wsFollower{member: a.member("ws rated", 0), life: 9 * pace, rate: (6 * pace).Round(time.Millisecond).String()},
		shuffled(r.rng, facts)[:len(facts)/4])
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
	epoch, _ := r.head(ctx, "")
	a.all(ctx, a.member("sse all", 0), 2*pace, epoch, facts)
	r.stable = a.stableFollower(ctx, a.member("sse steady", 0), epoch)
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
