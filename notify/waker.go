package notify

import "sync"

// A Waker carries wake-ups from the writers of changes to their followers.
// It carries no data and starts no goroutine. A wake-up says "look at the log
// again"; several may arrive as one, none is lost. All methods may be called
// concurrently.
type Waker struct {
	mu      sync.Mutex
	queries map[string]map[*Follower]struct{}
	all     map[*Follower]struct{}
}

// NewWaker returns a waker without followers.
func NewWaker() *Waker {
	return &Waker{
		queries: make(map[string]map[*Follower]struct{}),
		all:     make(map[*Follower]struct{}),
	}
}

// Wake wakes the followers of these queries and those of all queries: there may be
// something new in the log or in a query's status. It must be called after the commit.
// It does not block. Its cost grows with the number of followers of these queries. What
// one connection gets because of one call is written together, so a commit of several
// queries takes one call.
func (h *Waker) Wake(queries ...string) {
	if len(queries) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var topics []*topic
	for _, q := range queries {
		topics = h.mark(q, topics)
	}
	wakeTopics(topics)
	for f := range h.all {
		f.signal()
	}
}

// mark wakes the followers of a query, and appends the topics that wakeTopics is to wake.
func (h *Waker) mark(query string, topics []*topic) []*topic {
	for f := range h.queries[query] {
		if f.topic == nil {
			f.mark(query)
		} else if f.topic.claim() {
			topics = append(topics, f.topic)
		}
	}
	return topics
}

// WakeAll wakes the followers of every query, for changes that affect many queries at
// once such as the removal of an endpoint.
func (h *Waker) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var topics []*topic
	for q := range h.queries {
		topics = h.mark(q, topics)
	}
	wakeTopics(topics)
	for f := range h.all {
		f.signal()
	}
}

// Follow returns a follower of these queries. Follow first and read the log
// afterwards: a commit between the two is then seen twice at worst and never missed.
func (h *Waker) Follow(queries ...string) *Follower {
	f := &Follower{waker: h, c: make(chan struct{}, 1), dirty: make(map[string]struct{})}
	for _, q := range queries {
		f.Add(q)
	}
	return f
}

// followTopic returns a follower that wakes a topic at every wake-up of its query instead
// of sending a signal.
func (h *Waker) followTopic(t *topic) *Follower {
	f := &Follower{waker: h, topic: t}
	f.Add(t.query)
	return f
}

// FollowAll returns a follower that is woken by every change.
func (h *Waker) FollowAll() *Follower {
	f := h.Follow()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[f] = struct{}{}
	return f
}

// Followers returns the number of followers of a query.
func (h *Waker) Followers(query string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queries[query])
}

// A Follower is one reader's interest in any number of queries. It collects the
// queries that were woken, so that one goroutine can follow many.
type Follower struct {
	waker *Waker
	c     chan struct{}
	topic *topic // is woken instead of c, when it is set

	mu    sync.Mutex
	dirty map[string]struct{} // at most one entry per followed query
	adds  map[string]int      // guarded by waker.mu: how often each query was added
}

// C delivers at least one value after a wake-up. It is never closed.
func (f *Follower) C() <-chan struct{} { return f.c }

// Add follows one more query. Adding it again needs as many calls of Remove.
func (f *Follower) Add(query string) {
	h := f.waker
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.adds == nil {
		f.adds = make(map[string]int)
	}
	f.adds[query]++
	set := h.queries[query]
	if set == nil {
		set = make(map[*Follower]struct{})
		h.queries[query] = set
	}
	set[f] = struct{}{}
}

// Remove undoes one Add.
func (f *Follower) Remove(query string) {
	f.waker.mu.Lock()
	defer f.waker.mu.Unlock()
	if f.adds[query]--; f.adds[query] > 0 {
		return
	}
	f.drop(query)
}

func (f *Follower) drop(query string) {
	delete(f.adds, query)
	set := f.waker.queries[query]
	delete(set, f)
	if len(set) == 0 {
		delete(f.waker.queries, query)
	}
	f.mu.Lock()
	delete(f.dirty, query)
	f.mu.Unlock()
}

// Close ends all interest.
func (f *Follower) Close() {
	f.waker.mu.Lock()
	defer f.waker.mu.Unlock()
	delete(f.waker.all, f)
	for q := range f.adds {
		f.drop(q)
	}
}

// Take returns the queries that were woken since the last call.
func (f *Follower) Take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.dirty) == 0 {
		return nil
	}
	awake := make([]string, 0, len(f.dirty))
	for q := range f.dirty {
		awake = append(awake, q)
	}
	clear(f.dirty)
	return awake
}

func (f *Follower) mark(query string) {
	f.mu.Lock()
	f.dirty[query] = struct{}{}
	f.mu.Unlock()
	f.signal()
}

func (f *Follower) signal() {
	select {
	case f.c <- struct{}{}:
	default: // a signal is waiting already
	}
}
