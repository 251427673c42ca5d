package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

// Between two slots, a loop executes queries that hints have marked at once. They belong to
// the slot that ended last, and are charged to the next one. So a slot, what follows it and
// the next slot together never exceed the bound, whatever hints come. None run while the
// endpoint owes a debt or may not be asked, or if it has no grid. Before the endpoint is
// asked, the ledger records how much may be used (OffGrid.Lent), which counts as used if the
// process is killed.

// offGridShare is the part of a budget that the ledger lends at a time, so that not
// every hint waits for a commit.
const offGridShare = 8

// offGridEnd returns when executions outside the grid have to end: at the next grid time
// or the next blackout. next is the grid time for which the loop waits.
func (s *settings) offGridEnd(now, next time.Time) time.Time {
	end := s.blackouts.next(s.schedule, now) // the settings may be newer than next
	for _, t := range []time.Time{next, s.blackouts.start(now)} {
		if !t.IsZero() && t.Before(end) {
			end = t
		}
	}
	return end
}

// offGridLimit is what executions outside the grid may use now, and when they have to
// end: the rest of the last slot's budget, if the next slot can be charged with it.
func (l *loopData) offGridLimit(now, next time.Time) (limit time.Duration, end time.Time) {
	last := &l.last
	switch {
	case next.IsZero(), l.set.endpoint.Pause != nil, l.account.over, restricted(l.executor.Health()),
		last.Finished.IsZero(), last.Number+1 != l.planner.Slot(), l.planner.Debt() > 0,
		!l.set.blackouts.end(now).IsZero():
		return 0, end
	}
	end = l.set.offGridEnd(now, next)
	left := exactly(last.Budget) - exactly(last.Repaid) - exactly(last.Used) - exactly(last.OffGrid.Used) - l.proofs.polled
	return min(left, l.account.left(l.planner.Unowed()), end.Sub(now)*time.Duration(l.set.endpoint.Concurrency)), end
}

// openOffGrid prepares executions outside the grid. It returns nil if none may run.
func openOffGrid(ctx context.Context, l *loopData, next time.Time) (*runner, error) {
	l.mu.LockPlan()
	defer l.mu.Unlock()
	l.apply()
	e, now := l.set.endpoint, l.clock.Now()
	if limit, _ := l.offGridLimit(now, next); limit <= 0 {
		return nil, nil
	}
	cost, all, ok := l.planner.OffGridCost(now)
	now = l.clock.Now()
	limit, end := l.offGridLimit(now, next) // a trial run may have begun meanwhile
	if !ok || limit <= 0 {
		return nil, nil
	}
	need := max(2*cost, time.Duration(e.Budget)/offGridShare)
	if all || need > limit {
		need = limit
	}
	enough := min(need, max(2*cost, plan.LeastGrant))
	if all {
		enough = need
	}
	a := &allowance{before: l.last.OffGrid, granted: min(exactly(l.last.OffGrid.Lent), limit)}
	lend := a.granted < enough
	if lend {
		a.granted = need
	}
	l.running = true
	l.account.reserved += a.granted
	if lend {
		if err := l.lendOffGrid(a); err != nil {
			l.running = false
			l.account.reserved -= a.granted
			return nil, err
		}
	}
	r := &runner{
		l: l, ctx: ctx, name: e.Name, executor: l.executor, policy: l.set.policy, gap: time.Duration(e.MinGap),
		health: l.health, results: make(chan response, e.Concurrency), slot: l.last, offGrid: a,
	}
	r.before = l.proofs.before(l, now)
	r.budget = l.planner.BeginOffGrid(now, end, plan.Terms{Width: e.Concurrency, Timeout: time.Duration(e.Timeout)}, a.granted)
	return r, nil
}

// lendOffGrid records what executions outside the grid may use, before they do.
func (l *loopData) lendOffGrid(a *allowance) error {
	s := l.last
	s.OffGrid.Lent = a.granted.Seconds()
	var err error
	l.mu.let(func() { _, err = l.ledger.Record(l.set.endpoint.Name, Batch{Space: l.space, Slot: &s}) })
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	l.last = s
	return nil
}

// runOffGrid executes, commits and puts the queries back into the order.
func (r *runner) runOffGrid() error {
	l := r.l
	err := r.execute()
	l.mu.Lock()
	l.planner.EndOffGrid(l.clock.Now())
	l.mu.Unlock()
	if err == nil && len(r.pending) > 0 {
		err = r.flush(false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.chargeUsed(r.offGrid.granted, r.budget.Totals().Used)
	err = r.finish(err)
	if err == nil {
		l.last = r.summary()
		l.state(l.clock.Now())
		g := l.last.OffGrid
		l.log.Debug("executions for hints", "slot", l.last.Number, "run", g.Run, "changed", g.Changed, "used", g.Used)
	}
	return err
}
