package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// Errors of loops. They are sentences for people.
var (
	ErrPaused   = errors.New("the endpoint is paused")
	ErrBlackout = errors.New("the endpoint is in a blackout time")
	ErrStopped  = errors.New("the scheduler has stopped")
	ErrCharged  = errors.New("trial runs have used up the next slot's budget, try again later")
)

// A Note tells followers of a query, or a profile, that something about it was
// committed.
type Note struct {
	Query   string
	Changed bool   // there is a new change
	Status  bool   // it became live or stale
	Profile string // instead of a query: a round of this profile was captured or expired
}

// A Config is what a loop needs. Endpoint, Ledger and Executor must be given.
type Config struct {
	Endpoint registry.Endpoint
	Ledger   Ledger
	Executor Executor
	Clock    Clock        // nil: the system's
	Wake     func([]Note) // called after each commit that changed something; must not block
	Logger   *slog.Logger // nil: silence
	// Writable returns an error that wraps registry.ErrReadOnly while the ledger
	// takes no writes: no slot begins then. nil: it always does.
	Writable func() error
	// Grace is how long a Manager waits for a loop that was told to end, 0 means
	// DefaultGrace. A loop that has not ended then is left behind.
	Grace time.Duration
}

// DefaultGrace is long for a loop to end: whatever it does with an answer looks
// at its context every few milliseconds.
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
	ticks    chan tick
	reconf   chan struct{} // settings changed: look at the grid again
	finished chan struct{} // closed when Run is over; trial runs may go on
	up       chan struct{} // closed when the ledger has been read for the first time
	trials   sync.WaitGroup

	// handover is held while an answer is taken and, if it changes something,
	// committed, so that no answer of a client that was replaced is; and while the
	// health of a client is noted. It comes before mu.
	handover sync.Mutex

	seen atomic.Pointer[LoopState] // the state when the lock was last free for it

	mu         lock // guards what follows; never held while executing, nor for long: see lock
	set        settings
	waiting    *settings // replaces set when the slot that runs is over
	executor   Executor
	nextExec   Executor // replaces executor likewise
	planner    *planner
	revision   uint64
	loaded     bool
	loadedOnce sync.Once // closes up
	running    bool
	grid       time.Time // last grid time that was run or skipped
	next       time.Time // the grid time waited for, zero when none
	last       Slot
	charge     time.Duration   // by trial runs, to be paid by the next slots
	reserved   time.Duration   // by trial runs in progress
	ended      time.Time       // when the last execution was over, trial runs included
	over       bool            // nothing is executed any more
	halted     error           // why no slot begins, nil when slots do
	health     registry.Health // as recorded
	streak     streak
	edited     time.Time      // see News.Edited
	merging    bool           // news of the ledger is on its way into the plan
	late       *registry.Hint // came then: queries that came later are to have it too
}

type tick struct{ done chan ticked }

type ticked struct {
	slot Slot
	err  error
}

// NewLoop checks the settings; it reads nothing yet.
func NewLoop(c Config) (*Loop, error) {
	set, err := read(c.Endpoint)
	if err != nil {
		return nil, err
	}
	l := &Loop{
		mu:     newLock(),
		ledger: c.Ledger, clock: c.Clock, wake: c.Wake, log: c.Logger, executor: c.Executor,
		ticks: make(chan tick), reconf: make(chan struct{}, 1), finished: make(chan struct{}), up: make(chan struct{}),
		set: set,
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
	l.seen.Store(&LoopState{Endpoint: set.endpoint.Name, States: l.planner.tally.all()})
	return l, nil
}

// blank makes a planner that knows nothing yet.
func (l *Loop) blank() {
	e := l.set.endpoint
	l.planner, l.loaded, l.revision = newPlanner(l.set.policy, time.Duration(e.Budget)), false, 0
	l.planner.allow(rule(e.Rule), time.Duration(e.Budget))
	l.planner.claimFor(l.set.ranking, e.ProfileShare)
	l.planner.let = l.mu.let
}

// SystemClock is the clock on the wall.
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

// Run runs slots on the grid and on request until ctx is cancelled: then it
// cuts what runs, trial runs included, records what ran and returns nil. While
// the ledger takes no writes no slot runs. Any other error of the ledger is
// returned, and means that the process must end. Run is called once.
func (l *Loop) Run(ctx context.Context) error {
	defer l.stopTrials()
	if err := l.news(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := l.step(ctx)
		if errors.Is(err, registry.ErrReadOnly) {
			err = l.forget(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget follows a batch that was not recorded: what the planner knows of it is
// wrong, so the loop begins again from what is recorded, as after a restart.
func (l *Loop) forget(why error) error {
	l.log.Warn("a slot was not recorded: its queries run again", "error", why)
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	l.apply()
	l.blank()
	l.halted = why
	return l.merge(now)
}

// halt returns why no slot may begin, and remembers it.
func (l *Loop) halt() error {
	err := l.writable()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = err
	return err
}

// step waits for whatever comes next and does it.
func (l *Loop) step(ctx context.Context) error {
	next := l.schedule()
	until, expire := l.wakeTime(next)
	arrived, stop := l.await(ctx, until)
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-l.reconf:
		return nil
	case <-arrived:
		now := l.clock.Now()
		if early := until.Sub(now); early > 0 && early <= timerSlack {
			// The timer was a little early. Looked for again, the time might be over.
			_ = l.clock.Sleep(ctx, until)
			now = l.clock.Now()
		}
		if ctx.Err() != nil || now.Before(until) {
			return nil
		}
		halted := l.halt() != nil
		if expire {
			if halted {
				return nil
			}
			return l.expireRounds()
		}
		l.mu.Lock()
		l.grid = next
		missed := now.Sub(next) > clockCheck || !l.set.blackouts.end(now).IsZero()
		l.mu.Unlock()
		if missed || halted { // the machine has slept, or the clock was set
			return nil
		}
		_, err := l.slot(ctx, false)
		return err
	case t := <-l.ticks:
		stop()
		if err := l.refuse(); err != nil {
			t.done <- ticked{err: err}
			return nil
		}
		s, err := l.slot(ctx, true)
		if err == nil && s.Finished.IsZero() {
			t.done <- ticked{err: ErrStopped}
			return nil
		}
		t.done <- ticked{s, err}
		return err
	}
}

// schedule finds the next grid time, by settings that may have come while others
// worked on the plan. What passed meanwhile is skipped.
func (l *Loop) schedule() time.Time {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	l.apply()
	l.next = time.Time{}
	if l.set.endpoint.Pause != nil {
		return l.next
	}
	after := now.Add(-1) // a grid time that is now is not over
	// A timer may be a little early, but that is the grid time itself. Where there
	// are others in between, the clock was set back.
	if l.grid.After(after) && !l.set.schedule.Next(after).Before(l.grid) {
		after = l.grid
	}
	l.next = l.set.blackouts.next(l.set.schedule, after)
	if l.next.IsZero() && !l.set.schedule.Next(after).IsZero() {
		l.log.Warn("no slot for a thousand grid times: the blackout times cover them")
	}
	return l.next
}

// nap is how long the loop waits at most before it looks at the clock again:
// timers do not hear of it when the clock is set, or the machine sleeps.
const clockCheck = time.Minute

// await waits for a time in the background, no longer than a nap; stop ends the
// waiting and may be called twice. A zero time never arrives.
func (l *Loop) await(ctx context.Context, until time.Time) (arrived chan struct{}, stop func()) {
	if until.IsZero() {
		return nil, func() {}
	}
	if soon := l.clock.Now().Add(clockCheck); soon.Before(until) {
		until = soon
	}
	ctx, cancel := context.WithCancel(ctx)
	arrived, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		if l.clock.Sleep(ctx, until) == nil {
			close(arrived)
		}
	}()
	return arrived, func() {
		cancel()
		<-over
	}
}

// refuse says why no slot may run now.
func (l *Loop) refuse() error {
	if err := l.halt(); err != nil {
		return fmt.Errorf("tick: %w", err)
	}
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.set.endpoint.Pause; p != nil {
		return fmt.Errorf("tick %s: %w since %s by %s", l.set.endpoint.Name, ErrPaused, p.At.UTC().Format(time.RFC3339), p.By)
	}
	if end := l.set.blackouts.end(now); !end.IsZero() {
		return fmt.Errorf("tick %s: %w until %s", l.set.endpoint.Name, ErrBlackout, end.UTC().Format(time.RFC3339))
	}
	return nil
}

// Tick runs the next slot now, after those asked for before, and returns its
// summary when everything of it is committed. It waits until Run has begun.
// When ctx ends first the slot runs on all the same. The error wraps ErrPaused
// or ErrBlackout when no slot may run, ErrStopped when Run has returned or was
// told to before anything of the slot ran.
func (l *Loop) Tick(ctx context.Context) (Slot, error) {
	t := tick{done: make(chan ticked, 1)}
	select {
	case l.ticks <- t:
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

// Reconfigure changes the endpoint's settings without losing what is known of
// its queries. A slot that runs ends under the old ones. With another executor it
// starts nothing more, and what it still runs is dropped: once this returns, no
// answer of the old one is taken. The name stays.
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
	if !l.running && l.mu.half == nil { // else whoever works on the plan, or the loop, does it next
		l.apply()
	}
	l.mu.Unlock()
	select {
	case l.reconf <- struct{}{}:
	default:
	}
	return nil
}

// apply puts waiting settings in force, those too that come meanwhile, and says
// whether there is another executor. It is called with the lock of the plan.
func (l *Loop) apply() (moved bool) {
	for l.waiting != nil || l.nextExec != nil {
		if l.nextExec != nil {
			l.executor, l.nextExec, moved = l.nextExec, nil, true
			l.health = registry.Health{} // the edit may have changed what the ledger has of it
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
		l.planner.reset(l.set.policy, rule(e.Rule), time.Duration(e.Budget))
	}
	l.planner.claimFor(l.set.ranking, l.set.endpoint.ProfileShare)
	l.limiter.resize(l.set.endpoint.Concurrency)
}

// news brings what the ledger has new.
func (l *Loop) news() error {
	now := l.clock.Now()
	l.mu.LockPlan()
	defer l.mu.Unlock()
	err := l.merge(now)
	l.state(now)
	return err
}

// merge is news with the lock of the plan, so that an older answer of the ledger
// can never be applied after a newer one. No slot may be running.
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
		l.edited = news.Edited
		l.last = news.Last
		l.last.Endpoint = name
		l.planner.slot, l.planner.debt = news.Last.Number+1, news.Last.Owes()
		l.planner.restore(news.Policy)
		if news.Last.Number > 0 && now.After(l.ended) {
			l.ended = now // at the latest; nobody knows when the last request of another process was over
		}
	}
	l.planner.now = now.Round(0)
	if news.Full {
		l.planner.keep(held)
	}
	for i, id := range news.Removed {
		l.planner.pause(i)
		l.planner.drop(id)
	}
	if news.Edited.After(l.edited) {
		l.edited = news.Edited
		l.planner.forgive(l.edited)
	}
	for i, e := range news.Entries {
		l.planner.pause(i)
		s := e.Stats.Clone()
		s.Forgive(l.edited)
		l.planner.put(e.Query, s)
	}
	if news.Reprofiled {
		l.planner.rounds.Load(news.Profiles, news.Models, l.planner.slot)
	}
	l.revision, l.loaded = news.Revision, true
	l.loadedOnce.Do(func() { close(l.up) })
	if h := l.late; h != nil {
		l.late = nil
		l.planner.hint(*h)
	}
	return nil
}

func idsOf(entries []Entry) map[string]bool {
	ids := make(map[string]bool, len(entries))
	for i := range entries {
		ids[entries[i].Query.ID] = true
	}
	return ids
}

// State reports how the loop is doing. While its queries are being read, or the
// lock is held for long, it is the state before that.
func (l *Loop) State() LoopState {
	s, now := *l.seen.Load(), l.clock.Now()
	if l.mu.TryLock(readerWait) {
		if l.loaded && !l.running && l.mu.half == nil {
			l.planner.advance(now) // a holder's time may be over
		}
		if l.loaded || !l.merging {
			s = l.state(now)
		}
		l.mu.Unlock()
	}
	if l.writable() != nil {
		s.Halted = "no slot runs: " + registry.ErrReadOnly.Error()
	}
	return s
}

// isUp reports whether the loop has read its queries and last slot. It waits for
// that for at most startWait.
func (l *Loop) isUp() bool {
	select {
	case <-l.up:
		return true
	default:
	}
	t := time.NewTimer(startWait)
	defer t.Stop()
	select {
	case <-l.up:
		return true
	case <-l.finished:
	case <-t.C:
	}
	return false
}

// startWait is how long a reader waits for a loop that has just been started.
const startWait = time.Second

// Answers returns when the loop's lock has been free, so never for one that is
// stuck.
func (l *Loop) Answers() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// readerWait is how long a page waits for the plan before it does without: taking in
// many queries at once, or another policy, takes longer where there are many.
const readerWait = 50 * time.Millisecond

// state makes the state and keeps it for readers that find the lock held. It is
// called with the lock held.
func (l *Loop) state(now time.Time) LoopState {
	s := LoopState{
		Endpoint: l.set.endpoint.Name, Running: l.running, Next: l.next, NextTry: l.nextTry(now),
		Queries: len(l.planner.all), Debt: l.planner.debt.Seconds(), Last: l.last, Health: l.currentHealth(),
		States: l.planner.tally.all(), Results: l.planner.tally.results, Oldest: l.planner.oldest.at(),
	}
	l.seen.Store(&s)
	return s
}
