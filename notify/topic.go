package notify

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// A topicTable holds the topics that have followers.
type topicTable struct {
	log     Log
	waker   *Waker
	due     func(endpoint, query string) (time.Time, error) // nil: it never can be predicted
	logger  *slog.Logger
	workers *workerPool

	mu     sync.Mutex // before a topic's and the waker's
	topics map[string]*topic
}

// A topic is a query or a profile that WebSocket clients follow. It reads for all of
// them what would be the same for each.
type topic struct {
	query    string
	table    *topicTable
	follower *Follower
	queued   atomic.Bool // is in the worker pool's queue
	waking   *waking     // that it was queued for

	mu      sync.Mutex
	members []*membership // each knows its place
	stale   bool          // there was a wake-up since status was read
	status  *registry.Status

	predictedWith *registry.Status // the status when the next run was predicted
	predictedAt   time.Time
	nextRun       time.Time
}

// A membership is one follower's entry in a topic.
type membership struct {
	topic *topic
	place int // in topic.members, guarded by topic.mu
	sub   *subscription
}

// join adds a subscription to a topic. Every later commit wakes it, so the log is to be
// read afterwards.
func (t *topicTable) join(query string, sub *subscription) *membership {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.topics[query]
	if x == nil {
		x = &topic{query: query, table: t, stale: true}
		x.follower = t.waker.followTopic(x)
		t.topics[query] = x
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &membership{topic: x, place: len(x.members), sub: sub}
	x.members = append(x.members, m)
	return m
}

// leave removes a follower from its topic.
func (t *topicTable) leave(m *membership) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := m.topic
	x.mu.Lock()
	defer x.mu.Unlock()
	last := len(x.members) - 1
	x.members[m.place] = x.members[last]
	x.members[m.place].place = m.place
	x.members = slices.Delete(x.members, last, last+1)
	if last == 0 {
		x.follower.Close()
		delete(t.topics, x.query)
	}
}

// A waking is one wake-up of several topics, because of one commit. It queues a session
// when all topics have marked what the session follows. So the session writes the changes
// of a commit together, however the topics' turns and the session's meet.
type waking struct {
	topics atomic.Int64 // that have yet to mark

	mu       sync.Mutex
	sessions []*session
}

// claim reports whether the caller is to wake the topic: the wake-up before has begun.
func (t *topic) claim() bool { return t.queued.CompareAndSwap(false, true) }

// wakeTopics leaves the wake-up of claimed topics to the worker pool.
func wakeTopics(topics []*topic) {
	w := &waking{}
	w.topics.Store(int64(len(topics)))
	for _, t := range topics {
		t.waking = w
		t.table.workers.push(t)
	}
}

// add adds a session that has something to look at.
func (w *waking) add(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions = append(w.sessions, s)
}

// marked records that a topic has marked all that follows it. The last one queues the
// sessions.
func (w *waking) marked() {
	if w.topics.Add(-1) > 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		s.schedule(dueMail)
	}
}

// work marks the subscriptions of the topic. The first one of a session adds the session to
// the wake-up; a session with marks is queued by the wake-up that it was added to.
func (t *topic) work() bool {
	w := t.waking
	t.queued.Store(false) // first: what happens from now on is another wake-up
	defer w.marked()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = true
	for _, m := range t.members {
		if s := m.sub.session; s.mail.wake(m.sub) {
			w.add(s)
		}
	}
	return false
}

// current returns the query's status at the last wake-up or later. It is shared and
// must not be modified.
func (t *topic) current() (*registry.Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stale {
		return t.status, nil
	}
	st, _, err := t.table.log.Current(t.query, false)
	if err != nil {
		return nil, err
	}
	t.status, t.stale = &st, false
	return t.status, nil
}

// due predicts when the query runs next, once for all followers that get the same
// status. It returns zero if that cannot be predicted. It does not hold the lock
// during the prediction, which may take as long as the start of a slot.
func (t *topic) due(endpoint string) time.Time {
	if t.table.due == nil {
		return time.Time{}
	}
	t.mu.Lock()
	status, known := t.status, t.predictedWith != nil && t.predictedWith == t.status && time.Since(t.predictedAt) < time.Second
	nextRun := t.nextRun
	t.mu.Unlock()
	if known {
		return nextRun
	}
	nextRun, err := t.table.due(endpoint, t.query)
	if err != nil {
		t.table.logger.Error("predict when a query runs", "query", t.query, "error", err)
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
