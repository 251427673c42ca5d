package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// shortWindow and longWindow are the longest waits of a change for others: alone, and
// while many changes come.
const shortWindow, longWindow = 10 * time.Millisecond, 80 * time.Millisecond

// A change is committed at once unless another execution is in progress. If one is, the
// change waits for shortWindow.
func TestChangeWaitsOnlyForOthers(t *testing.T) {
	for _, c := range []struct {
		name  string
		gap   time.Duration
		takes map[string]time.Duration
		want  map[string]time.Duration // from the end of the execution to the announcement
	}{
		{"alone", 0, map[string]time.Duration{"q_a": time.Second}, map[string]time.Duration{"q_a": 0}},
		{"before a long one", 0, map[string]time.Duration{"q_a": time.Second, "q_b": time.Minute},
			map[string]time.Duration{"q_a": shortWindow, "q_b": 0}},
		{"before a short one", 0, map[string]time.Duration{"q_a": time.Second, "q_b": 4 * time.Millisecond},
			map[string]time.Duration{"q_a": 4 * time.Millisecond, "q_b": 0}},
		{"before a gap", time.Millisecond, map[string]time.Duration{"q_a": time.Second, "q_b": 4 * time.Millisecond},
			map[string]time.Duration{"q_a": 0, "q_b": 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := endpoint("never", time.Hour, "rr")
				e.MinGap = registry.Duration(c.gap)
				w := newWorld(t, e, nil)
				ended, waited := map[string]time.Time{}, map[string]time.Duration{}
				w.service.reply = func(q *registry.Query, n int) reply {
					w.mu.Lock() // as onWake has
					defer w.mu.Unlock()
					ended[q.ID] = time.Now().Add(c.takes[q.ID])
					return reply{c.takes[q.ID], registry.Changed, schedulertest.Rows(t, fmt.Sprint(n))}
				}
				w.onWake = func(notes []scheduler.Note) {
					for _, n := range notes {
						waited[n.Query] = time.Since(ended[n.Query])
					}
				}
				w.register("a")
				if len(c.takes) > 1 {
					w.register("b")
				}
				w.run()
				for range 2 {
					w.tick()
					if fmt.Sprint(waited) != fmt.Sprint(c.want) {
						t.Errorf("the changes waited %v, want %v", waited, c.want)
					}
				}
				w.stop()
			})
		})
	}
}

// Many changes share a few commits. None waits longer than longWindow, and each is
// announced after its commit, once.
func TestManyChangesShareCommits(t *testing.T) {
	for _, width := range []int{1, 4} {
		t.Run(fmt.Sprint("concurrency=", width), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				const n = 1000
				e := endpoint("never", time.Hour, "rr")
				e.Concurrency = width
				w := newWorld(t, e, nil)
				w.service.reply = func(q *registry.Query, n int) reply {
					return reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, q.ID, fmt.Sprint(n))}
				}
				announced := 0
				w.onWake = func(notes []scheduler.Note) {
					all := w.ledger.Changes()
					if announced += len(notes); announced != len(all) {
						t.Errorf("%d changes announced, %d committed", announced, len(all))
					}
					for _, c := range all[len(all)-len(notes):] {
						if late := time.Since(c.Time); late > longWindow {
							t.Errorf("%s waited %s for its commit", c.Query, late)
						}
					}
				}
				for _, name := range names("a", n) {
					w.register(name)
				}
				w.run()
				for range 2 {
					before := w.ledger.Batches()
					if s := w.tick(); s.Complete != n {
						t.Errorf("slot %+v", s)
					}
					if commits := w.ledger.Batches() - before; commits > 25 {
						t.Errorf("%d commits for %d changes", commits, n)
					}
				}
				w.stop()
				if announced != 2*n {
					t.Errorf("%d changes announced, want %d", announced, 2*n)
				}
			})
		})
	}
}

// A new client of an endpoint takes over after the accepted answers of the old one are
// committed. No later answer of the old client is accepted.
func TestNewClientWaitsForTheWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("never", time.Hour, "rr")
		ledger := &schedulertest.Memory{}
		m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
		version := "one"
		old := &service{reply: func(q *registry.Query, n int) reply {
			takes := map[string]time.Duration{"q_a": time.Second, "q_b": time.Minute}[q.ID]
			return reply{takes, registry.Changed, schedulertest.Rows(t, version)}
		}}
		if err := m.Add(e, old); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"q_a", "q_b"} {
			q := schedulertest.Query(city, id)
			q.ID = id
			if err := ledger.Register(q); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		if _, err := m.Tick(t.Context(), city); err != nil {
			t.Fatal(err)
		}
		version = "two"
		over := make(chan struct{})
		go func() {
			defer close(over)
			m.Tick(t.Context(), city)
		}()
		time.Sleep(time.Second + shortWindow/2) // a waits in the window, b runs
		if n := len(ledger.Changes()); n != 2 {
			t.Errorf("%d changes before the window closes, want the baselines", n)
		}
		if err := m.Update(e, &service{reply: same(t, time.Second)}); err != nil {
			t.Fatal(err)
		}
		if n := len(ledger.Changes()); n != 3 {
			t.Errorf("%d changes when the new client takes over, want 3", n)
		}
		<-over
		if n := len(ledger.Changes()); n != 3 {
			t.Errorf("%d changes after the slot: the answer of the old client to b was accepted", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// If the ledger refuses a window, nothing of it is announced, and its queries run
// again.
func TestRefusedWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, endpoint("never", time.Hour, "rr"), nil)
		w.service.reply = func(q *registry.Query, n int) reply {
			return reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, q.ID, fmt.Sprint(min(n, 1)))}
		}
		for _, name := range names("a", 5) {
			w.register(name)
		}
		w.run()
		w.tick()
		before := len(w.notes)
		w.ledger.Break(fmt.Errorf("%w: the disk is full", registry.ErrReadOnly))
		if _, err := w.loop.Tick(t.Context()); err == nil {
			t.Error("the slot was recorded")
		}
		if len(w.notes) != before || len(w.ledger.Changes()) != 5 {
			t.Errorf("announced %+v of %d changes", w.notes[before:], len(w.ledger.Changes()))
		}
		w.ledger.Break(nil)
		if s := w.tick(); s.Changed != 5 || len(w.ledger.Changes()) != 10 || len(w.notes) != before+5 {
			t.Errorf("slot %+v, %d changes, %d notes", s, len(w.ledger.Changes()), len(w.notes)-before)
		}
		w.stop()
	})
}
