package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// Errors of loops. Users see these texts.
var (
	ErrPaused   = errors.New("the endpoint is paused")
	ErrBlackout = errors.New("the endpoint is in a blackout time")
	ErrStopped  = errors.New("the scheduler has stopped")
	ErrCharged  = errors.New("trial runs have used up the next slot's budget, try again later")
)

// A Note notifies followers of a query or a profile of a commit.
type Note struct {
	Query   string
	Changed bool   // there is a new change
	Status  bool   // it became live or stale
	Profile string // instead of a query: a round of this profile was captured or expired
}

// A Config configures a loop. Endpoint, Ledger and Executor are required.
type Config struct {
	Endpoint registry.Endpoint
	Ledger   Ledger
	Executor Executor
	Clock    Clock        // nil: the system's
	Wake     func([]Note) // called after each commit that changed something; must not block
	Logger   *slog.Logger // nil: no log
	// Writable returns an error that wraps registry.ErrReadOnly while the ledger is
	// read-only; then no slot begins. nil: the ledger is always writable.
	Writable func() error
	// Grace is how long a Manager waits for a loop to end, 0 means DefaultGrace.
	// After that it stops waiting.
	Grace time.Duration
}

// DefaultGrace is more than a loop needs to end: all processing of an answer checks
// its context every few milliseconds.
const DefaultGrace = 10 * time.Second

// A Loop runs the slots of one endpoint, one at a time. Its methods may be
// called concurrently.
type Loop struct {
	ledger   Ledger
	writable func() error
	clock    Clock
	wake     func([]Note)
	log      *slog.Logger
	limiter  limiter
	digests  digests
	ticks    chan tick
	hinted   chan struct{} // hints have marked queries
	reconf   chan struct{} // settings changed: recompute the next grid time
	finished chan struct{} // closed when Run has returned; trial runs may continue
	up       chan struct{} // closed when the ledger has been read for the first time
	trials   sync.WaitGroup

	// handover is held from when an answer is accepted until, if it changes something,
	// it is committed, so that no answer of a replaced client is accepted. It is also
	// held while the health of a client is recorded. It is acquired before mu.
	handover lock

	seen atomic.Pointer[LoopState] // the state when the lock was last free to compute it

	mu         lock // guards the fields below; never held during an execution, nor for long: see lock
	set        settings
	waiting    *settings // replaces set after the running slot
	executor   Executor
	nextExec   Executor // replaces executor after the running slot
	planner    *plan.Planner
	revision   uint64
	space      uint64 // of the endpoint, as last read
	loaded     bool
	loadedOnce sync.Once // closes up
	running    bool
	grid       time.Time // last grid time whose slot was run or skipped
	followed   time.Time // when hints were last followed; a grid time since then is not skipped
	next       time.Time // the next grid time, zero if there is none
	last       Slot
	charge     time.Duration   // used by trial runs and outside the grid, paid by the next slots
	reserved   time.Duration   // for those in progress
	ended      time.Time       // end of the last execution, trial runs included
	over       bool            // no more executions
	halted     error           // why no slot begins, nil if slots do
	health     registry.Health // as recorded
	streak     streak
	asked      Asked
	audits     audits
	merging    bool           // news from the ledger is being merged into the plan
	late       *registry.Hint // a hint that came during the merge; it also applies to queries merged after it
}

type tick struct{ done chan ticked }

type ticked struct {
	slot Slot
	err  error
}

// A LoopState describes the state of an endpoint's loop.
type LoopState struct {
	Endpoint string          `json:"endpoint"`
	Running  bool            `json:"running"` // a slot runs now
	Next     time.Time       `json:"next,omitzero"`
	Queries  int             `json:"queries"`
	Debt     float64         `json:"debt_seconds"` // the coming slots repay it, at most half a budget each
	Last     Slot            `json:"last"`
	Health   registry.Health `json:"health"`
	Halted   string          `json:"halted,omitempty"` // why no slot begins
	// NextTry is the next slot that sends requests; zero unless the health restricts
	// them.
	NextTry time.Time              `json:"next_try,omitzero"`
	States  map[registry.State]int `json:"states"`          // queries by state
	Results int                    `json:"results"`         // queries that have a result
	Oldest  time.Time              `json:"oldest,omitzero"` // when the oldest result was last known to be true, to the second
}

// NewLoop checks the settings. It does not read the ledger yet.
func NewLoop(c Config) (*Loop, error) {
	set, err := read(c.Endpoint)
	if err != nil {
		return nil, err
	}
	l := &Loop{
		mu: newLock(), handover: newLock(),
		ledger: c.Ledger, clock: c.Clock, wake: c.Wake, log: c.Logger, executor: c.Executor,
		ticks: make(chan tick), hinted: make(chan struct{}, 1), reconf: make(chan struct{}, 1), finished: make(chan struct{}), up: make(chan struct{}),
		set: set, audits: audits{},
	}
	if l.clock == nil {
		l.clock = SystemClock{}
	}
	if l.wake == nil {
		l.wake = func([]Note) {}
	}
	if l.writable = c.Writable; l.writable == nil {
		l.writable = func() error { return nil }
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.log = l.log.With("endpoint", set.endpoint.Name)
	l.limiter.resize(set.endpoint.Concurrency)
	l.blank()
	l.seen.Store(&LoopState{Endpoint: set.endpoint.Name, States: l.planner.Census().States})
	return l, nil
}

// blank makes an empty planner.
func (l *Loop) blank() {
	e := l.set.endpoint
	l.planner, l.loaded, l.revision = plan.New(l.set.policy, time.Duration(e.Budget)), false, 0
	l.planner.SetBudget(plan.Rule(e.Rule), time.Duration(e.Budget))
	l.planner.SetClaims(l.set.ranking, e.ProfileShare)
	l.planner.Yield(l.mu.let)
}

// SystemClock is the system's clock.
type SystemClock struct{}

func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits until t.
func (SystemClock) Sleep(ctx context.Context, until time.Time) error {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reconfigure changes the endpoint's settings and keeps what is known about its
// queries. A running slot ends under the old settings. With another executor, the
// running slot starts nothing more and drops its running executions: once
// Reconfigure has returned, no answer of the old executor is accepted. The name
// cannot change.
func (l *Loop) Reconfigure(e registry.Endpoint) error { return l.reconfigure(e, nil) }

func (l *Loop) reconfigure(e registry.Endpoint, x Executor) error {
	set, err := read(e)
	if err != nil {
		return err
	}
	if x != nil {
		l.handover.Lock()
		defer l.handover.Unlock()
	}
	l.mu.Lock()
	if set.endpoint.Name != l.set.endpoint.Name {
		l.mu.Unlock()
		return fmt.Errorf("endpoint %s cannot become %s", l.set.endpoint.Name, set.endpoint.Name)
	}
	l.waiting = &set
	if x != nil {
		l.nextExec = x
	}
	if !l.running && l.mu.half == nil { // else the loop, or the goroutine that works on the plan, calls it next
		l.apply()
	}
	l.mu.Unlock()
	select {
	case l.reconf <- struct{}{}:
	default:
	}
	return nil
}

// apply puts waiting settings in force, including those that arrive meanwhile. It
// reports whether the executor changed. The caller holds the lock with a complete
// plan.
func (l *Loop) apply() (moved bool) {
	for l.waiting != nil || l.nextExec != nil {
		if l.nextExec != nil {
			l.executor, l.nextExec, moved = l.nextExec, nil, true
			l.health = registry.Health{} // the edit may have changed the recorded health
			l.streak = streak{}
		}
		if l.waiting != nil {
			l.adopt()
		}
	}
	return moved
}

// adopt puts waiting settings in force.
func (l *Loop) adopt() {
	old := l.set
	l.set, l.waiting = *l.waiting, nil
	if e := l.set.endpoint; old.policy.String() != l.set.policy.String() || old.endpoint.Budget != e.Budget || old.endpoint.Rule != e.Rule {
		l.planner.SetPolicy(l.set.policy, plan.Rule(e.Rule), time.Duration(e.Budget))
	}
	l.planner.SetClaims(l.set.ranking, l.set.endpoint.ProfileShare)
	l.limiter.resize(l.set.endpoint.Concurrency)
}

// merge is news for a caller that holds the lock with a complete plan, so that an
// older answer of the ledger is never applied after a newer one. No slot may be
// running.
func (l *Loop) merge(now time.Time) error {
	l.merging = true
	defer func() { l.merging = false }()
	name, since := l.set.endpoint.Name, l.revision
	var news News
	var err error
	var held map[string]bool
	l.mu.let(func() {
		if news, err = l.ledger.Since(name, since); news.Full {
			held = idsOf(news.Entries)
		}
	})
	if err != nil {
		return fmt.Errorf("read the queries of endpoint %s: %w", name, err)
	}
	first := !l.loaded
	if first {
		l.health, l.streak = news.Health, streakOf(news.Health)
		l.last = news.Last
		l.last.Endpoint = name
		l.last.OffGrid.Used, l.last.OffGrid.Lent = l.last.OffGrid.total().Seconds(), 0
		l.charge = max(l.charge, exactly(l.last.OffGrid.Used))
		l.planner.Recall(news.Cohorts)
		l.planner.Resume(news.Last.Number+1, news.Last.Owes(), news.Policy.Policy, news.Policy.State)
		if news.Last.Number > 0 && now.After(l.ended) {
			l.ended = now // the latest possible time; the end of another process's last request is unknown
		}
	}
	l.planner.Merge(now, plan.Update{
		Keep: held, Removed: news.Removed, Entries: news.Entries, Edited: news.Edited,
		Reprofiled: news.Reprofiled, Profiles: news.Profiles, Models: news.Models,
	})
	l.digests.drop(news.Removed, held)
	l.revision, l.space, l.loaded = news.Revision, cmp.Or(news.Space, l.space), true
	l.loadedOnce.Do(func() { close(l.up) })
	if h := l.late; h != nil {
		l.late = nil
		l.planner.Hint(*h)
	}
	return nil
}

func idsOf(entries []policy.Entry) map[string]bool {
	ids := make(map[string]bool, len(entries))
	for i := range entries {
		ids[entries[i].Query.ID] = true
	}
	return ids
}

// readerWait is how long a page waits for a complete plan before it is shown
// without one. Merging many queries at once, or a change of policy, can take
// longer.
const readerWait = 50 * time.Millisecond
