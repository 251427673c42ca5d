package deliver

import (
	"slices"
)

// A limiter bounds how many calls run at a time, in all and of one caller. The next place is
// for the waiting caller with the fewest calls under way, and there for the subscription that
// has waited longest.
type limiter struct {
	places, each    int
	running, queued int
	shares          map[string]*share // by caller
	waiting         []*share          // those with a queue
}

// A share is what one caller has of a limiter.
type share struct {
	caller  string
	running int
	queue   []*subscriber
}

func newLimiter(places, each int) limiter {
	return limiter{places: places, each: each, shares: make(map[string]*share)}
}

func (l *limiter) share(caller string) *share {
	s := l.shares[caller]
	if s == nil {
		s = &share{caller: caller}
		l.shares[caller] = s
	}
	return s
}

func (l *limiter) push(x *subscriber) {
	s := l.share(x.caller)
	if len(s.queue) == 0 {
		l.waiting = append(l.waiting, s)
	}
	s.queue = append(s.queue, x)
	l.queued++
}

// pop returns the subscription that is next, nil if none may run.
func (l *limiter) pop() *subscriber {
	next := -1
	for i, s := range l.waiting {
		if s.running < l.each && (next < 0 || s.running < l.waiting[next].running) {
			next = i
		}
	}
	if next < 0 || l.running >= l.places {
		return nil
	}
	s := l.waiting[next]
	l.waiting = slices.Delete(l.waiting, next, next+1)
	x := s.queue[0]
	s.queue = s.queue[1:]
	l.queued--
	if len(s.queue) > 0 {
		l.waiting = append(l.waiting, s)
	}
	l.drop(s)
	return x
}

// acquire takes a place for a call of a caller, and returns a function that frees it.
func (l *limiter) acquire(caller string) (release func()) {
	s := l.share(caller)
	s.running++
	l.running++
	return func() {
		s.running--
		l.running--
		l.drop(s)
	}
}

// drop forgets a share that is not in use.
func (l *limiter) drop(s *share) {
	if s.running == 0 && len(s.queue) == 0 {
		delete(l.shares, s.caller)
	}
}
