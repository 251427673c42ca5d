package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/scheduler/plan"
)

// A budgetTimer keeps the budget while the runner compares and commits, which can
// take longer than what is left of it: it stops executions at the moment when all
// together use the budget up. It has its own copy of the account and shares only
// the executions with the runner; each stores what it took when it ends.
type budgetTimer struct {
	clock Clock
	left  time.Duration // when nothing of runs is counted
	runs  []*request
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	over  bool
}

// look stops what runs when the budget is used up, and else looks again when
// that can be at the earliest.
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
	stop func()
	took atomic.Int64 // what it took, in nanoseconds from 1 once it is over
}
