package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/rounds"
)

// A Config configures a loop. Endpoint, Ledger and Executor are required.
type Config struct {
	Endpoint registry.Endpoint
	Ledger   Ledger
	Executor Executor
	Clock    Clock        // nil: one of its own
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
//
// The comment of the package says what its parts do.
type Loop struct {
	*loopData
	pacer  *pacer
	trials *trials
}

// NewLoop checks the settings. It does not read the ledger yet.
func NewLoop(c Config) (*Loop, error) {
	set, err := read(c.Endpoint)
	if err != nil {
		return nil, err
	}
	l := &loopData{
		mu: newLock(), handover: newLock(), up: make(chan struct{}), finished: make(chan struct{}),
		ledger: c.Ledger, clock: c.Clock, wake: c.Wake, log: c.Logger, executor: c.Executor, writable: c.Writable,
		set: set, audits: audits{},
	}
	if l.clock == nil {
		l.clock = clock.New(time.Now, clock.Patience, cmp.Or(l.log, slog.New(slog.DiscardHandler)))
	}
	if l.wake == nil {
		l.wake = func([]Note) {}
	}
	if l.writable == nil {
		l.writable = func() error { return nil }
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.log = l.log.With("endpoint", set.endpoint.Name)
	l.comparer = &comparer{ledger: l.ledger, clock: l.clock}
	l.limiter.resize(atOnce(set.endpoint))
	l.blank()
	l.seen.Store(&LoopState{Endpoint: set.endpoint.Name, States: l.planner.Census().States})
	t := &trials{loopData: l}
	return &Loop{l, newPacer(l, t), t}, nil
}

// reconfigure changes the endpoint's settings and keeps what is known about its
// queries. A running slot ends under the old settings. If the new ones pause the endpoint,
// it starts nothing more. With another executor, it also drops its running executions: once
// reconfigure has returned, no answer of the old executor is accepted. The name
// cannot change.
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
	l.pacer.reconsider()
	return nil
}

// Run runs slots on the grid and on request until ctx is cancelled. Then it cuts
// the running executions, trial runs included, records what completed and returns
// nil. No slot runs while the ledger is read-only. Run returns an error of the ledger after
// which the loop or the process must end (see Ledger). Run is called once.
func (l *Loop) Run(ctx context.Context) error {
	defer l.trials.stop()
	if err := l.news(); err != nil {
		return err
	}
	return l.pacer.run(ctx)
}

// Tick runs a slot now, after those requested before, and returns its summary when
// everything in it is committed. It waits until Run has begun. If ctx ends first,
// the slot still runs to its end. The error wraps ErrPaused or ErrBlackout if no
// slot may run, and ErrStopped if Run returned or was cancelled before anything in
// the slot ran.
func (l *Loop) Tick(ctx context.Context) (Slot, error) {
	t := tick{done: make(chan ticked, 1)}
	select {
	case l.pacer.ticks <- t:
	case <-l.finished:
		return Slot{}, ErrStopped
	case <-ctx.Done():
		return Slot{}, ctx.Err()
	}
	select {
	case r := <-t.done:
		return r.slot, r.err
	case <-ctx.Done():
		return Slot{}, ctx.Err()
	}
}

// news updates the plan with the ledger's news.
func (l *Loop) news() error {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	err := l.update(now)
	l.state(now)
	return err
}

// readerWait is how long a page waits for a complete plan before it is shown
// without one. Merging many queries at once, or a change of policy, can take
// longer.
const readerWait = 50 * time.Millisecond

// State reports the state of the loop. Between slots it includes the latest edits of queries. While the loop reads its queries, or holds
// the lock for long, State returns the state before that.
func (l *Loop) State() LoopState {
	s, now := *l.seen.Load(), l.clock.Now()
	if l.mu.TryLock(readerWait) {
		if l.loaded && !l.running && l.mu.half == nil {
			_ = l.update(now)      // if the ledger cannot be read, the next slot says so
			l.planner.Advance(now) // a holder may have expired
		}
		if l.loaded || !l.updating {
			s = l.state(now)
		}
		l.mu.Unlock()
	}
	if l.writable() != nil {
		s.Halted, s.Next = readOnlyReason, time.Time{}
	}
	return s
}

// Answers returns once the loop's lock has been free. It never returns for a loop
// that is stuck.
func (l *Loop) Answers() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// NextRound predicts when the next round of a profile opens by time. It is zero if slot
// numbers or a change open it, or if too little is known for a prediction. NextRound
// does not read the ledger, so a profile that was registered after the last slot has no
// prediction yet.
func (l *Loop) NextRound(p registry.Profile) time.Time {
	now := l.clock.Now()
	next, byPrediction := rounds.Next(&p, now)
	if !byPrediction {
		return next
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.planner.Rounds().NextPredicted(p.ID, now)
}

// Trial executes a query once, within the endpoint's limits. It stores nothing except
// the endpoint's back-off. It waits until the limiter grants it a place. The next
// slot's budget pays for it, of which trial runs may use half. The error wraps ErrCharged if that half is used up,
// ErrPaused if the endpoint is paused, ErrBlackout in a blackout, ErrStarting until the
// loop has read the ledger and ErrStopped if it ends. Any other error is the ledger's.
func (l *Loop) Trial(ctx context.Context, q *registry.Query) (Answer, error) {
	return l.trials.run(ctx, q)
}

// Hint marks the queries that h may affect. They run at once if the last slot has left
// some of its budget, and otherwise in the next slot. So do queries that have never run,
// after a hint that says New. Hint may be called at any time.
func (l *Loop) Hint(h registry.Hint) (plan.Hinted, error) {
	if h.New {
		l.pacer.followNew()
		return plan.Hinted{}, nil
	}
	now := l.clock.Now()
	if !h.All {
		grow(l.loopData, (*plan.Planner).GrowPatterns)
	}
	if !l.mu.TryLockPlan(readerWait) {
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	switch {
	case l.updating: // queries already updated are marked at once
		l.late = plan.JoinHints(l.late, h)
	case !l.running && l.mu.half == nil:
		if err := l.update(now); err != nil {
			return plan.Hinted{}, err
		}
	}
	done := l.planner.Proofs().Hint(h, now)
	if done.Affected > 0 {
		l.pacer.followHint()
	}
	return done, nil
}

// Asked returns the requests so far.
func (l *Loop) Asked() Asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.asked
	a.Requests, a.Members, a.Causes = maps.Clone(a.Requests), maps.Clone(a.Members), maps.Clone(a.Causes)
	return a
}

// Templates describes the templates of the endpoint's queries, and how they are asked.
func (l *Loop) Templates() []cohort.Snapshot {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	if l.set.endpoint.Merge == registry.MergeOff {
		return nil
	}
	return l.planner.Cohorts(now)
}
