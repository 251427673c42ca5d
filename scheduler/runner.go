package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Unchanged outcomes wait for company, at most this many and this long.
const (
	maxPending  = 256
	maxDeferred = time.Second
)

// A runner runs one slot. It alone touches the planner and the budget's executions
// while the slot lasts, the former under the loop's lock.
type runner struct {
	l        *Loop
	ctx      context.Context
	name     string
	executor Executor
	policy   Policy
	gap      time.Duration
	budget   *slotBudget
	slot     Slot
	health   registry.Health // as last recorded
	results  chan answered
	asked    chan struct{} // a lane asked for, nil when none is
	acquired bool          // a lane granted and not yet used
	quiet    time.Time     // no execution starts before, as start last saw it
	stopped  string        // why no other execution starts
	pending  []Outcome
	learnt   *PolicyState // set when the slot is over
	notes    []Note
	since    time.Time // of the first pending outcome
}

type answered struct {
	r *execution
	a Answer
	d *difference // from the last result, nil where nothing was compared
}

// slot runs one slot from its plan to its last commit. The error is the
// ledger's. A slot that was cancelled before anything ran never was: it is
// zero, and so is its error.
func (l *Loop) slot(ctx context.Context, onTick bool) (Slot, error) {
	r, err := l.open(ctx, onTick)
	if err != nil {
		return Slot{}, err
	}
	err = r.execute()
	if err == nil && (ctx.Err() == nil || r.slot.Run > 0) {
		err = r.close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for err == nil && l.apply() { // and what the slot has recorded may be another server's
		l.mu.Unlock()
		err = l.recordHealth(true)
		l.mu.Lock()
	}
	l.running = false
	if err != nil {
		return Slot{}, fmt.Errorf("slot %d of endpoint %s: %w", r.slot.Number, r.name, err)
	}
	if r.slot.Finished.IsZero() { // the number is free
		return Slot{}, nil
	}
	l.last = r.slot
	l.state(l.clock.Now())
	return r.slot, nil
}

// open takes the news in and makes the plan.
func (l *Loop) open(ctx context.Context, onTick bool) (*runner, error) {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	if err := l.merge(now); err != nil {
		return nil, err
	}
	l.apply()
	l.running = true
	e := l.set.endpoint
	r := &runner{
		l: l, ctx: ctx, name: e.Name, executor: l.executor, policy: l.set.policy, gap: time.Duration(e.MinGap),
		health: l.health, results: make(chan answered, e.Concurrency),
		slot: Slot{
			Endpoint: e.Name, Number: l.planner.slot, Started: now.UTC(), Tick: onTick,
			Budget: time.Duration(e.Budget).Seconds(),
		},
	}
	lead := time.Duration(0)
	if next := l.set.schedule.Next(now); !next.IsZero() {
		lead = next.Sub(now)
	}
	l.planner.begin(r.slot.Number, now, lead)
	l.planner.openRounds(now)
	r.budget = newSlotBudget(l.planner, e.Concurrency, time.Duration(e.Timeout), l.charge)
	l.charge -= r.budget.charged
	r.checkHealth(now)
	if r.stopped == "" {
		l.planner.sort()
		n, cost := r.budget.preview()
		r.slot.Planned, r.slot.PlannedSeconds = n, cost.Seconds()
	}
	return r, nil
}

// checkHealth looks at the endpoint's health: whether anything may start, and
// whether one at a time as a probe.
func (r *runner) checkHealth(now time.Time) {
	h := r.executor.Health()
	switch {
	case !restricted(h):
		r.budget.width = cap(r.results)
	case h.Until.After(now):
		r.stopped = healthReason(h)
		r.slot.Throttled = h.State == registry.HealthThrottled
	default:
		r.budget.width = 1
	}
}

// execute starts what may start and takes in what ends, until nothing runs
// and nothing may start.
func (r *runner) execute() error {
	defer r.releaseUnused()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		blocked := r.start()
		if len(r.budget.runs) == 0 && !blocked {
			return nil
		}
		alarm.Reset(r.maxWait(blocked))
		var err error
		select {
		case x := <-r.results:
			err = r.take(x)
		case <-r.asked:
			r.asked, r.acquired = nil, true
		case <-alarm.C:
			err = r.onAlarm()
		case <-r.cancelled():
		}
		if err != nil {
			r.abort()
			return err
		}
	}
}

// cancelled fires when the process ends while the slot only waits. Executions that
// run learn it through their own context.
func (r *runner) cancelled() <-chan struct{} {
	if len(r.budget.runs) > 0 {
		return nil
	}
	return r.ctx.Done()
}

// start starts executions. blocked means that one could start but for a lane
// that a trial run holds or the gap between two requests.
func (r *runner) start() (blocked bool) {
	for r.stopped == "" && r.ctx.Err() == nil {
		now := r.l.clock.Now()
		if !r.mayStart() {
			return false
		}
		if r.quiet = r.gapEnd(); r.quiet.After(now) {
			return true
		}
		if !r.acquired && !r.l.limiter.tryAcquire() {
			if r.asked == nil {
				r.asked = r.l.limiter.enqueue()
			}
			return true
		}
		r.acquired = true
		r.l.mu.Lock()
		x := r.budget.next(now)
		r.l.mu.Unlock()
		r.acquired = false
		if x == nil {
			r.l.limiter.release()
			return false
		}
		r.launch(x)
		if r.gap > 0 {
			return false // the gap counts from the end of this one, so there is one at a time
		}
	}
	return false
}

// gapEnd is when the gap after the last execution is over, be it of this slot, of
// the one before, or a trial run.
func (r *runner) gapEnd() time.Time {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.gap <= 0 || r.l.ended.IsZero() {
		return time.Time{}
	}
	return r.l.ended.Add(r.gap)
}

// mayStart says, without starting it, whether there is something to wait for.
func (r *runner) mayStart() bool {
	if r.gap > 0 && len(r.budget.runs) > 0 {
		return false
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.nextExec == nil && !r.budget.alone && len(r.budget.runs) < r.budget.width && (r.budget.p.waiting() > 0 || r.budget.p.hinted() || r.budget.p.claimed()) &&
		!r.budget.spent()
}

// launch executes in the background; what runs is waited for by execute.
func (r *runner) launch(x *execution) {
	ctx, cancel := context.WithCancel(r.ctx)
	x.stop = cancel
	r.slot.Run++
	if x.tier == TierInterval {
		r.slot.Claimed++
	}
	q, was, limit := &x.c.Query, x.c.Stats, r.budget.bound(x)
	go func() {
		defer cancel()
		a := r.executor.Execute(ctx, q, was.Memory, limit)
		a, d := r.l.compare(ctx, q.ID, was, a, limit)
		x.took.Store(int64(max(1, a.Elapsed)))
		r.l.limiter.release()
		r.results <- answered{x, a, d}
	}()
}

// maxWait is how long to wait at most before something has to be done.
func (r *runner) maxWait(blocked bool) time.Duration {
	now := r.l.clock.Now()
	wait := time.Hour
	if len(r.budget.runs) > 0 {
		_, wait = r.budget.over(now)
		if soon, ok := r.budget.unlent(now); ok {
			wait = min(wait, soon)
		}
	}
	if len(r.pending) > 0 {
		wait = min(wait, r.since.Add(maxDeferred).Sub(now))
	}
	if blocked && r.asked == nil {
		wait = min(wait, r.quiet.Sub(now))
	}
	return max(0, wait)
}

// onAlarm does what the time has come for.
func (r *runner) onAlarm() error {
	defer r.watch()()
	now := r.l.clock.Now()
	cut, _ := r.budget.over(now)
	for _, x := range cut {
		x.cut = true
		x.stop()
	}
	if err := r.lend(now); err != nil {
		return err
	}
	if len(r.pending) > 0 && !now.Before(r.since.Add(maxDeferred)) {
		return r.flush(false)
	}
	return nil
}

// take takes in one finished execution.
func (r *runner) take(x answered) error {
	defer r.watch()()
	now := r.l.clock.Now()
	c := x.r.c
	a, whole := r.budget.finish(x.r, x.a, r.ctx.Err() != nil)
	was := c.Stats
	e := observation{slot: r.slot.Number, at: now.UTC(), tier: x.r.tier, answer: a, served: x.r.served, whole: whole, compared: x.d}
	prev := func() (*diff.Result, error) { return r.l.ledger.Result(c.Query.ID) }
	out, err := observe(r.policy, was, e, prev)
	if err != nil {
		return err
	}
	r.l.handover.Lock()
	defer r.l.handover.Unlock()
	r.l.mu.Lock()
	if r.l.nextExec != nil {
		e.answer = Answer{Outcome: registry.Dropped, Elapsed: a.Elapsed, Error: "not taken: the endpoint's settings were edited during the execution"}
		if out, err = observe(r.policy, was, e, prev); err != nil {
			r.l.mu.Unlock()
			return err
		}
	}
	out.Query = c.Query.ID
	if r.ctx.Err() == nil {
		r.l.streak.observe(c.Query.ID, out.Stats.LastRun)
	}
	if now.After(r.l.ended) { // else a trial run was over meanwhile
		r.l.ended = now
	}
	if out.Stats.LastRun.Outcome.Complete() {
		c.start = r.slot.Started
	}
	r.budget.p.learn(c, out.Stats)
	if c.held {
		r.budget.p.count(c)
	}
	if o := out.Stats.LastRun.Outcome; o.Complete() {
		r.budget.p.observe(c, o == registry.Changed)
	}
	ended := r.budget.p.onExecution(c, was.CheckedAt, x.r.start, out)
	r.l.mu.Unlock()
	r.count(c, was, out)
	r.report(c, out.Stats.LastRun)
	r.checkHealth(now)
	out.Stats = out.Stats.Frozen()
	if len(r.pending) == 0 {
		r.since = now
	}
	r.pending = append(r.pending, out)
	if out.Delta != nil || ended || len(r.pending) >= maxPending || urgent(r.executor.Health(), r.health) {
		return r.flush(false)
	}
	return nil
}

// releaseUnused returns a lane that was granted or asked for but not used.
func (r *runner) releaseUnused() {
	if r.asked != nil {
		r.l.limiter.cancel(r.asked)
	}
	if r.acquired {
		r.l.limiter.release()
	}
}

// abort stops what runs and waits for it.
func (r *runner) abort() {
	for _, x := range r.budget.runs {
		x.stop()
	}
	for range r.budget.runs {
		<-r.results
	}
}
