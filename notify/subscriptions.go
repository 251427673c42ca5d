package notify

import (
	"slices"
	"time"
)

// subscriptions are those of one session: by id, in turn, and on hold.
type subscriptions struct {
	srv   *Server
	byID  map[string]*subscription
	queue []*subscription             // those that have something to look at, in turn
	holds map[*subscription]time.Time // until when their rate holds them back
}

// enter takes a subscription in. What is committed from now on wakes it.
func (s *subscriptions) enter(sub *subscription) {
	s.byID[sub.id] = sub
	s.srv.join(sub)
	s.srv.subscriptions.Add(1)
}

// leave takes a subscription out.
func (s *subscriptions) leave(sub *subscription) {
	sub.over = true
	delete(s.byID, sub.id)
	delete(s.holds, sub)
	s.queue = slices.DeleteFunc(s.queue, func(other *subscription) bool { return other == sub })
	s.release(sub)
}

// release ends a subscription's wake-ups and its registration.
func (s *subscriptions) release(sub *subscription) {
	s.srv.part(sub)
	s.srv.subscriptions.Add(-1)
	s.srv.listing.remove(sub.listed)
	sub.release()
}

// close releases all.
func (s *subscriptions) close() {
	for _, sub := range s.byID {
		s.release(sub)
	}
	clear(s.byID)
	s.queue, s.holds = nil, nil
}

// enqueue puts a subscription in turn to be looked at.
func (s *subscriptions) enqueue(sub *subscription) {
	if !sub.queued && !sub.over {
		sub.queued = true
		s.queue = append(s.queue, sub)
	}
}

// next is the subscription whose turn it is.
func (s *subscriptions) next() *subscription {
	sub := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	sub.queued = false
	return sub
}

// hold has a subscription looked at when its rate allows the next message.
func (s *subscriptions) hold(sub *subscription, until time.Time) {
	if s.holds == nil {
		s.holds = make(map[*subscription]time.Time)
	}
	s.holds[sub] = until
}

// earliest is the first end of a hold, limit if none is earlier.
func (s *subscriptions) earliest(limit time.Time) time.Time {
	for _, until := range s.holds {
		if until.Before(limit) {
			limit = until
		}
	}
	return limit
}

// endHolds enqueues those whose rate allows the next message.
func (s *subscriptions) endHolds(now time.Time) {
	for sub, until := range s.holds {
		if !now.Before(until) {
			delete(s.holds, sub)
			s.enqueue(sub)
		}
	}
}

// foldAll has what waits of each go out as one change.
func (s *subscriptions) foldAll() {
	for _, sub := range s.byID {
		sub.cursor.Hold()
	}
}
