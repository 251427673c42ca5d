package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
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

type answered struct {
	r *request
	a Answer
	d *difference // from the last result, nil if nothing was compared
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

// watch starts a budgetTimer for what runs. end stops it.
func (r *runner) watch() (end func()) {
	w := &budgetTimer{clock: r.l.clock, left: r.budget.Left(), runs: slices.Clone(r.running)}
	w.look()
	return w.end
}

// hold acquires the loop's handover, unless the runner has it. While a window is open
// the runner keeps it.
func (r *runner) hold() {
	if !r.holds {
		r.l.handover.Lock()
		r.holds = true
	}
}

// release releases the handover, unless a window is open.
func (r *runner) release() {
	if r.holds && !r.window.open() {
		r.holds = false
		r.l.handover.Unlock()
	}
}
