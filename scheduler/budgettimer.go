package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

// A budgetTimer enforces the budget while the runner compares and commits, which can
// take longer than the budget that is left. It stops the running executions when they
// have used up the budget together. It copies the budget's state and shares only the
// requests with the runner; each stores its time when it ends.
type budgetTimer struct {
	clock Clock
	left  time.Duration // what is left without the time of runs
	runs  []*request
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	over  bool
}

// look stops the running executions if the budget is used up. Otherwise it sets the
// timer to the earliest time at which that can happen.
func (w *budgetTimer) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	now, left := w.clock.Now(), w.left
	var going []*request
	for _, r := range w.runs {
		if took := r.took.Load(); took > 0 {
			left -= time.Duration(took)
			continue
		}
		left -= r.Elapsed(now)
		going = append(going, r)
	}
	n := time.Duration(len(going))
	switch {
	case n == 0:
		return
	case left < n:
		for _, r := range going {
			r.stop()
		}
	case w.timer == nil:
		w.timer = time.AfterFunc(left/n, w.look)
	default:
		w.timer.Reset(left / n)
	}
}

func (w *budgetTimer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// A request is a running execution on its way to the endpoint.
type request struct {
	*plan.Execution
	ask  *ask // nil for a single query
	stop func()
	took atomic.Int64 // its time in nanoseconds, at least 1; 0 until it is over
}
