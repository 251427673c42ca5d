package scheduler

import (
	"context"
	"slices"
	"sync"

	"github.com/freshet/freshet/registry"
)

// A limiter bounds how many executions of an endpoint run at a time, those of slots
// and trial runs together. They take turns, so that many trial runs do not hold up a slot.
// Of trial runs, the longest waiting one starts first.
type limiter struct {
	mu      sync.Mutex
	width   int
	used    int
	waiting []chan struct{} // trial runs
	slot    chan struct{}   // the running slot, nil if it does not wait
	served  bool            // the last place went to a slot
}

// atOnce is how many requests an endpoint gets at a time: with a gap one, after which the gap begins.
func atOnce(e registry.Endpoint) int {
	if e.MinGap > 0 {
		return 1
	}
	return e.Concurrency
}

// resize changes the bound. Executions that run finish.
func (l *limiter) resize(width int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.width = width
	l.admit()
}

func (l *limiter) admit() {
	for l.used < l.width && (l.slot != nil || len(l.waiting) > 0) {
		l.used++
		if l.served = l.slot != nil && (!l.served || len(l.waiting) == 0); l.served {
			close(l.slot)
			l.slot = nil
			continue
		}
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

// enqueue asks for a place for a trial run. The channel is closed when it is granted.
func (l *limiter) enqueue() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	granted := make(chan struct{})
	l.waiting = append(l.waiting, granted)
	l.admit()
	return granted
}

// enqueueSlot asks for a place for the running slot, one at a time. The channel is closed when it is granted.
func (l *limiter) enqueueSlot() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	granted := make(chan struct{})
	l.slot = granted
	l.admit()
	return granted
}

// tryAcquire takes a place for a slot if one is free and no other caller waits.
func (l *limiter) tryAcquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used >= l.width || len(l.waiting) > 0 || l.slot != nil {
		return false
	}
	l.used++
	l.served = true
	return true
}

func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	l.admit()
}

// cancel gives up what was asked for, also when it is granted already.
func (l *limiter) cancel(granted chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slot == granted {
		l.slot = nil
		return
	}
	if i := slices.Index(l.waiting, granted); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return
	}
	l.used--
	l.admit()
}

// acquire waits for a place.
func (l *limiter) acquire(ctx context.Context) error {
	granted := l.enqueue()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		l.cancel(granted)
		return ctx.Err()
	}
}
