package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
)

// trials executes queries once, beside slots and within the same limits.
type trials struct {
	*loopData
	running sync.WaitGroup
}

// run is Loop.Trial.
func (t *trials) run(ctx context.Context, q *registry.Query) (Answer, error) {
	isUp(t.loopData) // else it is refused
	if err := t.limiter.acquire(ctx); err != nil {
		return Answer{}, err
	}
	return t.runWithin(ctx, q, math.MaxInt64)
}

// runWithin is run for at most a time, in a place of the limiter that the caller has acquired and runWithin releases.
func (t *trials) runWithin(ctx context.Context, q *registry.Query, most time.Duration) (Answer, error) {
	defer t.limiter.release()
	t.mu.Lock()
	limit, a, err := t.admit(q, most)
	for limit > 0 && err == nil {
		wait := t.account.gapEnd(time.Duration(t.set.endpoint.MinGap)).Sub(t.clock.Now())
		if wait <= 0 {
			break
		}
		t.mu.Unlock()
		err = t.sleep(ctx, wait)
		if t.mu.Lock(); err == nil {
			limit, a, err = t.admit(q, most)
		}
	}
	if limit <= 0 || err != nil {
		t.mu.Unlock()
		return a, err
	}
	timeout := time.Duration(t.set.endpoint.Timeout)
	x, name := t.executor, t.set.endpoint.Name
	b := Batch{Space: t.space, Beside: t.account.lend(limit, time.Duration(t.set.endpoint.Budget))}
	t.running.Add(1)
	defer t.running.Done()
	t.mu.Unlock()
	err = t.record(name, b)
	if err == nil {
		a = t.execute(ctx, x, q, limit)
	}
	t.mu.Lock()
	t.account.used(limit, min(a.Elapsed, limit))
	if err != nil {
		t.account.lent = 0 // the next one tries again
		t.mu.Unlock()
		return a, err
	}
	if a.Elapsed > 0 { // else nothing was sent
		t.account.executed(t.clock.Now())
	}
	over := t.account.over
	t.mu.Unlock()
	err = recordHealth(t.loopData, false)
	if errors.Is(err, ErrFenced) {
		return Answer{}, ErrStopped
	}
	if err != nil && !errors.Is(err, registry.ErrReadOnly) {
		return a, err
	}
	if over && a.Outcome == registry.Cut {
		return Answer{}, ErrStopped
	}
	if a.Outcome == registry.Cut && limit < timeout && a.Elapsed >= limit {
		a.Error = fmt.Sprintf("no complete answer in %s, which is what was left for trial runs in half of the next slot's budget: "+
			"try again after that slot, or raise budget", limit.Round(time.Millisecond))
	}
	return a, nil
}

// admit returns what a trial run may use now. If that is nothing, the answer or the error says why. The caller holds the lock.
func (t *trials) admit(q *registry.Query, most time.Duration) (limit time.Duration, a Answer, err error) {
	now, set := t.clock.Now(), t.latest()
	switch {
	case t.account.over:
		return 0, a, ErrStopped
	case !t.loaded: // what the next slot owes is not known
		return 0, a, fmt.Errorf("trial run at %s: %w", q.Endpoint, ErrStarting)
	case set.endpoint.Pause != nil:
		return 0, a, ErrPaused
	}
	if end := set.blackouts.end(now); !end.IsZero() {
		return 0, a, fmt.Errorf("trial run at %s: %w until %s", q.Endpoint, ErrBlackout, end.UTC().Format(time.RFC3339))
	}
	if h := t.executor.Health(); h.Until.After(now) {
		return 0, refusedBy(h), nil
	}
	if limit = t.account.left(t.planner.Unowed()); !q.Beside {
		limit = t.account.leftForTrials(t.planner.Unowed())
	}
	if limit = min(limit, time.Duration(t.set.endpoint.Timeout), most); limit <= 0 {
		return 0, a, ErrCharged
	}
	return limit, a, nil
}

// sleep waits for the gap. A trial run has its place meanwhile, as a query of a slot has, so that they take turns.
func (t *trials) sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.finished:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// execute executes a query for at most limit, in which no wait for the gap counts. It ends early if the loop ends.
func (t *trials) execute(ctx context.Context, x Executor, q *registry.Query, limit time.Duration) Answer {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-t.finished:
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

// record records what is lent, if anything. A store that takes no writes for now knows nothing of it.
func (t *trials) record(endpoint string, b Batch) error {
	if b.Beside == nil {
		return nil
	}
	_, err := t.ledger.Record(endpoint, b)
	switch {
	case errors.Is(err, ErrFenced):
		return ErrStopped
	case err != nil && !errors.Is(err, registry.ErrReadOnly):
		return fmt.Errorf("record a trial run at %s: %w", endpoint, err)
	}
	return nil
}

// stop prevents further trial runs and cuts the running ones.
func (t *trials) stop() {
	t.mu.Lock()
	t.account.over = true
	t.mu.Unlock()
	close(t.finished)
	t.running.Wait()
	t.mu.Lock()
	b, name := Batch{Space: t.space, Beside: t.account.rest()}, t.set.endpoint.Name
	t.mu.Unlock()
	if err := t.record(name, b); err != nil {
		t.log.Debug("what trial runs used was not recorded", "error", err)
	}
}
