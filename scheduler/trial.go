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
	now := t.clock.Now()
	t.mu.Lock()
	if t.account.over {
		t.mu.Unlock()
		return Answer{}, ErrStopped
	}
	if !t.loaded { // what the next slot owes is not known
		t.mu.Unlock()
		return Answer{}, fmt.Errorf("trial run at %s: %w", q.Endpoint, ErrStarting)
	}
	set := t.latest()
	if set.endpoint.Pause != nil {
		t.mu.Unlock()
		return Answer{}, ErrPaused
	}
	if end := set.blackouts.end(now); !end.IsZero() {
		t.mu.Unlock()
		return Answer{}, fmt.Errorf("trial run at %s: %w until %s", q.Endpoint, ErrBlackout, end.UTC().Format(time.RFC3339))
	}
	if h := t.executor.Health(); h.Until.After(now) {
		t.mu.Unlock()
		return refusedBy(h), nil
	}
	limit, timeout := t.account.left(t.planner.Unowed()), time.Duration(t.set.endpoint.Timeout)
	if !q.Beside {
		limit = t.account.leftForTrials(t.planner.Unowed())
	}
	limit = min(limit, timeout, most)
	x, name := t.executor, t.set.endpoint.Name
	var b Batch
	if limit > 0 {
		b = Batch{Space: t.space, Beside: t.account.lend(limit, time.Duration(t.set.endpoint.Budget))}
		t.running.Add(1)
		defer t.running.Done()
	}
	t.mu.Unlock()
	if limit <= 0 {
		return Answer{}, ErrCharged
	}
	a := Answer{}
	err := t.record(name, b)
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
