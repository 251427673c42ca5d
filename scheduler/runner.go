package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// Limits on how many unchanged outcomes wait for a common commit, and for how long.
const (
	maxPending  = 256
	maxDeferred = time.Second
)

// Limits on how many changes share a commit, and on how long the first one waits for
// others: shortWindow, or up to longWindow while changes keep coming.
const (
	maxWindow   = 64
	shortWindow = 10 * time.Millisecond
	longWindow  = 8 * shortWindow
)

// A runner runs one slot. While the slot lasts, only the runner accesses the
// plan, under the loop's lock.
type runner struct {
	l        *Loop
	ctx      context.Context
	name     string
	executor Executor
	policy   policy.Policy
	gap      time.Duration
	budget   *plan.SlotBudget
	slot     Slot
	health   registry.Health // as last recorded
	running  []*request
	results  chan answered
	asked    chan struct{} // a requested lane, nil if none is
	acquired bool          // a lane was granted and is not used yet
	quiet    time.Time     // no execution starts before this time, as last computed by start
	stopped  string        // why no more executions start
	pending  []Outcome
	learnt   *PolicyState // set at the end of the slot
	notes    []Note
	since    time.Time // time of the first pending outcome
	window   window
	holds    bool // the loop's handover
}

// A request is a running execution on its way to the endpoint.
type request struct {
	*plan.Execution
	stop func()
	took atomic.Int64 // what it took, in nanoseconds from 1 once it is over
}

type answered struct {
	r *request
	a Answer
	d *difference // from the last result, nil if nothing was compared
}

// slot runs one slot from its plan to its last commit. The error is the ledger's.
// If the slot is cancelled before anything ran, slot returns the zero Slot and no
// error.
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
	for err == nil && l.apply() { // the health that the slot recorded may be that of another server
		l.mu.Unlock()
		err = l.recordHealth(true)
		l.mu.Lock()
	}
	l.running = false
	if err != nil {
		return Slot{}, fmt.Errorf("slot %d of endpoint %s: %w", r.slot.Number, r.name, err)
	}
	if r.slot.Finished.IsZero() { // the slot number stays free
		return Slot{}, nil
	}
	l.last = r.slot
	l.state(l.clock.Now())
	return r.slot, nil
}

// open merges the news and makes the plan.
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
			Endpoint: e.Name, Number: l.planner.Slot(), Started: now.UTC(), Tick: onTick,
			Budget: time.Duration(e.Budget).Seconds(),
		},
	}
	lead := time.Duration(0)
	if next := l.set.schedule.Next(now); !next.IsZero() {
		lead = next.Sub(now)
	}
	r.budget = l.planner.Begin(now, plan.Terms{Lead: lead, Width: e.Concurrency, Timeout: time.Duration(e.Timeout), Charged: l.charge})
	l.charge -= r.budget.Totals().Charged
	r.checkHealth(now)
	if r.stopped == "" {
		n, cost := r.budget.Preview()
		r.slot.Planned, r.slot.PlannedSeconds = n, cost.Seconds()
	}
	return r, nil
}

// checkHealth reads the endpoint's health: whether executions may start, and
// whether only one at a time, as a probe.
func (r *runner) checkHealth(now time.Time) {
	h := r.executor.Health()
	switch {
	case !restricted(h):
		r.budget.SetWidth(cap(r.results))
	case h.Until.After(now):
		r.stopped = healthReason(h)
		r.slot.Throttled = h.State == registry.HealthThrottled
	default:
		r.budget.SetWidth(1)
	}
}

// execute starts executions and handles finished ones until none runs and none may
// start.
func (r *runner) execute() error {
	defer r.releaseUnused()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		blocked := r.start()
		var err error
		if len(r.running) == 0 && r.window.open() {
			err = r.flush(false)
		}
		if err != nil || len(r.running) == 0 && !blocked {
			return err
		}
		alarm.Reset(r.maxWait(blocked))
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

// cancelled fires if the process ends while the slot only waits. Running executions
// have their own context.
func (r *runner) cancelled() <-chan struct{} {
	if len(r.running) > 0 {
		return nil
	}
	return r.ctx.Done()
}

// start starts executions. blocked reports that one could start, except that a
// trial run holds the lane or the gap between two requests is not over.
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
		x := r.budget.Next(now)
		r.l.mu.Unlock()
		r.acquired = false
		if x == nil {
			r.l.limiter.release()
			return false
		}
		r.launch(x)
		if r.gap > 0 {
			return false // the gap begins at the end of this execution, so there is one at a time
		}
	}
	return false
}

// gapEnd is the end of the gap after the last execution of this slot, of the one
// before, or of a trial run.
func (r *runner) gapEnd() time.Time {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.gap <= 0 || r.l.ended.IsZero() {
		return time.Time{}
	}
	return r.l.ended.Add(r.gap)
}

// mayStart reports whether an execution could start, without starting it.
func (r *runner) mayStart() bool {
	if r.gap > 0 && len(r.running) > 0 {
		return false
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.nextExec == nil && r.budget.MayStart()
}

// launch executes in the background. execute waits for the answer.
func (r *runner) launch(x *plan.Execution) {
	ctx, cancel := context.WithCancel(r.ctx)
	y := &request{Execution: x, stop: cancel}
	r.running = append(r.running, y)
	r.slot.Run++
	if x.Tier() == plan.TierInterval {
		r.slot.Claimed++
	}
	q, was, limit := x.Query(), x.Stats(), r.budget.Limit(x)
	go func() {
		defer cancel()
		a := r.executor.Execute(ctx, q, was.Memory, limit)
		a, d := r.l.compare(ctx, q.ID, was, a, limit)
		y.took.Store(int64(max(1, a.Elapsed)))
		r.l.limiter.release()
		r.results <- answered{y, a, d}
	}()
}

// maxWait is the longest wait before the runner has to act.
func (r *runner) maxWait(blocked bool) time.Duration {
	now := r.l.clock.Now()
	wait := r.budget.Wait(now)
	if len(r.pending) > 0 {
		wait = min(wait, r.flushTime().Sub(now))
	}
	if blocked && r.asked == nil {
		wait = min(wait, r.quiet.Sub(now))
	}
	return max(0, wait)
}

// onAlarm does everything that is due now.
func (r *runner) onAlarm() error {
	defer r.watch()()
	now := r.l.clock.Now()
	cut := r.budget.Cut(now)
	for _, x := range r.running {
		if slices.Contains(cut, x.Execution) {
			x.stop()
		}
	}
	if err := r.lend(now); err != nil {
		return err
	}
	if len(r.pending) > 0 && !now.Before(r.flushTime()) {
		return r.flush(false)
	}
	return nil
}

// take handles one finished execution.
func (r *runner) take(x answered) error {
	defer r.watch()()
	now := r.l.clock.Now()
	q, was := x.r.Query(), x.r.Stats()
	r.running = slices.DeleteFunc(r.running, func(y *request) bool { return y == x.r })
	r.l.mu.Lock()
	a, whole := r.budget.Finish(x.r.Execution, x.a, r.ctx.Err() != nil)
	r.l.mu.Unlock()
	e := observation{slot: r.slot.Number, at: now.UTC(), tier: x.r.Tier(), answer: a, served: x.r.Served(), whole: whole, compared: x.d}
	prev := func() (*diff.Result, error) { return r.l.ledger.Result(q.ID) }
	out, err := observe(r.policy, was, e, prev)
	if err != nil {
		return err
	}
	r.hold()
	defer r.release()
	r.l.mu.Lock()
	if r.l.nextExec != nil {
		e.answer = Answer{Outcome: registry.Dropped, Elapsed: a.Elapsed, Error: "not taken: the endpoint's settings were edited during the execution"}
		if out, err = observe(r.policy, was, e, prev); err != nil {
			r.l.mu.Unlock()
			return err
		}
	}
	out.Query = q.ID
	if r.ctx.Err() == nil {
		r.l.streak.observe(q.ID, out.Stats.LastRun)
	}
	if now.After(r.l.ended) { // else a trial run ended later
		r.l.ended = now
	}
	ended := r.budget.Record(x.r.Execution, plan.Completion{Stats: out.Stats, Delta: out.Delta, Checked: out.Checked, At: out.At})
	r.l.mu.Unlock()
	r.count(q, was, out)
	r.report(q, out.Stats.LastRun)
	r.checkHealth(now)
	out.Stats = out.Stats.Frozen()
	if len(r.pending) == 0 {
		r.since = now
	}
	r.pending = append(r.pending, out)
	if out.Delta != nil || ended {
		r.window.add(now)
	}
	if r.window.changes >= maxWindow || len(r.pending) >= maxPending || urgent(r.executor.Health(), r.health) {
		return r.flush(false)
	}
	return nil
}

// releaseUnused releases a lane that was granted or requested but not used.
func (r *runner) releaseUnused() {
	if r.asked != nil {
		r.l.limiter.cancel(r.asked)
	}
	if r.acquired {
		r.l.limiter.release()
	}
}

// abort drops what is not committed, cancels the running executions and waits for
// them.
func (r *runner) abort() {
	r.window.close()
	r.release()
	for _, x := range r.running {
		x.stop()
	}
	for range r.running {
		<-r.results
	}
}
