package scheduler

import (
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// Hint marks the queries that h may affect. They run at once if the last slot has left
// some of its budget, and otherwise in the next slot. Hint may be called at any time.
func (l *Loop) Hint(h registry.Hint) (plan.Hinted, error) {
	now := l.clock.Now()
	if !h.All {
		l.grow((*plan.Planner).GrowPatterns)
	}
	if !l.mu.TryLockPlan(readerWait) {
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	switch {
	case l.merging: // queries already merged are marked at once
		l.late = plan.JoinHints(l.late, h)
	case !l.running && l.mu.half == nil:
		if err := l.merge(now); err != nil {
			return plan.Hinted{}, err
		}
	}
	done := l.planner.Hint(h)
	if done.Affected > 0 {
		select {
		case l.hinted <- struct{}{}:
		default:
		}
	}
	return done, nil
}

// grow completes an index of the plan. Other goroutines may acquire the lock between two
// pieces.
func (l *Loop) grow(piece func(*plan.Planner) (more bool)) {
	for more := true; more; {
		l.mu.Lock()
		more = piece(l.planner)
		l.mu.Unlock()
	}
}
