package scheduler

import "time"

// A lock guards a loop. It is fair: a waiting caller acquires it before the caller
// that has just released it can acquire it again.
//
// Work on a plan of many queries takes long. The goroutine that does it therefore
// releases the lock between two pieces, and during a piece that needs nothing
// loopData (see let). Meanwhile the plan is incomplete. Lock is for callers that do
// not need the plan; LockPlan waits until the plan is complete.
type lock struct {
	turn chan struct{} // full while the lock is held
	half chan struct{} // closed when the work that released the lock is done; nil if there is none
}

func newLock() lock { return lock{turn: make(chan struct{}, 1)} }

func (l *lock) Lock() { l.turn <- struct{}{} }

func (l *lock) Unlock() { <-l.turn }

// TryLock is Lock with a limit on the wait. It reports whether it acquired the
// lock.
func (l *lock) TryLock(wait time.Duration) bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case l.turn <- struct{}{}:
		return true
	case <-t.C:
		return false
	}
}

// LockPlan acquires the lock when the plan is complete.
func (l *lock) LockPlan() {
	for l.Lock(); l.half != nil; l.Lock() {
		half := l.half
		l.Unlock()
		<-half
	}
}

// TryLockPlan is LockPlan with a limit on the wait. It reports whether it acquired
// the lock.
func (l *lock) TryLockPlan(wait time.Duration) bool {
	late := time.NewTimer(wait)
	defer late.Stop()
	for end := time.Now().Add(wait); l.TryLock(time.Until(end)); {
		half := l.half
		if half == nil {
			return true
		}
		l.Unlock()
		select {
		case <-half:
		case <-late.C:
			return false
		}
	}
	return false
}

// let releases the lock, runs work and acquires the lock again. The caller must
// hold the lock with a complete plan; the plan counts as incomplete during work.
func (l *lock) let(work func()) {
	half := make(chan struct{})
	l.half = half
	l.Unlock()
	work()
	l.Lock()
	l.half = nil
	close(half)
}
