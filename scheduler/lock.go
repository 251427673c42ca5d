package scheduler

import "time"

// A lock is that of a loop. It is fair: who waits gets it before the one who has
// just let it go gets it again.
//
// Work on the plan of many queries takes long, so whoever does it lets the lock go
// between two pieces, and while a piece needs nothing that others may touch: see
// let. The plan is half done then. Lock is for what does without the plan, and
// LockPlan waits until nothing of it is half done.
type lock struct {
	turn chan struct{} // full while the lock is held
	half chan struct{} // closed when the work is done that has let the lock go; nil when there is none
}

func newLock() lock { return lock{turn: make(chan struct{}, 1)} }

func (l *lock) Lock() { l.turn <- struct{}{} }

func (l *lock) Unlock() { <-l.turn }

// TryLock is Lock that waits no longer than this.
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

// LockPlan is Lock when no work on the plan is half done.
func (l *lock) LockPlan() {
	for l.Lock(); l.half != nil; l.Lock() {
		half := l.half
		l.Unlock()
		<-half
	}
}

// TryLockPlan is LockPlan that waits no longer than this.
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

// let does work without the lock, which must be held with the plan, and leaves the
// plan half done meanwhile.
func (l *lock) let(work func()) {
	half := make(chan struct{})
	l.half = half
	l.Unlock()
	work()
	l.Lock()
	l.half = nil
	close(half)
}
