package notify

import (
	"slices"
	"time"
)

// A turnQueue holds the subscriptions of one session: by id, in turn, and on hold.
type turnQueue struct {
	srv   *Server
	byID  map[string]*subscription
	queue []*subscription             // that may have something to send, in turn
	holds map[*subscription]time.Time // when their rate allows the next message
}

// enter adds a subscription. Every later commit wakes it.
func (q *turnQueue) enter(sub *subscription) {
	q.byID[sub.id] = sub
	sub.member = q.srv.topics.join(sub.follows, sub)
	q.srv.subscriptions.Add(1)
}

// leave removes a subscription.
func (q *turnQueue) leave(sub *subscription) {
	sub.over = true
	delete(q.byID, sub.id)
	delete(q.holds, sub)
	q.queue = slices.DeleteFunc(q.queue, func(other *subscription) bool { return other == sub })
	q.release(sub)
}

// release ends a subscription's wake-ups and its hold on the query.
func (q *turnQueue) release(sub *subscription) {
	q.srv.topics.leave(sub.member)
	q.srv.subscriptions.Add(-1)
	q.srv.listing.remove(sub.listed)
	sub.release()
}

// close releases all.
func (q *turnQueue) close() {
	for _, sub := range q.byID {
		q.release(sub)
	}
	clear(q.byID)
	q.queue, q.holds = nil, nil
}

// enqueue gives a subscription a turn.
func (q *turnQueue) enqueue(sub *subscription) {
	if !sub.queued && !sub.over {
		sub.queued = true
		q.queue = append(q.queue, sub)
	}
}

// next removes and returns the subscription whose turn it is.
func (q *turnQueue) next() *subscription {
	sub := q.queue[0]
	q.queue = slices.Delete(q.queue, 0, 1)
	sub.queued = false
	return sub
}

// hold enqueues a subscription when its rate allows the next message.
func (q *turnQueue) hold(sub *subscription, until time.Time) {
	if q.holds == nil {
		q.holds = make(map[*subscription]time.Time)
	}
	q.holds[sub] = until
}

// earliest returns the first end of a hold, or limit if none is earlier.
func (q *turnQueue) earliest(limit time.Time) time.Time {
	for _, until := range q.holds {
		if until.Before(limit) {
			limit = until
		}
	}
	return limit
}

// endHolds enqueues those whose rate allows the next message.
func (q *turnQueue) endHolds(now time.Time) {
	for sub, until := range q.holds {
		if !now.Before(until) {
			delete(q.holds, sub)
			q.enqueue(sub)
		}
	}
}

// foldAll folds the waiting changes of each subscription into one.
func (q *turnQueue) foldAll() {
	for _, sub := range q.byID {
		sub.cursor.Hold()
	}
}
