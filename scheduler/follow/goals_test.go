package follow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/stream"
	"github.com/freshet/freshet/bench/stream/streamtest"
	"github.com/freshet/freshet/diff"
	feedreader "github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A published is when a message of the topic was published.
type published struct {
	at     time.Time
	offset int64
}

// A goalsRig plays a stream with faults in virtual time: the stream goes over a connection, the reader of feeds,
// the follower and the loop are the real ones, and an endpoint applies the edits 0 to 10 minutes late.
type goalsRig struct {
	events, queries, items int
	topics                 int
	kind                   string // what the endpoint tells: offset, time, none
	seed                   uint64
	deaf                   float64
	polling                bool
	published              []published // in order

	mu     sync.Mutex
	data   *streamtest.Data
	list   []stream.Query
	truth  []func() *diff.Result // by query
	judge  *stream.Judge
	source *stream.Server
	begun  time.Time
	next   int64 // the position of the endpoint
	at     time.Time
	asked  int
	causes map[string]int
	base   map[string]uint64 // of the manager that runs

	seen, shares int
	proved       float64
}

// goalLag is how late the endpoint is at a time.
func (r *goalsRig) lag(t time.Time) time.Duration {
	x := 0.5 - 0.5*math.Cos(2*math.Pi*t.Sub(r.begun).Hours())
	return time.Duration(x * 0.9 * float64(10*time.Minute))
}

func (r *goalsRig) Health() registry.Health { return registry.Health{} }

func (r *goalsRig) Execute(ctx context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	const took = 3 * time.Millisecond
	time.Sleep(took)
	if ctx.Err() != nil {
		return scheduler.Answer{Outcome: registry.Cut}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var res *diff.Result
	if q.ID == "position" {
		term := fmt.Sprintf(`"%d"^^<http://www.w3.org/2001/XMLSchema#integer>`, r.next)
		if r.kind == "time" {
			term = fmt.Sprintf(`"%s"^^<http://www.w3.org/2001/XMLSchema#dateTime>`, r.at.UTC().Format(time.RFC3339Nano))
		}
		res = resultOf([]string{"n"}, [][]string{{term}})
	} else {
		r.asked++
		n, _ := strconv.Atoi(q.ID[1:])
		res = r.truth[n]()
	}
	return scheduler.Answer{Outcome: registry.Changed, Result: res, Elapsed: took}
}

// resultOf makes a result of terms as in N-Triples.
func resultOf(vars []string, rows [][]string) *diff.Result {
	type term struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		Lang     string `json:"xml:lang,omitempty"`
		Datatype string `json:"datatype,omitempty"`
	}
	list := make([]map[string]term, 0, len(rows))
	for _, row := range rows {
		b := map[string]term{}
		for i, x := range row {
			switch value, rest, _ := strings.Cut(strings.TrimPrefix(x, `"`), `"`); {
			case x == "":
			case x[0] == '<':
				b[vars[i]] = term{Type: "uri", Value: x[1 : len(x)-1]}
			case strings.HasPrefix(rest, "@"):
				b[vars[i]] = term{Type: "literal", Value: value, Lang: rest[1:]}
			case rest != "":
				b[vars[i]] = term{Type: "literal", Value: value, Datatype: rest[3 : len(rest)-1]}
			default:
				b[vars[i]] = term{Type: "literal", Value: value}
			}
		}
		list = append(list, b)
	}
	text, err := json.Marshal(map[string]any{"head": map[string]any{"vars": vars}, "results": map[string]any{"bindings": list}})
	if err != nil {
		panic(err)
	}
	res, err := diff.DecodeJSON(text, diff.Select, diff.Options{})
	if err != nil {
		panic(err)
	}
	return res
}

// pipes is a listener and a dialler without a network.
type pipes struct {
	wait chan net.Conn
	done chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.wait:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.wait <- b:
		return a, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// A goalsReport is what a run shows.
type goalsReport struct {
	stream.Report
	executions, polled int
	causes             map[string]int
	proved             float64
	took               time.Duration
	gaps               uint64
}

func (r *goalsRig) play(t *testing.T) (out goalsReport) {
	t.Helper()
	real := processor()
	world := stream.NewWorld(r.seed, r.items, nil)
	r.list, r.data, r.next, r.begun = world.Queries(r.queries), streamtest.NewData(), 1, time.Now()
	r.at = r.begun
	for _, q := range r.list {
		vars, rows := streamtest.Reader(q.Text)
		r.truth = append(r.truth, func() *diff.Result { return resultOf(vars, rows(r.data)) })
	}
	world.Triples(func(x stream.Triple) { r.data.Insert(x) })
	r.judge = stream.NewJudge(r.list)
	r.truths(nil, 0)
	r.source = stream.NewServer(r.seed, stream.Faults{
		Drop: 0.1, Double: 0.1, Cut: 15 * time.Minute, Disorder: 5 * time.Minute, Canary: 100, Other: 0.05, Deaf: r.deaf,
	})
	p := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: r.source}
	was := http.DefaultTransport
	http.DefaultTransport = &http.Transport{DialContext: p.dial, DisableKeepAlives: true}
	defer func() { http.DefaultTransport = was }()

	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(p) })
	e := registry.Endpoint{Name: "city", URL: "http://x/", Slot: "@every 1m", Budget: registry.Duration(time.Minute), Policy: "rr",
		Merge: registry.MergeOff, Lag: registry.Duration(10 * time.Minute)}
	if !r.polling {
		e.Feed = "wd"
	}
	if r.kind != "none" && !r.polling {
		e.Position = position
	}
	ledger := &schedulertest.Memory{}
	for i, q := range r.list {
		x := registry.Query{ID: fmt.Sprint("q", i), Endpoint: "city", Form: diff.Select, Text: q.Text, CreatedAt: time.Now()}
		x.Holders = []registry.Holder{{Caller: "me"}}
		if err := ledger.Register(x); err != nil {
			t.Fatal(err)
		}
	}
	var now *scheduler.Manager
	start := func() (halt func()) {
		life, stop := context.WithCancel(ctx)
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		if err := m.Add(e, r); err != nil {
			t.Fatal(err)
		}
		now, r.base = m, nil
		var work sync.WaitGroup
		work.Go(func() {
			if err := m.Run(life); err != nil {
				t.Error(err)
			}
		})
		if !r.polling {
			work.Go(func() { r.follow(life, t, ledger, m, e) })
		}
		return func() {
			r.count(now)
			stop()
			work.Wait()
		}
	}
	halt := start()
	quiet := func(d time.Duration, before bool) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(15 * time.Second) {
			at := time.Now()
			next := r.source.Canary(at) + 1
			r.published = append(r.published, published{at, next - 1})
			r.mu.Lock()
			if before { // the endpoint counts every message
				r.next, r.at = next, at
			}
			r.mu.Unlock()
			r.look(ledger, e)
		}
	}
	quiet(15*time.Minute, true) // until polling has brought what can be proved
	r.asked, r.shares, r.proved = 0, 0, 0
	r.count(now)
	clear(r.causes)
	slotsBefore := len(ledger.Slots("city"))
	r.begun = time.Now()
	pending := make(chan applying, r.events)
	done.Go(func() { r.apply(pending) })
	for n := range r.events {
		time.Sleep(time.Until(r.begun.Add(time.Duration(n) * time.Minute / 200)))
		a := applying{change: world.Next(), at: time.Now()}
		a.next = r.source.Publish(&a.change, a.at) + 1
		r.published = append(r.published, published{a.at, a.next - 1})
		pending <- a
		if n == r.events/3 {
			r.source.Forget(time.Second)
		}
		if n == r.events/2 {
			halt()
			halt = start()
		}
		if n%100 == 0 {
			r.look(ledger, e)
		}
	}
	close(pending)
	quiet(12*time.Minute, false)
	out.polled = (len(ledger.Slots("city")) - slotsBefore) * r.queries
	r.mu.Lock()
	out.executions = r.asked
	r.mu.Unlock()
	r.count(now)
	r.look(ledger, e)
	halt()
	cancel()
	close(p.done)
	_ = server.Close()
	done.Wait()
	out.Report = r.judge.Report()
	out.causes, out.proved, out.took = r.causes, r.proved/float64(max(1, r.shares)), processor()-real
	if n, err := ledger.Since("city", 0); err == nil {
		out.gaps = n.Feeds["wd"].Gaps
	}
	return out
}

// count adds the executions of a manager by their causes.
func (r *goalsRig) count(m *scheduler.Manager) {
	a, err := m.Asked("city")
	if err != nil {
		return
	}
	if r.causes == nil {
		r.causes = map[string]int{}
	}
	for c, n := range a.Causes {
		r.causes[c] += int(n - r.base[c])
	}
	r.base = a.Causes
}

func (r *goalsRig) follow(ctx context.Context, t *testing.T, ledger *schedulertest.Memory, m *scheduler.Manager, e registry.Endpoint) {
	d := feed.Definition{Name: "wd", Kind: feed.Wikimedia, URL: "http://stream.test/"}
	if r.topics == 1 || r.kind == "offset" { // which is that of one topic
		d.Topic = stream.Topic
	}
	source, err := feedreader.Open(d, feedreader.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	f := follow.New(follow.Config{Definition: d, Source: source, Ledger: ledger, Clock: sleeper{}, Heard: m.Heard, Logger: log,
		Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} }})
	if err := f.Run(ctx); err != nil {
		t.Error(err)
	}
}

type applying struct {
	change stream.Change
	next   int64
	at     time.Time
}

// apply applies edits in order and late.
func (r *goalsRig) apply(pending chan applying) {
	for a := range pending {
		time.Sleep(time.Until(a.at.Add(r.lag(a.at))))
		r.mu.Lock()
		r.data.Remove(a.change.Remove...)
		r.data.Insert(a.change.Insert...)
		from := r.next
		r.next, r.at = a.next, a.at
		r.truths(append(slices.Clone(a.change.Remove), a.change.Insert...), from)
		r.judge.Applied(r.next, 1)
		r.mu.Unlock()
	}
}

// truths says what is true after triples have changed, or at the beginning.
func (r *goalsRig) truths(changed []stream.Triple, from int64) {
	list := r.judge.Touched(changed)
	if changed == nil {
		for i := range r.list {
			list = append(list, i)
		}
	}
	for _, i := range list {
		r.judge.True(i, r.truth[i]().Hash(), from, r.next, time.Now())
	}
}

// look judges the changes and the proofs.
func (r *goalsRig) look(ledger *schedulertest.Memory, e registry.Endpoint) {
	changes := ledger.Changes()
	for ; r.seen < len(changes); r.seen++ {
		c := &changes[r.seen]
		i, _ := strconv.Atoi(c.Query[1:])
		previous := ""
		if !c.Baseline {
			previous = c.Delta.OldHash
		}
		r.judge.Receive(i, c.Delta.NewHash, previous, c.Seq, c.Time)
	}
	if r.polling {
		return
	}
	proved, n := 0, 0
	for i := r.shares % 7; i < len(r.list); i += 7 {
		n++
		p := ledger.Proof(e, fmt.Sprint("q", i), time.Now())
		if p.Until.IsZero() {
			continue
		}
		until := r.publishedBefore(p.Until)
		if p.Position.Topic == stream.Topic {
			until = max(until, p.Position.Offset)
		}
		r.judge.Claim(i, r.judge.Heard(i), until)
		if time.Since(p.Until) < time.Minute {
			proved++
		}
	}
	r.shares++
	r.proved += float64(proved) / float64(n)
}

// publishedBefore returns the offset of the last message from before a time.
func (r *goalsRig) publishedBefore(at time.Time) int64 {
	n, _ := slices.BinarySearchFunc(r.published, at, func(m published, at time.Time) int { return m.at.Compare(at) })
	if n == 0 {
		return 0
	}
	return r.published[n-1].offset
}

func processor() time.Duration {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	u, _ := strconv.Atoi(string(fields[13]))
	s, _ := strconv.Atoi(string(fields[14]))
	return time.Duration(u+s) * 10 * time.Millisecond
}

// The goals of proofs, for streams with faults. FRESHET_FEED_GOALS asks for other runs, such as
// "events=100000 queries=10000 items=20000 seeds=1,2,3 kinds=offset,time,none".
func TestLongGoals(t *testing.T) {
	set := map[string]string{"events": "3000", "queries": "500", "items": "1000", "seeds": "1", "kinds": "offset,time,none",
		"deaf": "0", "topics": "1"}
	if os.Getenv("FRESHET_FEED_GOALS") == "" {
		set["deaf"], set["topics"] = "30", "2" // % of the connections ignore where they are to begin
	}
	for _, pair := range strings.Fields(os.Getenv("FRESHET_FEED_GOALS")) {
		k, v, _ := strings.Cut(pair, "=")
		set[k] = v
	}
	number := func(k string) int {
		n, err := strconv.Atoi(set[k])
		if err != nil {
			t.Fatal(k, err)
		}
		return n
	}
	for _, seed := range strings.Split(set["seeds"], ",") {
		for _, kind := range strings.Split(set["kinds"], ",") {
			s, _ := strconv.ParseUint(seed, 10, 64)
			t.Run(kind+"/"+seed, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					r := &goalsRig{events: number("events"), queries: number("queries"), items: number("items"), kind: kind, seed: s,
						deaf: float64(number("deaf")) / 100, topics: number("topics")}
					r.polling = kind == "polling"
					out := r.play(t)
					share := func(n int) float64 { return 100 * float64(n) / float64(max(1, out.polled)) }
					var why []string
					for _, c := range slices.Sorted(maps.Keys(out.causes)) {
						if n := out.causes[c]; n > 0 {
							why = append(why, fmt.Sprintf("%s %.2f", c, share(n)))
						}
					}
					t.Logf("%s seed %d: %d events, %d changes, %d told; lost %d false %d doubled %d wrong %d of %d; delay %.1f / %.1f s",
						kind, s, out.Events, out.Changes, out.Received, out.Lost, out.False, out.Doubled, out.Unproved, out.Claims,
						out.DelayP50, out.DelayP99)
					t.Logf("executions %d = %.2f %% of %d: %s; proved %.1f %%; gaps %d; processor %s", out.executions,
						share(out.executions), out.polled, strings.Join(why, ", "), 100*out.proved, out.gaps, out.took)
					if bad := out.Lost + out.False + out.Doubled + out.Unproved; bad > 0 {
						t.Errorf("%d are lost, false, doubled or wrongly proved", bad)
					}
				})
			})
		}
	}
}
