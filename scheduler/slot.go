package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// runSlot runs one slot from its plan to its last commit. The error is the ledger's.
// If the slot is cancelled before anything ran, runSlot returns the zero Slot and no
// error, unless it is early.
func runSlot(ctx context.Context, l *loopData, onTick, early bool) (Slot, error) {
	r, err := openSlot(ctx, l, onTick)
	if err != nil {
		return Slot{}, err
	}
	if r.slot.Early = early; early { // a process that is killed now must not begin it again with a whole budget
		err = r.flush(false)
	}
	if err == nil {
		r.askPositions()
		err = r.execute()
	}
	if err == nil && (ctx.Err() == nil || r.slot.Asks > 0 || early) {
		err = r.close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = r.finish(err)
	if err != nil {
		return Slot{}, fmt.Errorf("slot %d of endpoint %s: %w", r.slot.Number, r.name, err)
	}
	if r.slot.Finished.IsZero() { // the slot number stays free
		return Slot{}, nil
	}
	for _, id := range r.budget.Spoilers() {
		l.log.Warn("a query spoils requests for several queries; it is asked alone until the server restarts", "query", id, "slot", r.slot.Number)
	}
	l.last, l.rest, l.proofs.polled = r.slot, r.budget.Opening(), 0
	l.state(l.clock.Now())
	return r.slot, nil
}

// finish ends the runner's work: settings that arrived meanwhile come into force. err is
// the error of its executions. The caller holds the lock.
func (r *runner) finish(err error) error {
	for err == nil && r.l.apply() { // the recorded health may be that of another server
		r.l.mu.Unlock()
		err = recordHealth(r.l, true)
		r.l.mu.Lock()
	}
	if s := r.l.recovered; s != nil {
		r.l.recovered = nil
		r.l.planner.Recovered(s.since)
	}
	r.l.running = false
	return err
}

// openSlot updates the plan with the news and begins the slot.
func openSlot(ctx context.Context, l *loopData, onTick bool) (*runner, error) {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	if err := l.update(now); err != nil {
		return nil, err
	}
	l.apply()
	l.classify()
	l.running = true
	e := l.set.endpoint
	r := &runner{
		l: l, ctx: ctx, name: e.Name, executor: l.executor, policy: l.set.policy, gap: time.Duration(e.MinGap),
		health: l.health, results: make(chan response, e.Concurrency),
		slot: Slot{
			Endpoint: e.Name, Number: l.planner.Slot(), Started: now.UTC(), Tick: onTick,
			Budget: time.Duration(e.Budget).Seconds(),
		},
	}
	lead := time.Duration(0)
	if next := l.set.schedule.Next(now); !next.IsZero() {
		lead = next.Sub(now)
	}
	r.budget = l.planner.Begin(now, plan.Terms{Lead: lead, Width: e.Concurrency, Timeout: time.Duration(e.Timeout),
		Charged: l.account.charge, Merging: l.merges()})
	l.account.charge -= r.budget.Totals().Charged
	l.account.begin(r.slot.Number)
	r.checkHealth(now)
	r.slot.Proved = l.planner.Proofs().Proved()
	if r.stopped == "" {
		n, cost := r.budget.Preview()
		r.slot.Planned, r.slot.PlannedSeconds = n, cost.Seconds()
	}
	return r, nil
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
			err = r.handleResponse(x)
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

// handleResponse handles one finished execution.
func (r *runner) handleResponse(x response) error {
	defer r.watch()()
	r.running = slices.DeleteFunc(r.running, func(y *request) bool { return y == x.r })
	if x.r.ask != nil {
		return r.handleMergedResponse(x)
	}
	now := r.l.clock.Now()
	q, was := x.r.Query(), x.r.Stats()
	r.l.mu.Lock()
	a, whole := r.budget.Finish(x.r.Execution, x.a, r.ctx.Err() != nil)
	r.l.mu.Unlock()
	e := observation{slot: r.slot.Number, at: now.UTC(), tier: x.r.Tier(), answer: a, served: x.r.Served(), whole: whole,
		compared: x.d, before: r.before}
	if r.ctx.Err() == nil {
		e.budget = exactly(r.slot.Budget)
	}
	prev := func() (*diff.Result, error) { return r.l.ledger.Result(q.ID) }
	out, err := observe(r.policy, was, e, prev)
	if err != nil {
		return err
	}
	r.hold()
	defer r.release()
	r.l.mu.Lock()
	if r.l.nextExec != nil {
		e.answer = Answer{Outcome: registry.Dropped, Elapsed: a.Elapsed, Error: "not taken: the endpoint's settings were edited " +
			"during the execution"}
		if out, err = observe(r.policy, was, e, prev); err != nil {
			r.l.mu.Unlock()
			return err
		}
	}
	out.Query = q.ID
	if r.ctx.Err() == nil {
		r.l.observe(q.ID, out.Stats.LastRun)
		if x.r.FollowsFailure() && !out.Stats.LastRun.Outcome.Complete() { // merging was not at fault
			r.l.observe(q.ID, out.Stats.LastRun)
		}
	}
	ended := r.budget.Record(x.r.Execution, &plan.Completion{Stats: &out.Stats, Delta: out.Delta, Checked: out.Checked, At: out.At})
	r.audit(x.r, &out, now)
	r.l.suspect(&out, was)
	if out.Delta != nil && was.Executions > 0 {
		out.Edits = r.l.planner.Proofs().Edits(q.ID, was.Before)
	}
	r.l.mu.Unlock()
	r.count(q, was, &out)
	r.report(q, out.Stats.LastRun)
	r.checkHealth(now)
	if len(r.pending) == 0 {
		r.since = now
	}
	r.pending = append(r.pending, out)
	if out.Delta != nil || ended {
		r.window.add(now)
	}
	return r.flushIfDue()
}
