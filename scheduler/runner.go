package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A runner runs one slot. While the slot lasts, only the runner accesses the
// plan, under the loop's lock.
type runner struct {
	l        *loopData
	ctx      context.Context
	name     string
	executor Executor
	policy   policy.Policy
	gap      time.Duration
	budget   *plan.SlotBudget
	slot     Slot
	health   registry.Health // as last recorded
	running  []*request
	results  chan response
	asked    chan struct{} // closed when a requested place in the limiter is granted; nil if none is requested
	acquired bool          // a place was granted and is not used yet
	quiet    time.Time     // no execution starts before this time; start computes it
	stopped  string        // why no more executions start
	pending  []Outcome
	learnt   *PolicyState // set at the end of the slot
	notes    []Note
	since    time.Time // time of the first pending outcome
	window   window
	holds    bool        // holds the loop's handover
	before   feed.Before // the endpoint's position before the executions
	offGrid  *allowance  // set if the executions run between two slots
}

// An allowance bounds executions outside the grid.
type allowance struct {
	before  OffGrid       // of the slot, before these executions
	granted time.Duration // what they may use, as the ledger knows
}

// A response is a request that has ended, with its answer.
type response struct {
	r *request
	a Answer
	d *difference // nil if nothing was compared
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
		r.slot.Throttled = r.slot.Throttled || r.offGrid == nil && h.State == registry.HealthThrottled
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

// start starts executions. blocked reports that an execution could start but must wait
// for a trial run or for the gap between two requests.
func (r *runner) start() (blocked bool) {
	for r.stopped == "" && r.ctx.Err() == nil {
		now := r.l.clock.Now()
		if !r.mayStart() || !r.budget.Reaches(now) {
			return false
		}
		if !r.acquired && !r.l.limiter.tryAcquire() {
			if r.asked == nil {
				r.asked = r.l.limiter.enqueueSlot()
			}
			return true
		}
		r.acquired = true
		// It has a place while it waits for the gap, as a trial run has. So they take turns.
		if r.quiet = r.gapEnd(); r.quiet.After(now) {
			return r.budget.Reaches(r.quiet)
		}
		r.l.mu.Lock()
		x := r.budget.Next(now)
		if x != nil {
			r.l.asked.count(x)
		}
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

// gapEnd returns the end of the gap after the endpoint's last execution, trial runs
// included.
func (r *runner) gapEnd() time.Time {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.account.gapEnd(r.gap)
}

// mayStart reports whether an execution could start, without starting it.
func (r *runner) mayStart() bool {
	if r.gap > 0 && len(r.running) > 0 {
		return false
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.l.ends() == "" && r.budget.MayStart()
}

// launch starts an execution in the background. execute receives its answer.
func (r *runner) launch(x *plan.Execution) {
	ctx, cancel := context.WithCancel(r.ctx)
	if r.offGrid == nil { // else it has to end in time, whatever it waits for
		waits := &clock.Waits{}
		x.SetWaits(waits)
		ctx = waits.In(ctx)
	}
	y := &request{Execution: x, stop: cancel}
	r.running = append(r.running, y)
	if r.offGrid != nil {
		r.slot.OffGrid.Run++
	} else {
		r.slot.Asks++
		if len(x.Riders()) > 0 {
			r.launchAsk(ctx, y)
			return
		}
		r.slot.Run++
	}
	if x.Tier() == plan.TierInterval {
		r.slot.Claimed++
	}
	q, was, limit := x.Query(), x.Stats(), r.budget.Limit(x)
	go func() {
		defer cancel()
		a := r.executor.Execute(ctx, q, was.Memory, limit)
		a, d := r.l.comparer.compare(ctx, q.ID, was, a, limit)
		r.leave(y, a)
		r.results <- response{y, a, d}
	}()
}

// launchAsk starts a request for several queries in the background.
func (r *runner) launchAsk(ctx context.Context, y *request) {
	r.l.mu.Lock()
	y.ask = newAsk(y.Execution, r.l.audits)
	y.ask.caps = r.l.set.endpoint.MaxRows > 0 || r.l.health.MaxRows > 0
	r.l.mu.Unlock()
	limit := r.budget.Limit(y.Execution)
	go func() {
		defer y.stop()
		a := r.l.comparer.executeAsk(ctx, r.executor, y.ask, limit)
		r.leave(y, a)
		r.results <- response{y, a, nil}
	}()
}

// leave gives back the place of a request that has ended. The next one in it finds the gap begun.
func (r *runner) leave(y *request, a Answer) {
	y.took.Store(int64(max(1, a.Elapsed)))
	r.l.mu.Lock()
	r.l.account.executed(r.l.clock.Now())
	r.l.mu.Unlock()
	r.l.limiter.release()
}

// releaseUnused releases a place in the limiter that was granted or requested but not used.
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

// hold acquires the loop's handover unless the runner already holds it. The runner keeps
// it while a window is open.
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
