package scheduler_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// While the ledger is read-only, no slot runs and nothing is announced that was not
// recorded. Afterwards the loop continues from the recorded state.
func TestReadOnlyLedger(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		full := fmt.Errorf("%w: the disk is full", registry.ErrReadOnly)
		var halted atomic.Bool
		writable := func() error {
			if halted.Load() {
				return full
			}
			return nil
		}
		w := &world{t: t, as: endpoint("@every 10s", 10*time.Second, "rr"), ledger: &schedulertest.Memory{}}
		w.service = &service{reply: func(_ *registry.Query, n int) reply {
			return reply{time.Second, registry.Changed, schedulertest.Rows(t, fmt.Sprint("answer ", n))}
		}}
		var announced atomic.Int64
		var err error
		w.loop, err = scheduler.NewLoop(scheduler.Config{
			Endpoint: w.as, Ledger: w.ledger, Executor: w.service, Writable: writable,
			Wake: func(notes []scheduler.Note) {
				for _, n := range notes {
					if n.Changed {
						announced.Add(1)
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		q := w.register("a")
		w.run()
		until(5 * time.Second) // the slot at 0 s
		ran, seq := w.service.ran(q.ID), w.stats(q.ID).Position.Seq
		if ran != 1 || seq != 1 || announced.Load() != 1 {
			t.Fatalf("before: ran %d, at change %d, announced %d", ran, seq, announced.Load())
		}

		w.ledger.Break(full) // found by the slot at 10 s
		until(12 * time.Second)
		halted.Store(true)
		until(75 * time.Second)
		if n := w.service.ran(q.ID); n != 2 {
			t.Errorf("executed %d times in all, want 2: no slot begins while nothing can be recorded", n)
		}
		if w.stats(q.ID).Position.Seq != 1 || announced.Load() != 1 {
			t.Errorf("at change %d, announced %d", w.stats(q.ID).Position.Seq, announced.Load())
		}
		st := w.loop.State()
		if st.Halted == "" || st.Queries != 1 || !st.Next.IsZero() {
			t.Errorf("the state is %+v", st)
		}
		if due, err := w.loop.Due([]string{q.ID}); err != nil || !due[0].IsZero() {
			t.Errorf("it is due at %s although no slot begins, %v", due[0], err)
		}
		if x, err := w.loop.Explain(q.ID); err != nil || x.Eligible || x.Code != scheduler.CodeClosed || !x.NextDue.IsZero() ||
			!strings.HasPrefix(x.Why, st.Halted+"; ") {
			t.Errorf("%+v, %v", x, err)
		}
		if _, err := w.loop.Tick(t.Context()); !errors.Is(err, registry.ErrReadOnly) {
			t.Errorf("a tick meanwhile: %v", err)
		}

		w.ledger.Break(nil)
		halted.Store(false)
		until(85 * time.Second)
		synctest.Wait()
		if due, err := w.loop.Due([]string{q.ID}); err != nil || due[0].IsZero() || w.loop.State().Next.IsZero() {
			t.Errorf("afterwards it is due at %s, %v, %+v", due[0], err, w.loop.State())
		}
		if w.stats(q.ID).Position.Seq != 2 || announced.Load() != 2 || w.loop.State().Halted != "" {
			t.Errorf("afterwards: at change %d, announced %d, %+v", w.stats(q.ID).Position.Seq, announced.Load(), w.loop.State())
		}
		for i, s := range w.slots() {
			if i > 0 && s.Number != w.slots()[i-1].Number+1 {
				t.Errorf("slot %d follows slot %d", s.Number, w.slots()[i-1].Number)
			}
		}
		w.stop()
	})
}

// A partial ledger, while it breaks, records a batch and returns an error, as one that records it in parts does.
type partial struct {
	*schedulertest.Memory
	breaks atomic.Bool
}

func (p *partial) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	changes, err := p.Memory.Record(endpoint, b)
	if p.breaks.Load() {
		return changes, errors.Join(err, errors.New("the rest of the batch is not recorded"))
	}
	return changes, err
}

// What was recorded of a batch is announced, though Record returned an error.
func TestRecordedInPart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := &partial{Memory: &schedulertest.Memory{}}
		w := &world{t: t, as: endpoint("@every 10s", 10*time.Second, "rr"), ledger: ledger.Memory}
		w.service = &service{reply: func(_ *registry.Query, n int) reply {
			return reply{time.Second, registry.Changed, schedulertest.Rows(t, fmt.Sprint("answer ", n))}
		}}
		var found atomic.Uint64 // the last change that a follower finds who is woken
		q := w.register("a")
		var err error
		w.loop, err = scheduler.NewLoop(scheduler.Config{
			Endpoint: w.as, Ledger: ledger, Executor: w.service,
			Wake: func(notes []scheduler.Note) {
				for _, n := range notes {
					if n.Changed {
						found.Store(w.stats(n.Query).Position.Seq)
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.run()
		until(5 * time.Second) // the slot at 0 s
		ledger.breaks.Store(true)
		until(15 * time.Second)
		ledger.breaks.Store(false)
		if seq := w.stats(q.ID).Position.Seq; seq != 2 || found.Load() != seq {
			t.Errorf("change %d is recorded, and followers were woken for change %d", seq, found.Load())
		}
		w.stop()
	})
}
