package deliver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
)

// An outcome is the result of one turn of a subscription.
type outcome struct {
	gone     bool // the subscription is deleted
	called   bool // its callback was called
	ok       bool // the callback accepted the call
	slow     bool // the callback took long
	more     bool // there may be more to do at once
	failing  bool // hold is the time of the next attempt after a failure
	hold, at time.Time
}

// ErrUnsupported reports that a stored subscription asks for something that this
// version of the server does not know. The subscription is shown as failing.
var ErrUnsupported = errors.New("this version of the server cannot serve the subscription")

// maxEditsPerTurn is the number of edits after which others get their turn.
const maxEditsPerTurn = 100

// turn runs one turn of a subscription: edits, then at most one call. A probe does not wait
// for the time of the next attempt.
func (e *Engine) turn(ctx context.Context, x *subscriber, probe bool) outcome {
	if err := e.opts.Writable(); err != nil {
		return e.postpone(ctx, x, err)
	}
	for range maxEditsPerTurn {
		s, err := e.opts.Store.Subscription(x.id)
		if errors.Is(err, registry.ErrNotFound) {
			return outcome{gone: true}
		}
		var step Step
		if probe {
			s.NextTry = nil
		}
		if err == nil {
			step, err = e.next(ctx, &s)
		}
		switch {
		case errors.Is(err, ErrUnsupported):
			return e.unsupported(ctx, x, &s, err)
		case err == nil && step.Edit != nil:
			after, err := e.edit(x.id, existing(func(s *registry.Subscription) error { step.Edit(s); return nil }))
			if err == nil && after.GaveUp > s.GaveUp {
				e.count(nil, &s, &after)
			}
			if err == nil && after.State == registry.Ended || errors.Is(err, registry.ErrNotFound) {
				return outcome{gone: true}
			} else if err == nil {
				continue
			}
			return e.postpone(ctx, x, err)
		case err != nil:
			return e.postpone(ctx, x, err)
		case step.Call != nil:
			return e.deliver(ctx, x, &s, step.Call)
		}
		return outcome{hold: step.Hold, at: step.At, failing: s.NextTry != nil && step.Hold.Equal(*s.NextTry) && !s.Asked}
	}
	return outcome{more: true}
}

func (e *Engine) next(ctx context.Context, s *registry.Subscription) (Step, error) {
	way := e.opts.Targets[s.Way]
	if way == nil {
		return Step{}, fmt.Errorf("%w: it delivers by %q, which is unknown; run the version that stored it, or drop it", ErrUnsupported, s.Way)
	}
	return way.Next(ctx, s, e.opts.Now())
}

// unsupportedRetry is the pause between looks at an unsupported subscription.
const unsupportedRetry = time.Hour

// unsupported stores the reason why a subscription cannot be served as its failure.
func (e *Engine) unsupported(ctx context.Context, x *subscriber, s *registry.Subscription, reason error) outcome {
	now := e.opts.Now()
	switch {
	case s.State != registry.Active && s.State != registry.Pending:
		return outcome{}
	case BackingOff(s, now):
		return outcome{hold: *s.NextTry}
	}
	if s.Failures <= 0 {
		e.opts.Logger.Error("a subscription cannot be served", "subscription", s.ID, "error", reason)
	}
	after, err := e.edit(s.ID, existing(func(s *registry.Subscription) error {
		failed(s, Reply{Sent: now, At: now, Err: reason}, unsupportedRetry)
		return nil
	}))
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return outcome{gone: true}
	case err != nil:
		return e.postpone(ctx, x, err)
	}
	return outcome{hold: *after.NextTry}
}

// postpone logs an internal error and schedules another turn after a pause.
func (e *Engine) postpone(ctx context.Context, x *subscriber, err error) outcome {
	if ctx.Err() != nil || errors.Is(err, ErrStopped) {
		return outcome{}
	}
	pause := 5 * time.Second
	switch {
	case errors.Is(err, registry.ErrReadOnly): // the store logs this once
	case errors.Is(err, ErrBusy):
		pause = 250 * time.Millisecond
	default:
		e.opts.Logger.Error("a subscription could not be served", "subscription", x.id, "error", err)
	}
	return outcome{hold: e.opts.Now().Add(pause)}
}

// existing returns an edit that fails when the subscription is not stored.
func existing(do func(*registry.Subscription) error) func(*registry.Subscription, bool) error {
	return func(s *registry.Subscription, found bool) error {
		if !found {
			return fmt.Errorf("subscription: %w", registry.ErrNotFound)
		}
		return do(s)
	}
}

func (e *Engine) deliver(ctx context.Context, x *subscriber, was *registry.Subscription, c *Call) outcome {
	e.mu.Lock()
	host := x.host
	e.mu.Unlock()
	if !e.opts.Owns(host) { // another node may have taken over while the call was decided on
		if c.Release != nil {
			c.Release()
		}
		return outcome{hold: e.lapsed(host)}
	}
	r := c.Send(ctx, e.client).timed(e.opts.Now())
	if c.Release != nil {
		c.Release()
	}
	if r.Err != nil && ctx.Err() != nil {
		return outcome{} // the process ends; the message may have arrived and is sent again
	}
	e.stats.sent.Add(1)
	if r.OK() {
		e.stats.ok.Add(1)
	} else {
		e.stats.failed.Add(1)
		e.opts.Logger.Debug("a callback did not take it", "subscription", x.id, "host", x.host, "reason", r.Problem())
	}
	v := outcome{called: true, ok: r.OK(), slow: r.At.Sub(r.Sent) >= e.opts.Timing.Slow, more: !c.Last || !r.OK()}
	if r.OK() && c.Done == nil && was.Failures == 0 {
		return v // there is nothing to record
	}
	after, err := e.record(ctx, x.id, existing(func(s *registry.Subscription) error {
		if !c.Since.IsZero() {
			if !r.OK() && r.Settled == 0 && !sameTime(s.LastAttempt, was.LastAttempt) {
				return errLate
			}
			r.Verdict, r.Expired = e.opts.Schedule.judge(s, c, r), r.At.Add(-e.opts.Schedule.Patience)
			if r.Attempts = s.Attempts; r.Verdict == GiveUp {
				s.Attempts = 0
			}
		}
		if c.Done != nil {
			c.Done(s, r)
		} else if r.Verdict == Gone {
			Disable(s, GoneReason(r))
		}
		return nil
	}))
	if err == nil && !c.Asks {
		e.count(&r, was, &after)
	}
	switch {
	case errors.Is(err, registry.ErrNotFound):
		v.gone = true
	case errors.Is(err, errLate): // what is to be done now is decided again
	case err != nil:
		e.postpone(ctx, x, err)
		v.hold = e.opts.Now().Add(5 * time.Second)
	case after.State == registry.Ended:
		v.gone = true
	default:
		if after.NextTry != nil && after.Intent == nil {
			v.hold, v.failing = *after.NextTry, !r.OK() && !after.Asked
		}
		if after.ExpiresAt != nil {
			v.at = *after.ExpiresAt
		}
	}
	return v
}

// errLate is the error of an edit that would record a failure after another node has taken over and made an attempt.
var errLate = errors.New("another node has called the callback meanwhile")

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// count counts what an edit has changed, and the attempt that led to it, nil for none.
func (e *Engine) count(r *Reply, before, after *registry.Subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tally(tallied{way: before.Way}).count(r, before, after)
	if before.To != nil {
		e.tally(tallied{before.Way, before.To.Kind}).count(r, before, after)
	}
}

// record stores the reply to a call. While the store accepts no writes it retries, so
// that the callback is not called twice.
func (e *Engine) record(ctx context.Context, id string, do func(*registry.Subscription, bool) error) (registry.Subscription, error) {
	for {
		s, err := e.edit(id, do)
		if !errors.Is(err, registry.ErrReadOnly) {
			return s, err
		}
		t := time.NewTimer(time.Second)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return s, err
		}
	}
}
