package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/registry/clock/clocktest"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A wall clock that can be set. As with the system's clock, the length of a wait is
// computed when it starts.
type wall struct {
	mu  sync.Mutex
	off time.Duration
}

func (w *wall) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Round(0).Add(w.off)
}

func (w *wall) Sleep(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(until.Sub(w.Now())):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *wall) set(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off += by
}

// Slots start when the clock shows a grid time, once each time, however it is set. None
// starts in a blackout, and missed ones are not made up for.
func TestSlotsFollowTheClock(t *testing.T) {
	for _, tc := range []struct {
		name, slot string
		blackout   []registry.Blackout
		at, by     time.Duration // when it is set, and by how much
		until      time.Duration
		want       []string // what the clock shows at the slots' starts
	}{
		{"set back", "@every 1h", nil, 150 * time.Minute, -10 * time.Hour, 270 * time.Minute,
			[]string{"01 00:00", "01 01:00", "01 02:00", "31 17:00", "31 18:00"}},
		{"set back within the grid", "0 0 * * *", nil, 30 * time.Minute, -time.Hour, 26 * time.Hour,
			[]string{"01 00:00", "02 00:00"}},
		{"set forward", "@every 1h", nil, 150 * time.Minute, 10*time.Hour + 10*time.Minute, 210 * time.Minute,
			[]string{"01 00:00", "01 01:00", "01 02:00", "01 13:00"}},
		{"a little late", "@every 1h", nil, 150 * time.Minute, 30*time.Minute + 20*time.Second, 200 * time.Minute,
			[]string{"01 00:00", "01 01:00", "01 02:00", "01 03:00"}},
		{"set forward into a blackout", "@every 1h", []registry.Blackout{{Start: "30 3 * * *", For: registry.Duration(2 * time.Hour)}},
			150 * time.Minute, 90 * time.Minute, 275 * time.Minute,
			[]string{"01 00:00", "01 01:00", "01 02:00", "01 06:00"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint(tc.slot, time.Minute, "rr")
				e.Blackout = tc.blackout
				w, shown := newWorld(t, e, same(t, time.Second)), new(wall)
				var err error
				if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: w.ledger, Executor: w.service, Clock: shown}); err != nil {
					t.Fatal(err)
				}
				w.register("a")
				w.run()
				until(tc.at)
				shown.set(tc.by)
				until(tc.until)
				w.stop()
				var starts []string
				for _, s := range w.slots() {
					starts = append(starts, s.Started.Format("02 15:04"))
				}
				if fmt.Sprint(starts) != fmt.Sprint(tc.want) {
					t.Errorf("slots at %v, want %v", starts, tc.want)
				}
			})
		})
	}
}

// Slots go on when the clock has been set forward, although a query is to be asked again minutes after a hint.
func TestSlotsGoOnAfterHints(t *testing.T) {
	var m clocktest.Machine
	e := endpoint("@every 1s", time.Second, "rr")
	e.Lag = registry.Duration(2 * time.Hour)
	w := newWorld(t, e, same(t, time.Millisecond))
	config := scheduler.Config{Endpoint: w.as, Ledger: w.ledger, Executor: w.service,
		Clock: clock.New(m.Now, 100*time.Millisecond, slog.New(slog.DiscardHandler))}
	var err error
	if w.loop, err = scheduler.NewLoop(config); err != nil {
		t.Fatal(err)
	}
	w.register("a", about("http://x/a"))
	began := time.Now()
	w.run()
	defer w.stop()
	slots := func(after time.Time, n int) {
		t.Helper()
		for time.Since(began) < 30*time.Second {
			late := 0
			for _, s := range w.slots() {
				if s.Started.After(after) {
					late++
				}
			}
			if late >= n {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatalf("%d slots after %s: %+v", n, after, w.slots())
	}
	slots(began.Add(-time.Hour), 1)
	w.hint(touched("http://x/a"))
	m.Set(40 * 24 * time.Hour)
	slots(began.Round(0).AddDate(0, 0, 39), 3)
}

// When the clock is set back, the last execution appears to be in the future, also
// after a restart. Neither min_interval nor max_staleness counts from it.
func TestQueriesFollowTheClock(t *testing.T) {
	t.Run("running on", func(t *testing.T) { setBack(t, false) })
	t.Run("restarted", func(t *testing.T) { setBack(t, true) })
}

func setBack(t *testing.T, restart bool) {
	for name, edit := range map[string]func(*registry.Query){
		"min_interval":  func(q *registry.Query) { q.Holders[0].MinInterval = registry.Duration(90 * time.Second) },
		"max_staleness": func(q *registry.Query) { q.Holders[0].MaxStaleness = registry.Duration(3 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("@every 1m", 30*time.Second, "rr")
				if name == "max_staleness" { // which matters where a policy leaves queries out
					e.Policy = "ttl:max=32"
				}
				w, shown := newWorld(t, e, same(t, time.Second)), new(wall)
				open := func() {
					var err error
					if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: w.ledger, Executor: w.service, Clock: shown}); err != nil {
						t.Fatal(err)
					}
					w.run()
				}
				q := w.register("a", edit)
				open()
				until(100 * time.Minute)
				if restart {
					w.stop()
				}
				before := w.service.ran(q.ID)
				shown.set(-1000 * time.Hour)
				if restart {
					open()
				}
				until(110*time.Minute + 30*time.Second)
				w.stop()
				if n := w.service.ran(q.ID) - before; before < 3 || n < 3 {
					t.Errorf("%d executions before, %d in the ten minutes after the clock was set back", before, n)
				}
			})
		})
	}
}

// Slots continue although settings contain times that do not fit in nanoseconds.
func TestTimesBeyondNanoseconds(t *testing.T) {
	const ages = registry.Duration(1<<63 - 1)
	never := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for name, edit := range map[string]func(*registry.Holder){
		"min_interval":  func(h *registry.Holder) { h.MinInterval = ages },
		"max_staleness": func(h *registry.Holder) { h.MaxStaleness = ages },
		"from":          func(h *registry.Holder) { h.From = &never },
		"until":         func(h *registry.Holder) { h.From, h.Until = &time.Time{}, &never },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, endpoint("@every 1m", 30*time.Second, "rr"), same(t, time.Second))
				w.register("a", func(q *registry.Query) { edit(&q.Holders[0]) })
				w.register("b")
				w.run()
				until(150 * time.Second)
				if due, err := w.loop.Due([]string{"q_a"}); err != nil {
					t.Error(due, err)
				}
				w.stop()
				want := map[string]int{"min_interval": 1, "max_staleness": 3, "from": 0, "until": 3}[name]
				if a, b := w.service.ran("q_a"), w.service.ran("q_b"); a != want || b != 3 {
					t.Errorf("%d and %d executions in 3 slots, want %d and 3", a, b, want)
				}
			})
		})
	}
}

// A hasty clock is a nanosecond behind its timers and advances by a nanosecond with
// each reading.
type hasty struct {
	mu  sync.Mutex
	off time.Duration
}

func (h *hasty) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.off += 2
	return time.Now().Round(0).Add(h.off - 2)
}

func (h *hasty) Sleep(ctx context.Context, until time.Time) error {
	h.mu.Lock()
	d := until.Sub(time.Now().Round(0).Add(h.off))
	h.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d > time.Millisecond {
		h.off = until.Sub(time.Now().Round(0)) - 1
	}
	return nil
}

// A timer that fires slightly early does not skip a slot.
func TestEarlyTimers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 10s", 5*time.Second, "rr")
		w := newWorld(t, e, same(t, time.Second))
		var err error
		if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: w.ledger, Executor: w.service, Clock: new(hasty)}); err != nil {
			t.Fatal(err)
		}
		w.register("a")
		w.run()
		until(95 * time.Second)
		w.stop()
		if n := len(w.slots()); n < 9 {
			t.Errorf("%d slots in 95 s of every 10 s", n)
		}
	})
}
