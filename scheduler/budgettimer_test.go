package scheduler_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A slow ledger takes time to record, to return results and to prepare them.
type slow struct {
	full bool // no result fits
	*schedulertest.Memory
	record, result, prepare time.Duration
	preparing               chan struct{} // closed when it first begins to prepare, unless nil
	begun                   sync.Once
	prepared                atomic.Int64 // results prepared to the end
}

// Prepare sleeps in 100 pieces.
func (s *slow) Prepare(stop func() error, r *diff.Result, d *diff.Delta) (scheduler.Prepared, error) {
	if s.preparing != nil {
		s.begun.Do(func() { close(s.preparing) })
	}
	for range 100 {
		time.Sleep(s.prepare / 100)
		if err := stop(); err != nil {
			return nil, err
		}
	}
	if s.full {
		return nil, fmt.Errorf("%w: it has no room", scheduler.ErrTooLarge)
	}
	s.prepared.Add(1)
	return s.Memory.Prepare(stop, r, d)
}

func (s *slow) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	time.Sleep(s.record)
	return s.Memory.Record(endpoint, b)
}

func (s *slow) Result(id string) (*diff.Result, error) {
	time.Sleep(s.result)
	return s.Memory.Result(id)
}

// TestBoundWhileCommitting: the budget holds while the loop waits for the ledger, and
// an execution that ends meanwhile is charged only for its own time.
func TestBoundWhileCommitting(t *testing.T) {
	for _, c := range []struct {
		name   string
		record time.Duration
		hangs  time.Duration // what the others take
		cut    int
	}{
		{"recording, others hang", 600 * time.Millisecond, time.Hour, 3},
		{"recording, others end", 600 * time.Millisecond, 250 * time.Millisecond, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				const budget = time.Second
				e := endpoint("never", budget, "rr")
				e.Concurrency = 4
				ledger := &slow{Memory: &schedulertest.Memory{}}
				first, second := schedulertest.Rows(t, "first"), schedulertest.Rows(t, "second")
				baseline := true
				w := newWorld(t, e, func(q *registry.Query, n int) reply {
					switch {
					case baseline:
						return reply{time.Millisecond, registry.Changed, first}
					case q.ID == "q_a":
						return reply{100 * time.Millisecond, registry.Changed, second}
					}
					return reply{c.hangs, registry.Changed, first}
				})
				w.ledger = ledger.Memory
				var err error
				w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: ledger, Executor: w.service})
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []string{"a", "b", "c", "d"} {
					w.register(n)
				}
				w.run()
				w.tick()
				baseline = false
				ledger.record = c.record
				s := w.tick()
				w.stop()
				if s.Run != 4 || s.Cut != c.cut {
					t.Errorf("the slot: %+v; want 4 executions, %d cut", s, c.cut)
				}
				checkBound(t, w, budget, 4)
			})
		})
	}
}
