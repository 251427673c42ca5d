package scheduler

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// loopData holds what the parts of a loop share: the surroundings of the loop, and everything
// that the lock guards. The caller of its methods holds the lock. The parts acquire it.
type loopData struct {
	ledger   Ledger
	writable func() error
	clock    Clock
	wake     func([]Note)
	log      *slog.Logger
	limiter  limiter
	comparer *comparer
	up       chan struct{} // closed when the ledger has been read for the first time
	finished chan struct{} // closed when Run has returned; trial runs may continue

	// handover is held from when an answer is accepted until, if it changes something,
	// it is committed, so that no answer of a replaced client is accepted. It is also
	// held while the health of a client is recorded. It is acquired before mu.
	handover lock

	seen  atomic.Pointer[LoopState] // the state when the lock was last free to compute it
	begun atomic.Uint64             // the number of updates of the plan that have begun

	mu         lock // guards the fields below; never held during an execution, nor for long: see lock
	set        settings
	waiting    *settings // replaces set after the running slot
	executor   Executor
	nextExec   Executor // replaces executor after the running slot
	planner    *plan.Planner
	revision   uint64
	space      uint64 // of the endpoint, as last read
	updated    uint64 // the last update that succeeded, as counted by begun
	loaded     bool
	loadedOnce sync.Once // closes up
	running    bool
	next       time.Time // the next grid time, zero if there is none
	last       Slot
	rest       plan.Opening    // at the end of the last slot
	health     registry.Health // as recorded
	streak     streak
	recovered  *streak // that has ended, until the queries that failed in it are forgiven
	account    account
	asked      Asked
	audits     audits
	updating   bool   // the plan is being updated with news from the ledger
	unrecorded string // why the last slot was not recorded, "" if it was
	proofs     proofs
	late       *registry.Hint // a hint that came during the update; it also applies to queries updated after it
}

// blank makes an empty planner.
func (l *loopData) blank() {
	e := l.set.endpoint
	l.planner, l.loaded, l.revision, l.updated = plan.New(l.set.policy, time.Duration(e.Budget)), false, 0, 0
	l.planner.SetBudget(plan.Rule(e.Rule), time.Duration(e.Budget))
	l.planner.SetClaims(l.set.ranking, e.ProfileShare)
}

// apply puts waiting settings in force, including those that arrive meanwhile. It
// reports whether the executor changed. The plan is complete.
func (l *loopData) apply() (moved bool) {
	for l.waiting != nil || l.nextExec != nil {
		if l.nextExec != nil {
			l.executor, l.nextExec, moved = l.nextExec, nil, true
			l.health = registry.Health{} // the edit may have changed the recorded health
			l.streak = streak{}
			l.proofs = proofs{executors: l.proofs.executors + 1}
		}
		if l.waiting != nil {
			l.adopt()
		}
	}
	return moved
}

// latest returns the settings as last edited, which may wait for the end of the running slot.
func (l *loopData) latest() *settings {
	if l.waiting != nil {
		return l.waiting
	}
	return &l.set
}

// ends returns why the running slot starts nothing more, "" if it goes on.
func (l *loopData) ends() string {
	switch {
	case l.nextExec != nil:
		return "the endpoint's settings were edited"
	case l.latest().endpoint.Pause != nil:
		return ErrPaused.Error()
	}
	return ""
}

// adopt puts waiting settings in force.
func (l *loopData) adopt() {
	old := l.set
	l.set, l.waiting = *l.waiting, nil
	if e := l.set.endpoint; old.policy.String() != l.set.policy.String() || old.endpoint.Budget != e.Budget || old.endpoint.Rule != e.Rule {
		l.planner.SetPolicy(l.set.policy, plan.Rule(e.Rule), time.Duration(e.Budget))
	}
	l.planner.SetClaims(l.set.ranking, l.set.endpoint.ProfileShare)
	l.limiter.resize(atOnce(l.set.endpoint))
}

// update updates the plan with the ledger's news. The plan is complete, so that an older
// answer of the ledger is never applied after a newer one. No slot may be running.
func (l *loopData) update(now time.Time) error {
	l.updating = true
	defer func() { l.updating = false }()
	number := l.begun.Add(1)
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
	if !l.loaded {
		l.resume(news, now)
	}
	l.planner.Update(now, plan.Update{
		Keep: held, Removed: news.Removed, Entries: news.Entries, Edited: news.Edited,
		Reprofiled: news.Reprofiled, Profiles: news.Profiles, Models: news.Models,
	})
	for _, id := range news.Removed {
		l.audits.drop(id)
	}
	if news.Full {
		maps.DeleteFunc(l.audits, func(id string, _ *audit) bool { return !held[id] })
	}
	l.hear(&news, now)
	l.revision, l.space, l.loaded, l.updated = news.Revision, cmp.Or(news.Space, l.space), true, number
	l.loadedOnce.Do(func() { close(l.up) })
	if h := l.late; h != nil {
		l.late = nil
		l.planner.Proofs().Hint(*h, now)
	}
	return nil
}

// resume continues where the ledger says that the last process ended.
func (l *loopData) resume(news News, now time.Time) {
	l.health, l.streak = news.Health, streakOf(news.Health)
	l.last = news.Last
	l.last.Endpoint = l.set.endpoint.Name
	l.last.OffGrid.Used, l.last.OffGrid.Lent = l.last.OffGrid.total().Seconds(), 0
	charge := exactly(l.last.OffGrid.Used)
	switch {
	case !l.last.Early:
	case l.last.Finished.IsZero(): // what its last executions took is not recorded
		charge += exactly(max(l.last.Used, l.last.Budget))
	default:
		charge += exactly(l.last.Used)
	}
	l.account.pays = news.Last.Number + 1
	if b := news.Beside; b.Slot >= l.account.pays {
		l.account.beside = exactly(b.Seconds)
		l.account.lent = l.account.beside
		charge += l.account.beside
	}
	l.account.charge = max(l.account.charge, charge)
	l.planner.Recall(news.Cohorts)
	l.planner.Resume(news.Last.Number+1, news.Last.Owes(), news.Policy.Policy, news.Policy.State)
	l.account.executed(now) // the latest possible time; the end of another process's last request is unknown
}

func idsOf(entries []policy.Entry) map[string]bool {
	ids := make(map[string]bool, len(entries))
	for i := range entries {
		ids[entries[i].Query.ID] = true
	}
	return ids
}

// refresh brings the plan up to date, unless its slot is running. The plan is complete.
func (l *loopData) refresh(now time.Time) error {
	if l.running {
		return nil
	}
	if err := l.update(now); err != nil {
		return err
	}
	l.planner.Refresh(now)
	return nil
}

// state computes the state and stores it for readers that find the lock held.
func (l *loopData) state(now time.Time) LoopState {
	n, slots := l.planner.Census(), l.calendar()
	s := LoopState{
		Endpoint: l.set.endpoint.Name, Running: l.running, Next: l.next, NextTry: slots.nextTry(now),
		Queries: n.Queries, Debt: l.planner.Debt().Seconds(), Last: l.last, Health: l.currentHealth(),
		States: n.States, Results: n.Results, Oldest: n.Oldest, Halted: cmp.Or(l.unrecorded, slots.pausedReason()),
	}
	l.seen.Store(&s)
	return s
}

// calendar returns the calendar by the settings in force.
func (l *loopData) calendar() calendar { return calendar{l.set, l.executor.Health(), l.writable()} }

// observe adds an execution to the streak. Once the endpoint answers after it failed, what failed meanwhile need not wait.
func (l *loopData) observe(query string, x policy.Run) {
	was := l.streak
	if l.streak.observe(query, x); was.n >= noneLive && l.streak.n == 0 && l.recovered == nil {
		l.recovered = &was
	}
}

// currentHealth returns the endpoint's health according to its client and the last
// executions.
func (l *loopData) currentHealth() registry.Health { return l.healthFrom(l.executor) }

func (l *loopData) healthFrom(x Executor) registry.Health {
	h, s := x.Health(), &l.streak
	h.Incomplete = s.n
	fails := s.n >= fruitless && s.wide || s.n >= noneLive && l.planner.Count(registry.Live) == 0
	switch {
	case h.State == registry.HealthFailing && s.n > 0 && s.since.Before(h.Since) && !s.since.IsZero():
		h.Since = s.since
	case fails && !restricted(h):
		h.State, h.Since, h.Error = registry.HealthFailing, s.since, s.why
	}
	return h
}

// recordHealth records the endpoint's health if that is urgent, or if always is set.
// The handover keeps the executor from being replaced meanwhile. The loop's lock is
// free while the ledger writes.
func recordHealth(l *loopData, always bool) error {
	l.handover.Lock()
	defer l.handover.Unlock()
	l.mu.Lock()
	h, name, space := l.currentHealth(), l.set.endpoint.Name, l.space
	due := always || urgent(h, l.health)
	l.mu.Unlock()
	if !due {
		return nil
	}
	if _, err := l.ledger.Record(name, Batch{Space: space, Health: &h}); err != nil {
		return fmt.Errorf("record the health of endpoint %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health = h
	return nil
}

// isUp reports whether the loop has read its queries and its last slot. It waits
// for at most startWait.
func isUp(l *loopData) bool {
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

// startWait is how long a reader waits for a loop that was just started.
const startWait = time.Second

// grow completes an index of the plan. Other goroutines may acquire the lock between two
// pieces.
func grow(l *loopData, piece func(*plan.Planner) (more bool)) {
	for more := true; more; {
		l.mu.Lock()
		more = piece(l.planner)
		l.mu.Unlock()
	}
}
