package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A service is an endpoint in virtual time. reply decides its answers; their durations
// pass in the time of the synctest bubble.
type service struct {
	mu       sync.Mutex
	reply    func(q *registry.Query, n int) reply
	asked    map[string]int
	log      []asked
	running  int
	began    map[*reply]time.Time // of those that run
	most     int
	state    registry.Health
	reckless bool          // ignores its limit, obeys only cancellation
	stubborn time.Duration // takes that long to obey a cancellation
}

// A reply is the result of one execution that nothing stops.
type reply struct {
	takes   time.Duration
	outcome registry.Outcome
	result  *diff.Result
}

type asked struct {
	query      string
	start, end time.Time
	limit      time.Duration
	outcome    registry.Outcome
}

func (s *service) Health() registry.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *service) setHealth(h registry.Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = h
}

func (s *service) Execute(ctx context.Context, q *registry.Query, _ scheduler.Memory, limit time.Duration) scheduler.Answer {
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	n := s.asked[q.ID]
	s.asked[q.ID]++
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()

	r := s.reply(q, n)
	start := time.Now()
	s.mu.Lock()
	if s.began == nil {
		s.began = map[*reply]time.Time{}
	}
	s.began[&r] = start
	s.mu.Unlock()
	wait, a := r.takes, scheduler.Answer{Outcome: r.outcome, Result: r.result}
	if r.outcome == registry.Changed && r.result == nil {
		panic("a changed reply needs a result")
	}
	if wait > limit && !s.reckless {
		wait, a = limit, scheduler.Answer{Outcome: registry.Cut}
	}
	t := time.NewTimer(wait)
	select {
	case <-t.C:
	case <-ctx.Done():
		if time.Since(start) < wait { // else the answer came in the same moment
			a = scheduler.Answer{Outcome: registry.Cut}
			time.Sleep(s.stubborn)
		}
	}
	t.Stop()
	end := time.Now()
	a.Elapsed = end.Sub(start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	delete(s.began, &r)
	s.log = append(s.log, asked{q.ID, start, end, limit, a.Outcome})
	return a
}

// ran returns how often a query has run.
func (s *service) ran(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[id]
}

// since returns the endpoint's time on executions that started at t or later, up to
// now.
func (s *service) since(t time.Time) (seen time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.log) - 1; i >= 0 && !s.log[i].end.Before(t); i-- {
		if x := s.log[i]; !x.start.Before(t) {
			seen += x.end.Sub(x.start)
		}
	}
	for _, start := range s.began {
		seen += time.Since(start)
	}
	return seen
}

// executions returns a copy of the log, ordered by end.
func (s *service) executions() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.log...)
}

// same answers every query with the same result after a fixed time.
func same(t testing.TB, takes time.Duration) func(*registry.Query, int) reply {
	r := schedulertest.Rows(t, "same")
	return func(*registry.Query, int) reply { return reply{takes, registry.Changed, r} }
}

// A world is one endpoint with its loop, ledger and service.
type world struct {
	t       *testing.T
	as      registry.Endpoint
	ledger  *schedulertest.Memory
	service *service
	loop    *scheduler.Loop
	cancel  context.CancelFunc
	done    chan error
	mu      sync.Mutex
	notes   []scheduler.Note
	onWake  func([]scheduler.Note)
}

const city = "city"

// endpoint returns an endpoint that is asked for each query alone, see merging.
func endpoint(slot string, budget time.Duration, policy string) registry.Endpoint {
	return registry.Endpoint{
		Name: city, URL: "http://127.0.0.1/sparql", Slot: slot, Budget: registry.Duration(budget), Policy: policy,
		Timeout: registry.Duration(time.Hour), Merge: registry.MergeOff,
	}
}

// newWorld must be called inside a synctest bubble.
func newWorld(t *testing.T, e registry.Endpoint, reply func(*registry.Query, int) reply) *world {
	w := &world{t: t, as: e, ledger: &schedulertest.Memory{}, service: &service{reply: reply}}
	w.open(e)
	return w
}

func (w *world) open(e registry.Endpoint) {
	w.t.Helper()
	var err error
	w.loop, err = scheduler.NewLoop(scheduler.Config{
		Endpoint: e, Ledger: w.ledger, Executor: w.service,
		Wake: func(n []scheduler.Note) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notes = append(w.notes, n...)
			if w.onWake != nil {
				w.onWake(n)
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.cancel, w.done = cancel, make(chan error, 1)
	loop := w.loop
	done := w.done
	go func() { done <- loop.Run(ctx) }()
}

func (w *world) stop() {
	w.t.Helper()
	w.cancel()
	if err := <-w.done; err != nil {
		w.t.Errorf("Run: %v", err)
	}
}

func (w *world) register(name string, edit ...func(*registry.Query)) registry.Query {
	w.t.Helper()
	q := schedulertest.Query(city, name)
	q.ID = "q_" + name // readable orders
	for _, f := range edit {
		f(&q)
	}
	w.put(q)
	return q
}

func (w *world) put(q registry.Query) {
	w.t.Helper()
	if err := w.ledger.Register(q); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tick() scheduler.Slot {
	w.t.Helper()
	s, err := w.loop.Tick(w.t.Context())
	if err != nil {
		w.t.Errorf("Tick: %v", err)
	}
	return s
}

func (w *world) stats(id string) policy.Stats {
	w.t.Helper()
	n, err := w.ledger.Since(city, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range n.Entries {
		if e.Query.ID == id {
			return e.Stats
		}
	}
	w.t.Fatalf("no query %s", id)
	return policy.Stats{}
}

func (w *world) slots() []scheduler.Slot { return w.ledger.Slots(city) }

// until sleeps until a time relative to the bubble's start, which is 2000-01-01 00:00
// UTC.
func until(d time.Duration) {
	time.Sleep(time.Until(epoch().Add(d)))
	synctest.Wait()
}

func epoch() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return out
}
