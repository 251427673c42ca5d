package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// Run runs slots on the grid and on request until ctx is cancelled. Then it cuts
// the running executions, trial runs included, records what completed and returns
// nil. No slot runs while the ledger is read-only. Run returns any other error of
// the ledger; the process must then end. Run is called once.
func (l *Loop) Run(ctx context.Context) error {
	defer l.stopTrials()
	if err := l.news(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := l.step(ctx)
		if errors.Is(err, registry.ErrReadOnly) {
			err = l.forget(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget recovers from a batch that was not recorded. The planner's state is wrong
// then, so the loop reloads everything from the ledger, as after a restart.
func (l *Loop) forget(why error) error {
	l.log.Warn("a slot was not recorded: its queries run again", "error", why)
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	l.apply()
	l.blank()
	l.halted = why
	return l.merge(now)
}

// halt returns why no slot may begin, and stores it for State.
func (l *Loop) halt() error {
	err := l.writable()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = err
	return err
}

// step waits for the next event and handles it.
func (l *Loop) step(ctx context.Context) error {
	next := l.schedule()
	until, expire := l.wakeTime(next)
	arrived, stop := l.await(ctx, until)
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-l.reconf:
		return nil
	case <-arrived:
		now := l.clock.Now()
		if early := until.Sub(now); early > 0 && early <= plan.TimerSlack {
			// The timer fired slightly early. A new search could skip this grid
			// time.
			_ = l.clock.Sleep(ctx, until)
			now = l.clock.Now()
		}
		if ctx.Err() != nil || now.Before(until) {
			return nil
		}
		if expire {
			if l.halt() != nil {
				return nil
			}
			return l.expireRounds()
		}
		return l.gridSlot(ctx, next, now)
	case <-l.hinted:
		stop()
		return l.followHints(ctx, next)
	case t := <-l.ticks:
		stop()
		if err := l.refuse(); err != nil {
			t.done <- ticked{err: err}
			return nil
		}
		s, err := l.slot(ctx, true)
		if err == nil && s.Finished.IsZero() {
			t.done <- ticked{err: ErrStopped}
			return nil
		}
		t.done <- ticked{s, err}
		return err
	}
}

// gridSlot runs the slot of a grid time that has come, unless no slot may begin.
func (l *Loop) gridSlot(ctx context.Context, at, now time.Time) error {
	halted := l.halt() != nil
	l.mu.Lock()
	l.grid, l.followed = at, time.Time{}
	missed := now.Sub(at) > plan.ClockCheck || !l.set.blackouts.end(now).IsZero()
	l.mu.Unlock()
	if missed || halted { // the machine was suspended, or the clock was set
		return nil
	}
	_, err := l.slot(ctx, false)
	return err
}

// schedule finds the next grid time by the settings in force, which may have
// changed while the plan was incomplete. It skips grid times that have passed, except
// while the loop followed hints.
func (l *Loop) schedule() time.Time {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	l.apply()
	l.next = time.Time{}
	if l.set.endpoint.Pause != nil {
		l.followed = time.Time{}
		return l.next
	}
	after := now.Add(-1) // a grid time equal to now has not passed
	if !l.followed.IsZero() && l.followed.Before(after) {
		after = l.followed
	}
	// A timer that fires slightly early still means its grid time. If other grid
	// times lie in between, the clock was set back.
	if l.grid.After(after) && !l.set.schedule.Next(after).Before(l.grid) {
		after = l.grid
	}
	l.next = l.set.blackouts.next(l.set.schedule, after)
	if l.next.IsZero() || l.next.After(now) {
		l.followed = time.Time{}
	}
	if l.next.IsZero() && !l.set.schedule.Next(after).IsZero() {
		l.log.Warn("no slot for a thousand grid times: the blackout times cover them")
	}
	return l.next
}

// await waits for a time in the background, at most for plan.ClockCheck. stop ends the
// wait and may be called twice. A zero time never arrives.
func (l *Loop) await(ctx context.Context, until time.Time) (arrived chan struct{}, stop func()) {
	if until.IsZero() {
		return nil, func() {}
	}
	if soon := l.clock.Now().Add(plan.ClockCheck); soon.Before(until) {
		until = soon
	}
	ctx, cancel := context.WithCancel(ctx)
	arrived, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		if l.clock.Sleep(ctx, until) == nil {
			close(arrived)
		}
	}()
	return arrived, func() {
		cancel()
		<-over
	}
}

// refuse returns why no slot may run now, nil if one may.
func (l *Loop) refuse() error {
	if err := l.halt(); err != nil {
		return fmt.Errorf("tick: %w", err)
	}
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.set.endpoint.Pause; p != nil {
		return fmt.Errorf("tick %s: %w since %s by %s", l.set.endpoint.Name, ErrPaused, p.At.UTC().Format(time.RFC3339), p.By)
	}
	if end := l.set.blackouts.end(now); !end.IsZero() {
		return fmt.Errorf("tick %s: %w until %s", l.set.endpoint.Name, ErrBlackout, end.UTC().Format(time.RFC3339))
	}
	return nil
}

// Tick runs a slot now, after those requested before, and returns its summary when
// everything in it is committed. It waits until Run has begun. If ctx ends first,
// the slot still runs to its end. The error wraps ErrPaused or ErrBlackout if no
// slot may run, and ErrStopped if Run returned or was cancelled before anything in
// the slot ran.
func (l *Loop) Tick(ctx context.Context) (Slot, error) {
	t := tick{done: make(chan ticked, 1)}
	select {
	case l.ticks <- t:
	case <-l.finished:
		return Slot{}, ErrStopped
	case <-ctx.Done():
		return Slot{}, ctx.Err()
	}
	select {
	case r := <-t.done:
		return r.slot, r.err
	case <-ctx.Done():
		return Slot{}, ctx.Err()
	}
}

// news merges the ledger's news into the plan.
func (l *Loop) news() error {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	err := l.merge(now)
	l.state(now)
	return err
}
