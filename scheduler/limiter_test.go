package scheduler

import (
	"context"
	"testing"
)

func granted(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A slot and trial runs take turns, however many trial runs wait.
func TestTurns(t *testing.T) {
	var l limiter
	l.resize(1)
	a, b, c, slot := l.enqueue(), l.enqueue(), l.enqueue(), l.enqueueSlot()
	l.release()
	if !granted(slot) || granted(b) {
		t.Error("the slot is not the next one")
	}
	slot = l.enqueueSlot()
	l.release()
	if !granted(a) || !granted(b) || granted(slot) {
		t.Error("the slot comes twice")
	}
	l.cancel(slot)
	l.release()
	if !granted(c) {
		t.Error("a slot that waits no more holds up others")
	}
	if l.release(); !l.tryAcquire() {
		t.Error("a place is lost")
	}
}

func TestLanes(t *testing.T) {
	var l limiter
	l.resize(1)
	if !l.tryAcquire() || l.tryAcquire() {
		t.Fatal("one lane is one lane")
	}
	first, second := l.enqueue(), l.enqueue()
	l.release()
	if !granted(first) || granted(second) {
		t.Error("who waits longest comes first")
	}
	l.resize(2)
	if !granted(second) || l.tryAcquire() {
		t.Error("a new lane goes to who waits")
	}
	third := l.enqueue()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.acquire(ctx); err != context.Canceled {
		t.Errorf("acquire: %v", err)
	}
	l.cancel(third)
	l.cancel(first) // granted and not wanted any more
	l.release()
	if l.used != 0 || len(l.waiting) != 0 {
		t.Errorf("%d lanes in use, %d waiting", l.used, len(l.waiting))
	}
}
