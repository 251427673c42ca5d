package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A wavering context is cancelled when it has been looked at so many times.
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

// A held context keeps whoever looks at it.
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

func shadowed(policy string, shadows ...string) registry.Endpoint {
	e := endpoint("never", 3*time.Second, policy)
	e.Shadows = shadows
	return e
}

// A comparison costs nothing while nothing new is recorded or chosen, ends with
// its caller, and asks the endpoint nothing.
func TestManagerShadows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b := schedulertest.Rows(t, "a"), schedulertest.Rows(t, "b")
		s := &service{reply: func(q *registry.Query, n int) reply {
			if q.ID == "q_4" && n/2%2 == 0 {
				return reply{time.Second, registry.Changed, a}
			}
			return reply{time.Second, registry.Changed, b}
		}}
		ledger := &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		if err := m.Add(shadowed("rr", "dj", "ttl:max=4:reset"), s); err != nil {
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
		compare := func() scheduler.Shadows {
			t.Helper()
			got, err := m.Shadows(ctx, city)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		tick := func() {
			t.Helper()
			if _, err := m.Tick(ctx, city); err != nil {
				t.Fatal(err)
			}
		}
		before := compare()
		if before.Slot != 0 || len(before.Policies) != 3 || !before.Policies[0].Current || before.Policies[0].Estimate != nil {
			t.Errorf("before the first slot: %+v", before)
		}
		for range 24 {
			tick()
		}
		asked := len(s.executions())
		first := compare()
		own := first.Policies[0].Estimate
		if first.Slot != 24 || own == nil || own.Known == 0 || own.Same.Relevant != own.Known || own.Total.Mean == 0 {
			t.Fatalf("after 24 slots: %+v, %+v", first, own)
		}
		// Whoever is gone is given nothing, and what is known is not lost.
		gone, leave := context.WithCancel(ctx)
		leave()
		if again, err := m.Shadows(gone, city); err != nil || again.Policies[0].Estimate != own {
			t.Errorf("what is there already: %v", err)
		}
		tick()
		for looks := range int64(5) {
			c := &wavering{Context: ctx}
			c.looks.Store(looks)
			if _, err := m.Shadows(c, city); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), city) {
				t.Errorf("gone after %d pasts: %v", looks, err)
			}
		}
		slow, made := &held{Context: ctx, looked: make(chan struct{}), release: make(chan struct{})}, make(chan error, 1)
		go func() { _, err := m.Shadows(slow, city); made <- err }()
		<-slow.looked
		if _, err := m.Shadows(gone, city); !errors.Is(err, context.Canceled) {
			t.Errorf("gone while another comparison is made: %v", err)
		}
		close(slow.release)
		if err := <-made; err != nil {
			t.Error(err)
		}
		second := compare()
		if second.Slot != 25 || second.Policies[0].Estimate == own || second.Policies[0].Estimate.To != own.To+1 {
			t.Errorf("after another slot: %+v", second.Policies[0].Estimate)
		}
		if compare().Policies[2].Estimate != second.Policies[2].Estimate {
			t.Error("nothing new, and yet it is estimated anew")
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
			got := compare()
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
		answers := make([]scheduler.Shadows, 4)
		for i := range answers {
			all.Go(func() { answers[i], _ = m.Shadows(ctx, city) })
		}
		all.Wait()
		for _, x := range answers[1:] {
			if d := cmp.Diff(answers[0], x); d != "" {
				t.Errorf("asked at a time:\n%s", d)
			}
		}
		if n := len(s.executions()); n != asked+3 {
			t.Errorf("comparing asked the endpoint %d times", n-asked-3)
		}
		if _, err := m.Shadows(ctx, "nowhere"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("an unknown endpoint: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func spelled(s scheduler.Shadows) (list []string) {
	for _, x := range s.Policies {
		list = append(list, x.Policy)
	}
	return list
}

// Different policies that can run live may be in the shadow, many of them.
func TestShadowChoice(t *testing.T) {
	most := []string{"rr", "sjf", "ljf", "cr", "dj", "ttl", "hybrid", "sqrt"}
	for n := 2; len(most) < scheduler.MaxShadows; n++ {
		most = append(most, fmt.Sprintf("ttl:max=%d:half", n))
	}
	for _, x := range []struct {
		shadows []string
		says    string
	}{
		{nil, ""},
		{most, ""},
		{append(slices.Clone(most), "ttl:max=2:reset"), "too many"},
		{[]string{"dj", "rr", "dj"}, "twice"},
		{[]string{"cr", "cr:lambda=0"}, "twice"},
		{[]string{"cv"}, "simulator"},
		{[]string{"lru"}, "lru"},
	} {
		_, err := scheduler.NewLoop(scheduler.Config{Endpoint: shadowed("rr", x.shadows...)})
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v: %v, want %q", x.shadows, err, x.says)
		}
	}
	e := registry.Endpoint{Name: city}
	for _, spelling := range []string{"rr", "cr", "cr:lambda=0", "rr"} {
		if err := scheduler.Shade(&e, spelling); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"rr", "cr:lambda=0"}, e.Shadows); d != "" {
		t.Errorf("chosen -want +got:\n%s", d)
	}
	if err := scheduler.Unshade(&e, "cr"); err != nil || len(e.Shadows) != 1 {
		t.Errorf("%v, %v", e.Shadows, err)
	}
	if err := scheduler.Unshade(&e, "cr"); !errors.Is(err, registry.ErrNotFound) {
		t.Error(err)
	}
	if err := scheduler.Shade(&e, "cv"); !errors.Is(err, scheduler.ErrPolicy) {
		t.Error(err)
	}
}
