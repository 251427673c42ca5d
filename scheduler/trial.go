package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
)

// Charge makes the next slots pay d, each at most a whole budget after its repayment of
// a debt.
func (l *Loop) Charge(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charge += max(0, d)
}

// Trial executes a query once, within the endpoint's limits. It stores nothing except
// the endpoint's back-off. It waits until the limiter grants it a place. The next
// slot's budget pays for it. The error wraps ErrCharged if that budget is used up,
// ErrPaused if the endpoint is paused, ErrBlackout in a blackout and ErrStopped if the
// loop ends. Any other error is the ledger's.
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
	limit := l.planner.Unowed() - l.charge - l.reserved
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
	l.reserved -= limit
	l.charge += min(a.Elapsed, limit)
	l.ended = l.clock.Now()
	over := l.over
	l.mu.Unlock()
	if err := l.recordHealth(false); err != nil && !errors.Is(err, registry.ErrReadOnly) {
		return a, err
	}
	if over && a.Outcome == registry.Cut {
		return Answer{}, ErrStopped
	}
	return a, nil
}

// executeTrial executes a query for at most limit. It ends early if the loop ends.
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

// stopTrials prevents further trial runs and cuts the running ones.
func (l *Loop) stopTrials() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	close(l.finished)
	l.trials.Wait()
}
