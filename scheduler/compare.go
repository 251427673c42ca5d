package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// errOver ends the processing of an answer when its time is over.
var errOver = errors.New("the time is over")

// A comparer compares answers with the last results. It is part of an execution, and
// needs no lock.
type comparer struct {
	ledger Ledger
	clock  Clock
}

// work begins work on an answer that took elapsed. spent is how long it has taken, and stop reports errOver when
// its time is over.
func (c *comparer) work(ctx context.Context, elapsed, limit time.Duration) (spent func() time.Duration, stop func() error) {
	start := c.clock.Now()
	spent = func() time.Duration { return max(0, c.clock.Now().Sub(start)) }
	return spent, func() error {
		// An answer that arrives exactly when the budget ends is complete. Only the
		// time that this work takes can make it late.
		if took := spent(); took > 0 && (ctx.Err() != nil || elapsed+took > limit) {
			return errOver
		}
		return nil
	}
}

// compare compares a complete answer with the last result and prepares what the
// ledger will write. Both are part of the execution: they end at its limit, and the
// budget pays for them. An answer that is not ready in time is cut.
func (c *comparer) compare(ctx context.Context, query string, was policy.Stats, a Answer, limit time.Duration) (Answer, *difference) {
	if !a.Outcome.Complete() || a.Result == nil || a.Elapsed > limit {
		return a, nil
	}
	spent, stop := c.work(ctx, a.Elapsed, limit)
	d := &difference{}
	d.delta, d.err = step(stop, was, a.Result, func() (*diff.Result, error) { return c.ledger.Result(query) })
	if d.delta != nil {
		d.prepared, d.err = c.ledger.Prepare(stop, a.Result, d.delta)
	}
	a.Elapsed += spent()
	if errors.Is(d.err, errOver) {
		return Answer{Outcome: registry.Cut, Elapsed: a.Elapsed, Error: "the time given for it ended before its answer was " +
			"compared and ready to be recorded"}, nil
	}
	if errors.Is(d.err, ErrTooLarge) {
		return Answer{Outcome: registry.Failed, Elapsed: a.Elapsed, Error: d.err.Error()}, nil
	}
	return a, d
}
