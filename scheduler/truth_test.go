package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// An endpoint is failing if none of its last executions was complete, for any reason.
// An endpoint with one bad query among good ones is not.
func TestEndpointWithoutACompleteAnswer(t *testing.T) {
	bad := map[string]registry.Outcome{"html": registry.Partial, "refused": registry.Rejected, "cut": registry.Cut,
		"slow": registry.Timeout, "broken": registry.Failed}
	answer := func(t *testing.T, kind string) reply {
		o, is := bad[kind]
		switch {
		case !is:
			return reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, "x")}
		case o == registry.Cut:
			return reply{time.Hour, o, nil}
		}
		return reply{time.Millisecond, o, nil}
	}
	run := func(name string, ticks int, want string, queries map[string]string) {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, endpoint("never", time.Second, "rr"), func(q *registry.Query, _ int) reply { return answer(t, queries[q.ID]) })
				for id := range queries {
					w.register(strings.TrimPrefix(id, "q_"), func(q *registry.Query) {
						if queries[id] == "rare" {
							q.Holders[0].MinInterval = registry.Duration(1000 * time.Hour)
						}
					})
				}
				w.run()
				for range ticks {
					w.tick()
				}
				h := w.loop.State().Health
				if h.State != want || want == registry.HealthFailing && (h.Since.IsZero() || !h.Until.IsZero()) {
					t.Errorf("%+v, want %s", h, want)
				}
				if n, _ := w.ledger.Since(city, 0); n.Health != h {
					t.Errorf("recorded is %+v, not %+v", n.Health, h)
				}
				w.stop()
				w.open(w.as) // after a restart it is still so
				w.run()
				synctest.Wait()
				if got := w.loop.State().Health; got.State != "" && got.State != want {
					t.Errorf("after a restart: %+v", got)
				}
				w.stop()
			})
		})
	}
	const long = 600
	for kind := range bad {
		run("one query, "+kind, long, registry.HealthFailing, map[string]string{"q_a": kind})
		run("one of two, "+kind, long, "", map[string]string{"q_a": kind, "q_b": "good"})
		run("one of two, the other runs rarely, "+kind, long, "", map[string]string{"q_a": kind, "q_b": "rare"})
	}
	many := map[string]string{}
	for i := range 8 {
		many[fmt.Sprint("q_", i)] = "html"
	}
	run("all, at once", 1, registry.HealthFailing, many)
	run("its only query, twice", 2, "", map[string]string{"q_a": "html"})
	run("its only query, for four slots", 4, registry.HealthFailing, map[string]string{"q_a": "html"})
	run("healthy", 3, "", map[string]string{"q_a": "good", "q_b": "good"})
}

// An endpoint that starts to answer with HTML pages is failing after the first
// executions, before all of its queries were tried.
func TestEndpointBeginsToFail(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		broken := false
		w := newWorld(t, endpoint("never", time.Second, "rr"), func(*registry.Query, int) reply {
			if broken {
				return reply{100 * time.Millisecond, registry.Partial, nil}
			}
			return reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, "x")}
		})
		for _, n := range names("a", 100) {
			w.register(n)
		}
		w.run()
		w.tick()
		w.tick()
		broken = true
		w.tick()
		st := w.loop.State()
		if st.Health.State != registry.HealthFailing || st.States[registry.Stale] == 0 || st.States[registry.Live] == 0 || st.Results != 100 {
			t.Errorf("%+v", st)
		}
		broken = false
		w.tick()
		if h := w.loop.State().Health; h.State == registry.HealthFailing || h.Incomplete != 0 {
			t.Errorf("after it answered again: %+v", h)
		}
		w.stop()
	})
}

// Answers of a replaced client are not accepted, changed or not, and it receives no
// further requests. The queries run again in the next slot.
func TestAnswersOfAReplacedClientAreDropped(t *testing.T) {
	for _, outcome := range []registry.Outcome{registry.Changed, registry.Failed, registry.Rejected, registry.Throttled} {
		for _, known := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				ledger := &schedulertest.Memory{}
				for _, n := range []string{"a", "b"} {
					q := schedulertest.Query(city, n)
					q.ID = "q_" + n
					if err := ledger.Register(q); err != nil {
						t.Fatal(err)
					}
				}
				quick := true
				before := &service{reply: func(*registry.Query, int) reply {
					if quick {
						return reply{time.Second, registry.Changed, schedulertest.Rows(t, "first")}
					}
					if outcome == registry.Changed {
						return reply{time.Second, outcome, schedulertest.Rows(t, "old server")}
					}
					return reply{time.Second, outcome, nil}
				}}
				after := &service{reply: func(*registry.Query, int) reply {
					return reply{time.Second, registry.Changed, schedulertest.Rows(t, "new server")}
				}}
				m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
				e := endpoint("never", time.Minute, "rr")
				if err := m.Add(e, before); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- m.Run(ctx) }()
				tick := func() scheduler.Slot {
					s, err := m.Tick(t.Context(), city)
					if err != nil {
						t.Error(err)
					}
					return s
				}
				if known {
					tick()
				}
				was, slots := ledger.Changes(), len(ledger.Slots(city))
				stats := statsOf(t, ledger)
				quick = false
				over := make(chan scheduler.Slot, 1)
				go func() { over <- tick() }()
				time.Sleep(time.Second / 2)
				e.URL = "http://127.0.0.1/other"
				if err := m.Update(e, after); err != nil {
					t.Fatal(err)
				}
				if s := <-over; s.Run != 1 || s.Complete+s.Failed+s.Cut+s.Skipped != 0 || s.Used != 1 {
					t.Errorf("%s: the slot in which it was replaced: %+v", outcome, s)
				}
				if got := ledger.Changes(); len(got) != len(was) || len(ledger.Slots(city)) != slots+1 {
					t.Fatalf("%s: the old server's answer was taken: %v", outcome, got[len(was):])
				}
				dropped := 0
				for id, s := range statsOf(t, ledger) {
					if s.LastRun.Outcome == registry.Dropped {
						dropped++
						s.LastRun = stats[id].LastRun
					}
					if s.Executions != stats[id].Executions || s.Failures != 0 || s.NotBefore != 0 || len(s.Samples) != len(stats[id].Samples) {
						t.Errorf("%s: %s: %+v was learnt", outcome, id, s)
					}
				}
				if h := must(m.State(city)).Health; dropped != 1 || h.Incomplete != 0 {
					t.Errorf("%s: %d dropped, %+v", outcome, dropped, h)
				}
				if s := tick(); s.Complete != 2 || before.ran("q_a")+before.ran("q_b") != slots*2+1 {
					t.Errorf("%s: the slot after: %+v", outcome, s)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func statsOf(t *testing.T, l *schedulertest.Memory) map[string]policy.Stats {
	n, err := l.Since(city, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]policy.Stats{}
	for _, e := range n.Entries {
		out[e.Query.ID] = e.Stats
	}
	return out
}

// A back-off from before an edit of the endpoint's settings is over: for the running
// loop, for a query that was edited too, and after a restart.
func TestEditEndsTheBackOff(t *testing.T) {
	for _, restart := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			broken := true
			w := newWorld(t, endpoint("never", time.Minute, "rr"), func(*registry.Query, int) reply {
				if broken {
					return reply{time.Millisecond, registry.Rejected, nil}
				}
				return reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, "x")}
			})
			a, b := w.register("a"), w.register("b")
			w.run()
			w.tick()
			if s := w.tick(); s.Run != 0 {
				t.Errorf("no back-off: %+v", s)
			}
			if st := w.loop.State(); st.States[registry.Failing] != 2 || st.Results != 0 {
				t.Errorf("%+v", st)
			}
			broken = false
			time.Sleep(time.Second)
			w.ledger.Edit(city, time.Now())
			b.Holders[0].Weight = 2
			w.put(b)
			if restart {
				w.stop()
				w.open(w.as)
				w.run()
			}
			if s := w.tick(); s.Complete != 2 {
				t.Errorf("after the edit (restart %t): %+v", restart, s)
			}
			if s := w.stats(a.ID); s.Failures != 0 || !s.IncompleteSince.IsZero() {
				t.Errorf("%+v", s)
			}
			broken = true
			w.tick()
			if s := w.tick(); s.Run != 0 {
				t.Errorf("what fails after the edit does not back off: %+v", s)
			}
			w.stop()
		})
	}
}
