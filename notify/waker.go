package notify

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Waker carries wake-ups from the writers of changes to their followers.
// It carries no data and starts no goroutine. A wake-up says "look at the log
// again"; several may arrive as one, none is lost. All methods may be called
// concurrently.
type Waker struct {
	mu      sync.Mutex
	queries map[string]*audience
	all     map[*Follower]struct{}
}

// An audience is the followers of a query. What would be read for each of them is read once
// after a wake-up.
type audience struct {
	followers map[*Follower]struct{} // guarded by Waker.mu
	wakes     atomic.Uint64

	mu     sync.Mutex
	status *registry.Status
	readAt uint64 // of wakes
	next   nextRun
}

// A nextRun is a prediction, made with a status.
type nextRun struct {
	with *registry.Status
	made time.Time
	at   time.Time
}

// current returns the query's status at the last wake-up or later. It is shared and must
// not be modified.
func (a *audience) current(read func() (registry.Status, error)) (*registry.Status, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wakes := a.wakes.Load()
	if a.status != nil && a.readAt == wakes {
		return a.status, nil
	}
	st, err := read()
	if err != nil {
		return nil, err
	}
	a.status, a.readAt = &st, wakes
	return a.status, nil
}

// expire makes the next caller read the status again.
func (a *audience) expire() { a.wakes.Add(1) }

// due predicts when the query runs next, once a second for all that have the same status. It
// does not hold the lock during the prediction, which may take as long as the start of a slot.
func (a *audience) due(st *registry.Status, predict func() time.Time) time.Time {
	a.mu.Lock()
	known := a.next
	a.mu.Unlock()
	if known.with == st && time.Since(known.made) < time.Second {
		return known.at
	}
	at := predict()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = nextRun{st, time.Now(), at}
	return at
}

// NewWaker returns a waker without followers.
func NewWaker() *Waker {
	return &Waker{
		queries: make(map[string]*audience),
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
	if len(queries) > 1 { // a connection that follows several waits for all of them
		for _, q := range queries {
			h.queries[q].enterTurns()
		}
	}
	for _, q := range queries {
		h.queries[q].wake(q)
	}
	for f := range h.all {
		f.signal()
	}
}

func (a *audience) enterTurns() {
	if a == nil {
		return
	}
	for f := range a.followers {
		f.enterTurn()
	}
}

func (a *audience) wake(query string) {
	if a == nil {
		return
	}
	a.expire()
	for f := range a.followers {
		f.mark(query)
	}
}

// WakeAll wakes the followers of every query, for changes that affect many queries at
// once such as the removal of an endpoint.
func (h *Waker) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for q, a := range h.queries {
		a.wake(q)
	}
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

// followOne returns a follower of one query. Its wake-ups enter a turn, unless that is nil.
func (h *Waker) followOne(query string, t Turn) *Follower {
	f := &Follower{waker: h, c: make(chan struct{}, 1), turn: t}
	f.audience = f.add(query)
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
	if a := h.queries[query]; a != nil {
		return len(a.followers)
	}
	return 0
}

// A Follower is one reader's interest in any number of queries. It collects the
// queries that were woken, so that one goroutine can follow many.
type Follower struct {
	waker *Waker
	c     chan struct{}

	audience *audience   // of followOne
	turn     Turn        // of followOne, may be nil
	timer    *time.Timer // of wait
	alarmAt  time.Time   // when it fires
	unhook   func() bool // ends the wake-up at the end of the context
	resting  atomic.Bool // has left turn

	mu    sync.Mutex
	dirty map[string]struct{} // at most one entry per followed query; nil: of followOne
	adds  map[string]int      // guarded by waker.mu: how often each query was added
}

// C delivers at least one value after a wake-up. It is never closed.
func (f *Follower) C() <-chan struct{} { return f.c }

// Add follows one more query. Adding it again needs as many calls of Remove.
func (f *Follower) Add(query string) { f.add(query) }

func (f *Follower) add(query string) *audience {
	h := f.waker
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.adds == nil {
		f.adds = make(map[string]int)
	}
	f.adds[query]++
	a := h.queries[query]
	if a == nil {
		a = &audience{followers: make(map[*Follower]struct{})}
		h.queries[query] = a
	}
	a.followers[f] = struct{}{}
	return a
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
	if a := f.waker.queries[query]; a != nil { // nil after Close
		delete(a.followers, f)
		if len(a.followers) == 0 {
			delete(f.waker.queries, query)
		}
	}
	f.mu.Lock()
	delete(f.dirty, query)
	f.mu.Unlock()
}

// Close ends all interest. Remove then has no effect.
func (f *Follower) Close() {
	f.waker.mu.Lock()
	defer f.waker.mu.Unlock()
	delete(f.waker.all, f)
	if f.unhook != nil {
		f.unhook()
	}
	if f.timer != nil {
		f.timer.Stop()
	}
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
	awake := slices.Collect(maps.Keys(f.dirty))
	clear(f.dirty)
	return awake
}

func (f *Follower) mark(query string) {
	if f.dirty != nil {
		f.mu.Lock()
		f.dirty[query] = struct{}{}
		f.mu.Unlock()
	}
	f.signal()
}

// rest leaves the turn until the next wake-up.
func (f *Follower) rest() {
	if f.turn != nil {
		f.resting.Store(true)
		f.turn.Leave()
	}
}

// enterTurn enters the turn again, unless it has been entered already.
func (f *Follower) enterTurn() {
	if f.turn != nil && f.resting.CompareAndSwap(true, false) {
		f.turn.Enter()
	}
}

func (f *Follower) signal() {
	f.enterTurn()
	select {
	case f.c <- struct{}{}:
	default: // a signal is waiting already
	}
}
