package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
)

// Charge makes the next slots pay d: at most a whole budget each, after what
// they repay of a debt.
func (l *Loop) Charge(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charge += max(0, d)
}

// Trial executes a query once, inside the endpoint's limits, and stores
// nothing but for how long the endpoint is to be left alone. It waits for a
// place among the endpoint's executions. What it takes is charged to the next
// slot's budget; when that has nothing left the error wraps ErrCharged, on a
// paused endpoint ErrPaused, in a blackout time ErrBlackout, and when the loop
// ends ErrStopped. Any other is the ledger's.
func (l *Loop) Trial(ctx context.Context, q *registry.Query) (Answer, error) {
	if err := l.limiter.acquire(ctx); err != nil {
		return Answer{}, err
	}
	defer l.limiter.release()
	now := l.clock.Now()
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return Answer{}, ErrStopped
	}
	if l.set.endpoint.Pause != nil {
		l.mu.Unlock()
		return Answer{}, ErrPaused
	}
	if end := l.set.blackouts.end(now); !end.IsZero() {
		l.mu.Unlock()
		return Answer{}, fmt.Errorf("trial run at %s: %w until %s", q.Endpoint, ErrBlackout, end.UTC().Format(time.RFC3339))
	}
	if h := l.executor.Health(); h.Until.After(now) {
		l.mu.Unlock()
		return refusedBy(h), nil
	}
	budget := time.Duration(l.set.endpoint.Budget)
	limit := budget - repayment(l.planner.debt, budget) - l.charge - l.reserved
	limit = min(limit, time.Duration(l.set.endpoint.Timeout))
	x := l.executor
	if limit > 0 {
		l.reserved += limit
		l.trials.Add(1)
		defer l.trials.Done()
	}
	l.mu.Unlock()
	if limit <= 0 {
		return Answer{}, ErrCharged
	}
	a := l.executeTrial(ctx, x, q, limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved -= limit
	l.charge += min(a.Elapsed, limit)
	l.ended = l.clock.Now()
	if h := l.currentHealth(); urgent(h, l.health) { // not x's, which may have been another server's
		if err := l.recordHealth(h); err != nil && !errors.Is(err, registry.ErrReadOnly) {
			return a, err
		}
	}
	if l.over && a.Outcome == registry.Cut {
		return Answer{}, ErrStopped
	}
	return a, nil
}

// recordHealth records the endpoint's health. It is called with the lock held.
func (l *Loop) recordHealth(h registry.Health) error {
	name := l.set.endpoint.Name
	if _, err := l.ledger.Record(name, Batch{Health: &h}); err != nil {
		return fmt.Errorf("record the health of endpoint %s: %w", name, err)
	}
	l.health = h
	return nil
}

// executeTrial executes a query for at most limit, and no longer than the loop runs.
func (l *Loop) executeTrial(ctx context.Context, x Executor, q *registry.Query, limit time.Duration) Answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-l.finished:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-watched
	}()
	return x.Execute(ctx, q, Memory{}, limit)
}

// stopTrials keeps trial runs from beginning, and cuts those under way.
func (l *Loop) stopTrials() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	close(l.finished)
	l.trials.Wait()
}

// refusedBy is the answer to a trial run that the endpoint's health forbids.
func refusedBy(h registry.Health) Answer {
	a := Answer{Outcome: registry.Failed, Error: healthReason(h)}
	if h.State == registry.HealthThrottled {
		a.Outcome = registry.Throttled
	}
	return a
}

// healthReason says why an endpoint is not asked.
func healthReason(h registry.Health) string {
	s := "the endpoint fails, the next try is at "
	if h.State == registry.HealthThrottled {
		s = "the endpoint asked us to wait until "
	}
	s += h.Until.UTC().Format(time.RFC3339)
	if h.Error != "" {
		s += ": " + h.Error
	}
	return s
}
