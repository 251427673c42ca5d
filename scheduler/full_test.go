package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A forgetful ledger no longer knows the removed queries: each answer is full and lists
// none of them.
type forgetful struct{ *schedulertest.Memory }

func (f forgetful) Since(endpoint string, rev uint64) (scheduler.News, error) {
	n, err := f.Memory.Since(endpoint, 0)
	n.Full, n.Removed = rev > 0, nil
	return n, err
}

// Queries that are missing from a full answer are removed.
func TestFullNewsDropsWhatIsMissing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ledger := forgetful{&schedulertest.Memory{}}
		stays, goes := schedulertest.Query("alpha", "a"), schedulertest.Query("alpha", "b")
		if err := ledger.Register(stays); err != nil {
			t.Fatal(err)
		}
		if err := ledger.Register(goes); err != nil {
			t.Fatal(err)
		}
		s := &service{reply: same(t, time.Second)}
		l, err := scheduler.NewLoop(scheduler.Config{Endpoint: named("alpha"), Ledger: ledger, Executor: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		until(5 * time.Second)
		if err := ledger.Remove(goes.ID); err != nil {
			t.Fatal(err)
		}
		until(35 * time.Second)
		if a, b := s.ran(stays.ID), s.ran(goes.ID); a != 4 || b != 1 {
			t.Errorf("executions: %d of the one that stays, %d of the one that went; want 4 and 1", a, b)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
