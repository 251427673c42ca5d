package shadow_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/scheduler/shadow"
)

// A wavering context is cancelled after a number of calls of Err.
type wavering struct {
	context.Context
	looks atomic.Int64
}

func (c *wavering) Err() error {
	if c.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A held context blocks callers of Err until it is released.
type held struct {
	context.Context
	looked, release chan struct{}
	once            sync.Once
}

func (c *held) Err() error {
	c.once.Do(func() { close(c.looked) })
	<-c.release
	return c.Context.Err()
}

const city = "city"

func shadowed(policy string, shadows ...string) registry.Endpoint {
	return registry.Endpoint{
		Name: city, URL: "http://127.0.0.1/sparql", Slot: "never", Budget: registry.Duration(3 * time.Second), Policy: policy,
		Timeout: registry.Duration(time.Hour), Shadows: shadows, Merge: registry.MergeOff,
	}
}

// A service answers the n-th execution of a query after a given time, and counts the
// executions.
type service struct {
	reply func(query string, n int) (time.Duration, *diff.Result)
	mu    sync.Mutex
	asked map[string]int
	total int
}

func (s *service) Execute(_ context.Context, q *registry.Query, _ scheduler.Memory, limit time.Duration) scheduler.Answer {
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	n := s.asked[q.ID]
	s.asked[q.ID]++
	s.total++
	s.mu.Unlock()
	takes, r := s.reply(q.ID, n)
	if takes > limit {
		time.Sleep(limit)
		return scheduler.Answer{Outcome: registry.Cut, Elapsed: limit}
	}
	time.Sleep(takes)
	return scheduler.Answer{Outcome: registry.Changed, Result: r, Elapsed: takes}
}

func (*service) Health() registry.Health { return registry.Health{} }

func (s *service) executions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// start runs the slots of an endpoint with four queries until the test ends.
func start(t *testing.T, e registry.Endpoint, s *service) (*scheduler.Manager, *shadow.Comparer) {
	t.Helper()
	ledger := &schedulertest.Memory{}
	m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
	if err := m.Add(e, s); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"q_1", "q_2", "q_3", "q_4"} {
		q := schedulertest.Query(city, id)
		q.ID = id
		if err := ledger.Register(q); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m, shadow.NewComparer(m, ledger)
}

func tick(t *testing.T, m *scheduler.Manager, n int) {
	t.Helper()
	for range n {
		if _, err := m.Tick(t.Context(), city); err != nil {
			t.Fatal(err)
		}
	}
}

func compare(t *testing.T, c *shadow.Comparer) shadow.Comparison {
	t.Helper()
	got, err := c.Compare(t.Context(), city)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A comparison is reused until something new is recorded or chosen. It ends when its
// caller does, and sends nothing to the endpoint.
func TestCompare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b := schedulertest.Rows(t, "a"), schedulertest.Rows(t, "b")
		s := &service{reply: func(query string, n int) (time.Duration, *diff.Result) {
			if query == "q_4" && n/2%2 == 0 {
				return time.Second, a
			}
			return time.Second, b
		}}
		m, c := start(t, shadowed("rr", "dj", "ttl:max=4:reset"), s)
		ctx := t.Context()
		before := compare(t, c)
		if before.Slot != 0 || len(before.Policies) != 3 || !before.Policies[0].Current || before.Policies[0].Estimate != nil {
			t.Errorf("before the first slot: %+v", before)
		}
		tick(t, m, 24)
		asked := s.executions()
		first := compare(t, c)
		own := first.Policies[0].Estimate
		if first.Slot != 24 || own == nil || own.Known == 0 || own.Total.Low == 0 {
			t.Fatalf("after 24 slots: %+v, %+v", first, own)
		}
		// A cancelled caller gets a comparison only if it is there already.
		gone, leave := context.WithCancel(ctx)
		leave()
		if again, err := c.Compare(gone, city); err != nil || again.Policies[0].Estimate != own {
			t.Errorf("what is there already: %v", err)
		}
		tick(t, m, 1)
		for looks := range int64(5) {
			w := &wavering{Context: ctx}
			w.looks.Store(looks)
			if _, err := c.Compare(w, city); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), city) {
				t.Errorf("gone after %d pasts: %v", looks, err)
			}
		}
		slow, made := &held{Context: ctx, looked: make(chan struct{}), release: make(chan struct{})}, make(chan error, 1)
		go func() { _, err := c.Compare(slow, city); made <- err }()
		<-slow.looked
		if _, err := c.Compare(gone, city); !errors.Is(err, context.Canceled) {
			t.Errorf("gone while another comparison is made: %v", err)
		}
		close(slow.release)
		if err := <-made; err != nil {
			t.Error(err)
		}
		second := compare(t, c)
		if second.Slot != 25 || second.Policies[0].Estimate == own || second.Policies[0].Estimate.To != own.To+1 {
			t.Errorf("after another slot: %+v", second.Policies[0].Estimate)
		}
		if compare(t, c).Policies[2].Estimate != second.Policies[2].Estimate {
			t.Error("nothing new, and yet it is estimated again")
		}
		for what, e := range map[string]registry.Endpoint{
			"another choice": shadowed("rr", "dj"), "another policy": shadowed("dj", "rr"),
			"another budget": func() registry.Endpoint {
				e := shadowed("rr", "dj")
				e.Budget = registry.Duration(time.Second)
				return e
			}(),
		} {
			if err := m.Update(e, nil); err != nil {
				t.Fatal(err)
			}
			got := compare(t, c)
			if want := append([]string{e.Policy}, e.Shadows...); !slices.Equal(spelled(got), want) || got.Budget != e.Budget {
				t.Errorf("%s: %+v, want %v", what, got, want)
			}
			for _, x := range got.Policies {
				if most := float64(e.Budget) / float64(time.Second); x.Estimate.Used.High > most*float64(x.Estimate.To-x.Estimate.From+1) {
					t.Errorf("%s: %s uses %+v in slots %d to %d of %gs", what, x.Policy, x.Estimate.Used, x.Estimate.From, x.Estimate.To, most)
				}
			}
		}
		var all sync.WaitGroup
		answers := make([]shadow.Comparison, 4)
		for i := range answers {
			all.Go(func() { answers[i], _ = c.Compare(ctx, city) })
		}
		all.Wait()
		for _, x := range answers[1:] {
			if d := cmp.Diff(answers[0], x); d != "" {
				t.Errorf("asked at a time:\n%s", d)
			}
		}
		if n := s.executions(); n != asked+3 {
			t.Errorf("comparing asked the endpoint %d times", n-asked-3)
		}
		if _, err := c.Compare(ctx, "nowhere"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("an unknown endpoint: %v", err)
		}
	})
}

func spelled(s shadow.Comparison) (list []string) {
	for _, x := range s.Policies {
		list = append(list, x.Policy)
	}
	return list
}

// A comparison uses the budget rule of the endpoint.
func TestCompareUnderDebt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := schedulertest.Rows(t, "same")
		s := &service{reply: func(query string, _ int) (time.Duration, *diff.Result) {
			if query == "q_4" {
				return 5 * time.Second, r
			}
			return time.Second, r
		}}
		e := shadowed("rr")
		e.Rule, e.Timeout = plan.RuleDebt, registry.Duration(10*time.Second)
		m, c := start(t, e, s)
		tick(t, m, 40)
		// Times are known exactly, so rr makes the same choices again.
		lent := compare(t, c).Policies[0].Estimate
		if d := lent.Total.Low - float64(lent.Same.Total); math.Abs(d) > 2 || lent.Used.High > 3*float64(lent.To-lent.From+1)+10 {
			t.Errorf("under debt: %+v", lent)
		}
		e.Rule = plan.RuleStrict
		if err := m.Update(e, s); err != nil {
			t.Fatal(err)
		}
		if strict := compare(t, c).Policies[0].Estimate; strict.Total == lent.Total {
			t.Errorf("strict, which cuts q_4 each time, executes as many: %+v", strict)
		}
	})
}
