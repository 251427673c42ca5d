package notify

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// A topic is a query that WebSocket clients follow. It reads for all of them
// what would be the same for each.
type topic struct {
	query    string
	srv      *Server
	follower *Follower
	queued   atomic.Bool // is in the worker pool's queue

	mu     sync.Mutex
	subs   []*subscription // each knows its place
	stale  bool            // something happened since status was read
	status *registry.Status

	predictedWith *registry.Status // with which next was asked for,
	predictedAt   time.Time        // then
	nextRun       time.Time
}

// joinTopic enters a subscription among the followers of its query. What is committed
// from now on wakes it, so the log is to be read afterwards.
func (s *Server) joinTopic(sub *subscription) {
	s.topicsMu.Lock()
	defer s.topicsMu.Unlock()
	t := s.topics[sub.follows]
	if t == nil {
		t = &topic{query: sub.follows, srv: s, stale: true}
		t.follower = s.opts.Waker.Call(t.query, t.wake)
		s.topics[t.query] = t
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.topic, sub.place = t, len(t.subs)
	t.subs = append(t.subs, sub)
}

// leaveTopic undoes join.
func (s *Server) leaveTopic(sub *subscription) {
	s.topicsMu.Lock()
	defer s.topicsMu.Unlock()
	t := sub.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.subs) - 1
	t.subs[sub.place] = t.subs[last]
	t.subs[sub.place].place = sub.place
	t.subs = slices.Delete(t.subs, last, last+1)
	if last == 0 {
		t.follower.Close()
		delete(s.topics, t.query)
	}
}

// wake runs within Waker.Wake and leaves the rest to the worker pool.
func (t *topic) wake() {
	if t.queued.CompareAndSwap(false, true) {
		t.srv.workers.push(t)
	}
}

// work wakes the followers.
func (t *topic) work() bool {
	t.queued.Store(false) // first: what happens from now on is another wake-up
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = true
	for _, sub := range t.subs {
		sub.session.notify(sub)
	}
	return false
}

// current is the query's status after the last wake-up or later. It is shared:
// no one may write to it.
func (t *topic) current() (*registry.Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stale {
		return t.status, nil
	}
	st, _, err := t.srv.opts.Log.Current(t.query, false)
	if err != nil {
		return nil, err
	}
	t.status, t.stale = &st, false
	return t.status, nil
}

// due predicts when the query runs next, once for all followers that get the same
// status; zero if that cannot be predicted. It does not hold the lock during the
// prediction, which may take as long as a slot takes to begin.
func (t *topic) due(endpoint string) time.Time {
	if t.srv.opts.Due == nil {
		return time.Time{}
	}
	t.mu.Lock()
	status, known := t.status, t.predictedWith != nil && t.predictedWith == t.status && time.Since(t.predictedAt) < time.Second
	nextRun := t.nextRun
	t.mu.Unlock()
	if known {
		return nextRun
	}
	nextRun, err := t.srv.opts.Due(endpoint, t.query)
	if err != nil {
		t.srv.opts.Logger.Error("predict when a query runs", "query", t.query, "error", err)
		return time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.predictedWith, t.predictedAt, t.nextRun = status, time.Now(), nextRun
	return nextRun
}

// expire makes the next caller read the status again.
func (t *topic) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = true
}
