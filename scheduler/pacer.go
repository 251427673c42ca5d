package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// A pacer decides what its loop does next: a slot on the grid or on request, executions
// for hints between two slots, or the end of rounds of profiles. It does one at a time.
type pacer struct {
	*loopData
	poller *trials // asks for positions between slots
	ticks  chan tick
	hinted chan struct{} // hints or events have marked queries
	fresh  chan struct{} // queries were registered that shall run soon
	reconf chan struct{} // settings changed: recompute the next grid time

	// The goroutine that runs slots uses these alone.
	grid     time.Time // last grid time whose slot was run or skipped
	followed time.Time // when hints were last followed; a grid time since then is not skipped
	halted   error     // why no slot begins, nil if slots do
}

type tick struct{ done chan ticked }

type ticked struct {
	slot Slot
	err  error
}

func newPacer(l *loopData, t *trials) *pacer {
	return &pacer{loopData: l, poller: t, ticks: make(chan tick), hinted: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
		reconf: make(chan struct{}, 1)}
}

// run does what comes next until ctx is cancelled. It returns an error of the ledger that is
// ErrFenced or registry.ErrUnusable.
func (p *pacer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.step(ctx)
		if err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, registry.ErrUnusable) {
			err = p.forget(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reconsider makes the pacer compute the next grid time by the latest settings.
func (p *pacer) reconsider() { signal(p.reconf) }

// followHint makes the pacer execute marked queries soon.
func (p *pacer) followHint() { signal(p.hinted) }

// followNew makes the pacer execute new queries soon.
func (p *pacer) followNew() { signal(p.fresh) }

// signal sends unless the channel is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// forget recovers from a batch that was not recorded. The planner's state is wrong
// then, so the loop reloads everything from the ledger, as after a restart.
func (p *pacer) forget(why error) error {
	p.log.Warn("a slot was not recorded: its queries run again", "error", why)
	now := p.clock.Now()
	p.mu.LockPlan()
	defer p.mu.Unlock()
	p.apply()
	p.blank()
	p.halted = why
	if !errors.Is(why, registry.ErrReadOnly) {
		p.unrecorded = "the last slot was not recorded, so its queries run again: " + why.Error()
	}
	return p.update(now)
}

// halt returns why no slot may begin.
func (p *pacer) halt() error {
	p.halted = p.writable()
	return p.halted
}

// step waits for the next event and handles it.
func (p *pacer) step(ctx context.Context) error {
	next := p.schedule()
	until, expire := p.wakeTime(next)
	armed := p.armedTime(until)
	if !armed.IsZero() {
		until, expire = armed, false
	}
	arrived, stop := p.await(ctx, until)
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-p.reconf:
		return nil
	case <-arrived:
		now := p.clock.Now()
		if early := until.Sub(now); early > 0 && early <= plan.TimerSlack {
			// The timer fired slightly early. A new search could skip this grid
			// time.
			_ = p.clock.Sleep(ctx, until)
			now = p.clock.Now()
		}
		if ctx.Err() != nil || now.Before(until) {
			return nil
		}
		if !armed.IsZero() {
			return p.followHints(ctx, next)
		}
		if expire {
			if p.halt() != nil {
				return nil
			}
			return p.expireRounds()
		}
		return p.gridSlot(ctx, next, now)
	case <-p.hinted:
		stop()
		return p.followHints(ctx, next)
	case <-p.fresh:
		stop()
		return p.runNew(ctx, next)
	case t := <-p.ticks:
		stop()
		if err := p.refuse(); err != nil {
			t.done <- ticked{err: err}
			return nil
		}
		s, err := runSlot(ctx, p.loopData, true, false)
		if err == nil && s.Finished.IsZero() {
			t.done <- ticked{err: ErrStopped}
			return nil
		}
		t.done <- ticked{s, err}
		return err
	}
}

// gridSlot runs the slot of a grid time that has come, unless no slot may begin.
func (p *pacer) gridSlot(ctx context.Context, at, now time.Time) error {
	halted := p.halt() != nil
	p.grid, p.followed = at, time.Time{}
	p.mu.Lock()
	missed := now.Sub(at) > plan.ClockCheck || !p.set.blackouts.end(now).IsZero()
	p.mu.Unlock()
	if missed || halted { // the machine was suspended, or the clock was set
		return nil
	}
	_, err := runSlot(ctx, p.loopData, false, false)
	return err
}

// schedule finds the next grid time by the settings in force, which may have
// changed while the plan was incomplete. It skips grid times that have passed, except
// while the loop followed hints.
func (p *pacer) schedule() time.Time {
	now := p.clock.Now()
	p.mu.LockPlan()
	defer p.mu.Unlock()
	p.apply()
	p.next = time.Time{}
	if p.set.endpoint.Pause != nil {
		p.followed = time.Time{}
		return p.next
	}
	after := now.Add(-1) // a grid time equal to now has not passed
	if !p.followed.IsZero() && p.followed.Before(after) {
		after = p.followed
	}
	// A timer that fires slightly early still means its grid time. If other grid
	// times lie in between, the clock was set back.
	if p.grid.After(after) && !p.set.schedule.Next(after).Before(p.grid) {
		after = p.grid
	}
	p.next = p.set.blackouts.next(p.set.schedule, after)
	if p.next.IsZero() || p.next.After(now) {
		p.followed = time.Time{}
	}
	if p.next.IsZero() && !p.set.schedule.Next(after).IsZero() {
		p.log.Warn("no slot for a thousand grid times: the blackout times cover them")
	}
	return p.next
}

// await waits for a time in the background, at most for plan.ClockCheck. stop ends the
// wait and may be called twice. A zero time never arrives.
func (p *pacer) await(ctx context.Context, until time.Time) (arrived chan struct{}, stop func()) {
	if until.IsZero() {
		return nil, func() {}
	}
	if soon := p.clock.Now().Add(plan.ClockCheck); soon.Before(until) {
		until = soon
	}
	ctx, cancel := context.WithCancel(ctx)
	arrived, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		if p.clock.Sleep(ctx, until) == nil {
			close(arrived)
		}
	}()
	return arrived, func() {
		cancel()
		<-over
	}
}

// refuse returns why no slot may run now, nil if one may.
func (p *pacer) refuse() error {
	if err := p.halt(); err != nil {
		return fmt.Errorf("tick: %w", err)
	}
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.set.endpoint.Pause; q != nil {
		return fmt.Errorf("tick %s: %w since %s by %s", p.set.endpoint.Name, ErrPaused, q.At.UTC().Format(time.RFC3339), q.By)
	}
	if end := p.set.blackouts.end(now); !end.IsZero() {
		return fmt.Errorf("tick %s: %w until %s", p.set.endpoint.Name, ErrBlackout, end.UTC().Format(time.RFC3339))
	}
	return nil
}

// followHints executes marked queries before the next grid time. If that time comes
// meanwhile, schedule returns it, unless the settings have changed.
func (p *pacer) followHints(ctx context.Context, next time.Time) error {
	if p.halt() != nil {
		return nil
	}
	now := p.clock.Now()
	if !next.IsZero() && !now.Before(next) {
		return p.gridSlot(ctx, next, now)
	}
	p.followed = now
	if err := p.followFeed(ctx, next); err != nil {
		return err
	}
	r, err := openOffGrid(ctx, p.loopData, next)
	if r == nil || err != nil {
		return err
	}
	if err := r.runOffGrid(); err != nil {
		return fmt.Errorf("executions for hints at endpoint %s: %w", r.name, err)
	}
	return nil
}

// runNew executes queries that have never run, before the next grid time: in what the last
// slot has left of its budget or, if there was none, in the first slot, for which the next
// one pays.
func (p *pacer) runNew(ctx context.Context, next time.Time) error {
	now := p.clock.Now()
	p.mu.LockPlan()
	err := p.update(now)
	p.planner.HintNew()
	first := p.last.Number == 0 && !next.IsZero() && p.unrecorded == "" // else each new query would begin it again
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if !first || p.refuse() != nil {
		return p.followHints(ctx, next)
	}
	s, err := runSlot(ctx, p.loopData, true, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account.charge += exactly(s.Used)
	return err
}

// Slots expire the rounds that are over. If no slot comes for long (the endpoint is
// paused, in a blackout, or its slots run on request), the loop expires them itself,
// expiryPause after the first one so that many are recorded together, unless a slot
// comes within expiryWait of that.
const (
	expiryPause = time.Second
	expiryWait  = time.Minute
	expiryRetry = 10 * time.Second // while the ledger is read-only
)

// wakeTime returns when the loop must act next: at the next slot (zero if there is
// none) or, if expire is set, earlier to expire rounds without a slot.
func (p *pacer) wakeTime(next time.Time) (until time.Time, expire bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.planner.Rounds().NextExpiry()
	if at.IsZero() {
		return next, false
	}
	now := p.clock.Now()
	at = shown(at, now).Add(expiryPause)
	if soon := now.Add(expiryRetry); p.halted != nil && at.Before(soon) {
		at = soon
	}
	if !next.IsZero() && next.Before(at.Add(expiryWait)) {
		return next, false
	}
	return at, true
}

// expireRounds expires the rounds that are over and notifies their followers. The plan
// counts as incomplete until that is committed, because a reader of the ledger would
// still see the rounds open.
func (p *pacer) expireRounds() error {
	now := p.clock.Now()
	p.mu.LockPlan()
	p.planner.Rounds().Expire(now, p.planner.Slot())
	u := p.planner.Rounds().Drain()
	name := p.set.endpoint.Name
	var err error
	if len(u.Rounds) > 0 {
		p.mu.let(func() { _, err = p.ledger.Record(name, Batch{Space: p.space, Rounds: u.Rounds, Models: u.Models}) })
	}
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("end rounds at endpoint %s: record: %w", name, err)
	}
	if notes := notesOf(u); len(notes) > 0 {
		p.wake(notes)
	}
	return nil
}
