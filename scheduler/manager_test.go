package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func named(name string) registry.Endpoint {
	e := endpoint("@every 10s", 5*time.Second, "rr")
	e.Name = name
	return e
}

func TestManager(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		services := map[string]*service{}
		add := func(name string) error {
			services[name] = &service{reply: same(t, time.Second)}
			return m.Add(named(name), services[name])
		}
		if err := add("alpha"); err != nil {
			t.Fatal(err)
		}
		if err := m.Add(named("alpha"), services["alpha"]); !errors.Is(err, registry.ErrExists) {
			t.Errorf("added twice: %v", err)
		}
		qa, qb := schedulertest.Query("alpha", "a"), schedulertest.Query("beta", "b")
		for _, q := range []registry.Query{qa, qb} {
			if err := ledger.Register(q); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		synctest.Wait()
		if err := add("beta"); err != nil { // while running
			t.Fatal(err)
		}
		until(25 * time.Second)
		for name, q := range map[string]registry.Query{"alpha": qa, "beta": qb} {
			// At 0, 10 and 20 s.
			if n := services[name].ran(q.ID); n != 3 || len(ledger.Slots(name)) != 3 {
				t.Errorf("%s: %d executions in %d slots", name, n, len(ledger.Slots(name)))
			}
			if due, err := m.Due(name, []string{q.ID}); err != nil || len(due) != 1 || due[0].IsZero() {
				t.Errorf("Due(%s, %s): %v, %v", name, q.ID, due, err)
			}
			if x, err := m.Explain(name, q.ID); err != nil || x.Endpoint != name {
				t.Errorf("explain %s: %+v, %v", name, x, err)
			}
			if s, err := m.State(name); err != nil || s.Queries != 1 || s.Last.Number != 3 {
				t.Errorf("state of %s: %+v, %v", name, s, err)
			}
		}
		if s, err := m.Tick(ctx, "beta"); err != nil || s.Number != 4 || s.Endpoint != "beta" {
			t.Errorf("tick: %+v, %v", s, err)
		}
		if a, err := m.Trial(ctx, &qb); err != nil || a.Outcome != registry.Changed {
			t.Errorf("trial: %+v, %v", a, err)
		}
		// The executor and the budget change.
		other := &service{reply: same(t, time.Second)}
		e := named("alpha")
		e.Budget = registry.Duration(2 * time.Second)
		if err := m.Update(e, other); err != nil {
			t.Fatal(err)
		}
		if s, err := m.Tick(ctx, "alpha"); err != nil || s.Budget != 2 || other.ran(qa.ID) != 1 {
			t.Errorf("after the update: %+v, %v, %d", s, err, other.ran(qa.ID))
		}
		e.Policy = "lru"
		if err := m.Update(e, nil); !errors.Is(err, policy.ErrPolicy) {
			t.Errorf("a bad update: %v", err)
		}
		if err := m.Remove("beta"); err != nil {
			t.Fatal(err)
		}
		unknown(t, m, ctx)
		before := services["beta"].ran(qb.ID)
		until(time.Minute)
		if services["beta"].ran(qb.ID) != before {
			t.Error("a removed endpoint is still asked")
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := m.Add(named("gamma"), other); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("added after the end: %v", err)
		}
	})
}

func unknown(t *testing.T, m *scheduler.Manager, ctx context.Context) {
	t.Helper()
	q := schedulertest.Query("beta", "b")
	_, tick := m.Tick(ctx, "beta")
	_, state := m.State("beta")
	_, trial := m.Trial(ctx, &q)
	_, explain := m.Explain("beta", q.ID)
	for what, err := range map[string]error{
		"tick": tick, "state": state, "trial": trial, "explain": explain,
		"update": m.Update(named("beta"), nil), "remove": m.Remove("beta"),
	} {
		if !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("%s of an unknown endpoint: %v", what, err)
		}
	}
}

// A ledger error at one endpoint ends all loops, because they share the disk.
func TestManagerEndsOnLedgerError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		for _, n := range []string{"alpha", "beta"} {
			if err := ledger.Register(schedulertest.Query(n, "q")); err != nil {
				t.Fatal(err)
			}
			if err := m.Add(named(n), &service{reply: same(t, time.Second)}); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- m.Run(t.Context()) }()
		until(15 * time.Second)
		full := fmt.Errorf("no space left on device: %w", registry.ErrUnusable)
		ledger.Break(full)
		if err := <-done; !errors.Is(err, full) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A loop whose lease another node has taken ends alone.
func TestFencedLoopEndsAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lost, own := &schedulertest.Memory{}, &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: own})
		for n, ledger := range map[string]*schedulertest.Memory{"alpha": lost, "beta": own} {
			if err := ledger.Register(schedulertest.Query(n, "q")); err != nil {
				t.Fatal(err)
			}
			if err := m.AddWith(named(n), &service{reply: same(t, time.Second)}, ledger); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		until(15 * time.Second)
		lost.Break(fmt.Errorf("record: %w", scheduler.ErrFenced))
		until(45 * time.Second)
		if a, b := len(lost.Slots("alpha")), len(own.Slots("beta")); a != 2 || b != 5 {
			t.Errorf("%d slots of the endpoint that was lost and %d of the other, want 2 and 5", a, b)
		}
		if _, err := m.Tick(ctx, "alpha"); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("tick: %v", err)
		}
		if err := m.Remove("alpha"); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// Trial runs wait for a place among the executions of the slot.
func TestTrialKeepsConcurrency(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", 20*time.Second, "rr"), same(t, 2*time.Second))
		for _, n := range names("a", 4) {
			w.register(n)
		}
		w.run()
		go w.tick()
		time.Sleep(time.Second)
		q := schedulertest.Query(city, "trial")
		if _, err := w.loop.Trial(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
		if at := time.Since(epoch()); at != 4*time.Second {
			t.Errorf("the trial run was over after %s; it comes after the one that ran", at)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.loop.Trial(ctx, &q); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a trial run whose caller went away: %v", err)
		}
		time.Sleep(time.Minute)
		w.stop()
		if w.service.most != 1 {
			t.Errorf("%d executions at a time", w.service.most)
		}
		if s := w.slots()[0]; s.Complete != 4 || s.Used != 8 {
			t.Errorf("the slot: %+v", s)
		}
	})
}

// A deaf executor ignores its context until it is released.
type deaf struct{ release chan struct{} }

func (d deaf) Execute(context.Context, *registry.Query, scheduler.Memory, time.Duration) scheduler.Answer {
	<-d.release
	return scheduler.Answer{Outcome: registry.Cut, Elapsed: time.Second}
}

func (d deaf) Health() registry.Health { return registry.Health{} }

// The Manager waits for a loop that does not end no longer than the grace period, both
// when its endpoint is removed and when everything ends. The loop has no effect later.
func TestLoopsAreLeftBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const grace = 3 * time.Second
		ledger := &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger, Grace: grace})
		x := deaf{make(chan struct{})}
		for _, name := range []string{"alpha", "beta", "gamma"} {
			if err := errors.Join(m.Add(named(name), x), ledger.Register(schedulertest.Query(name, name))); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		until(time.Second)
		start := time.Now()
		if err := m.Remove("alpha"); err != nil || time.Since(start) != grace {
			t.Errorf("removed after %s: %v", time.Since(start), err)
		}
		start = time.Now()
		cancel()
		if err := <-done; err != scheduler.ErrLeftBehind || time.Since(start) != grace {
			t.Errorf("ended after %s with %v", time.Since(start), err)
		}
		close(x.release)
		synctest.Wait()
		for _, name := range []string{"beta", "gamma"} {
			if n := len(ledger.Slots(name)); n != 1 {
				t.Errorf("%s: %d slots are recorded", name, n)
			}
		}
	})
}

// An unread ledger blocks until it is released.
type unread struct {
	*schedulertest.Memory
	release chan struct{}
}

func (u unread) Since(endpoint string, revision uint64) (scheduler.News, error) {
	<-u.release
	return u.Memory.Since(endpoint, revision)
}

// A loop that has not read its queries, health and debt yet reports no state rather
// than an empty one.
func TestNoStateBeforeTheLedgerIsRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := unread{&schedulertest.Memory{}, make(chan struct{})}
		if err := ledger.Register(schedulertest.Query("alpha", "q")); err != nil {
			t.Fatal(err)
		}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		if err := m.Add(named("alpha"), &service{reply: same(t, time.Second)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		if s, err := m.State("alpha"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("before the ledger is read: %+v, %v; want that the endpoint is starting", s, err)
		}
		go func() {
			time.Sleep(100 * time.Millisecond)
			close(ledger.release)
		}()
		if s, err := m.State("alpha"); err != nil || s.Queries != 1 {
			t.Errorf("a reader waits for the ledger: %+v, %v; want one query", s, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
