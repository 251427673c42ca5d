package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// State reports the state of the loop. While the loop reads its queries, or holds
// the lock for long, State returns the state before that.
func (l *Loop) State() LoopState {
	s, now := *l.seen.Load(), l.clock.Now()
	if l.mu.TryLock(readerWait) {
		if l.loaded && !l.running && l.mu.half == nil {
			l.planner.Advance(now) // a holder may have expired
		}
		if l.loaded || !l.merging {
			s = l.state(now)
		}
		l.mu.Unlock()
	}
	if l.writable() != nil {
		s.Halted = "no slot runs: " + registry.ErrReadOnly.Error()
	}
	return s
}

// state computes the state and stores it for readers that find the lock held. The
// caller holds the lock.
func (l *Loop) state(now time.Time) LoopState {
	n := l.planner.Census()
	s := LoopState{
		Endpoint: l.set.endpoint.Name, Running: l.running, Next: l.next, NextTry: l.nextTry(now),
		Queries: n.Queries, Debt: l.planner.Debt().Seconds(), Last: l.last, Health: l.currentHealth(),
		States: n.States, Results: n.Results, Oldest: n.Oldest,
	}
	l.seen.Store(&s)
	return s
}

// nextTry returns when requests are sent to the endpoint again; zero if its health
// allows them now.
func (l *Loop) nextTry(now time.Time) time.Time {
	h := l.executor.Health()
	if !restricted(h) || !h.Until.After(now) {
		return time.Time{}
	}
	if slot := l.gridAfter(h.Until.Add(-1)); !slot.IsZero() {
		return slot
	}
	return h.Until
}

// isUp reports whether the loop has read its queries and its last slot. It waits
// for at most startWait.
func (l *Loop) isUp() bool {
	select {
	case <-l.up:
		return true
	default:
	}
	t := time.NewTimer(startWait)
	defer t.Stop()
	select {
	case <-l.up:
		return true
	case <-l.finished:
	case <-t.C:
	}
	return false
}

// startWait is how long a reader waits for a loop that was just started.
const startWait = time.Second

// Answers returns once the loop's lock has been free. It never returns for a loop
// that is stuck.
func (l *Loop) Answers() {
	l.mu.Lock()
	defer l.mu.Unlock()
}
