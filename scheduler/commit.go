package scheduler

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// Limits on how many unchanged outcomes share a commit and how long the first one waits.
const (
	maxPending  = 256
	maxDeferred = time.Second
)

// count adds an outcome to the slot's summary and to the notes for followers.
func (r *runner) count(q *registry.Query, was policy.Stats, out *Outcome) {
	s := &r.slot
	changed := out.Stats.LastRun.Outcome == registry.Changed && was.Executions > 0
	switch o := out.Stats.LastRun.Outcome; {
	case r.offGrid != nil:
		s.OffGrid.count(o, changed)
	case o == registry.Changed:
		s.Complete++
		if changed {
			s.Changed++
		}
	case o.Complete():
		s.Complete++
	case o == registry.Cut:
		s.Cut++
	case o == registry.Dropped:
	default:
		s.Failed++
	}
	limit := q.MaxStaleness()
	out.Turned = was.StateWithin(limit) != out.Stats.StateWithin(limit) || (was.Failures > 0) != (out.Stats.Failures > 0)
	if out.Delta != nil || out.Turned {
		r.notes = append(r.notes, Note{Query: out.Query, Changed: out.Delta != nil, Status: out.Turned})
	}
}

func (r *runner) report(q *registry.Query, x policy.Run) {
	level := slog.LevelDebug
	if !x.Outcome.Complete() && x.Outcome != registry.Cut && x.Outcome != registry.Dropped {
		level = slog.LevelWarn
	}
	if r.l.log.Enabled(r.ctx, level) {
		r.l.log.Log(r.ctx, level, "execution", "query", q.ID, "slot", x.Slot, "outcome", x.Outcome,
			"elapsed", x.Elapsed, "why", x.Why, "error", x.Error)
	}
}

// flushTime returns when the pending outcomes must be committed.
func (r *runner) flushTime() time.Time {
	if end := r.since.Add(maxDeferred); !r.window.open() || end.Before(r.window.until) {
		return end
	}
	return r.window.until
}

// flushIfDue commits if enough is pending.
func (r *runner) flushIfDue() error {
	if r.window.changes >= maxWindow || len(r.pending) >= maxPending || urgent(r.executor.Health(), r.health) {
		return r.flush(false)
	}
	return nil
}

// flush commits the pending outcomes and then notifies followers. If lends is set, the
// commit also records that running executions may exceed the budget.
func (r *runner) flush(lends bool) error {
	defer r.release()
	defer r.window.close()
	b := Batch{Outcomes: r.pending, Policy: r.learnt}
	r.addRounds(&b)
	s := r.summary()
	if lends || r.budget.Lent() && s.Finished.IsZero() {
		s.Lent = r.budget.Lendable().Seconds()
	}
	b.Slot = &s
	r.l.mu.Lock()
	b.Space = r.l.space
	h := r.l.healthFrom(r.executor)
	if e, changed := r.l.planner.Proofs().Learnt(); changed {
		b.Proof = &e
	}
	b.Cohorts, b.DroppedCohorts = r.l.planner.Learnt(r.l.clock.Now(), !s.Finished.IsZero() && r.offGrid == nil)
	r.l.mu.Unlock()
	if h != r.health {
		b.Health = &h
	}
	changes, err := r.l.ledger.Record(r.name, b)
	if err != nil {
		if len(changes) > 0 { // a part is recorded
			r.notify()
		}
		return fmt.Errorf("record: %w", err)
	}
	if lends {
		r.budget.Lend()
	}
	r.logHealth(h)
	r.health = h
	r.l.mu.Lock()
	r.l.health, r.l.unrecorded = h, ""
	r.l.planner.Committed(changes)
	r.l.mu.Unlock()
	r.pending = nil
	r.notify()
	return nil
}

// notify makes followers look at what is recorded.
func (r *runner) notify() {
	if notes := r.notes; len(notes) > 0 {
		r.notes = nil
		r.l.wake(notes)
	}
}

// lend records that executions may exceed the budget, just before they do, so that the
// excess is repaid even after a crash.
func (r *runner) lend(now time.Time) error {
	if !r.budget.LendsNow(now) {
		return nil
	}
	return r.flush(true)
}

// summary returns the slot's summary so far.
func (r *runner) summary() Slot {
	if r.offGrid != nil {
		return r.offGridSummary()
	}
	t := r.budget.Totals()
	r.slot.Used, r.slot.Repaid, r.slot.Debt = t.Used.Seconds(), t.Repaid.Seconds(), t.Debt.Seconds()
	r.slot.ClaimedSeconds, r.slot.Charged = t.Claimed.Seconds(), t.Charged.Seconds()
	return r.slot
}

// close ends the slot in the plan and commits the rest with the final summary.
func (r *runner) close() error {
	now := r.l.clock.Now()
	_, learns := r.policy.(policy.Collective)
	if learns && r.slot.Changed > 0 { // End looks up related queries
		grow(r.l, (*plan.Planner).GrowIndex)
	}
	r.l.mu.Lock()
	why := cmp.Or(r.l.ends(), r.stopped)
	end := r.l.planner.End(now, why)
	r.pending = append(r.pending, taught(end.Taught, now)...)
	r.l.mu.Unlock()
	if why == "" {
		r.slot.Skipped = end.Waiting
	} else if end.Waiting > 0 {
		r.slot.Error = why
	}
	if learns {
		r.learnt = &PolicyState{Policy: r.policy.String(), State: end.Shared}
	}
	r.slot.Stretch = end.Stretch
	r.slot.Finished = now.UTC()
	if err := r.flush(false); err != nil {
		return err
	}
	r.l.mu.Lock()
	r.l.planner.Owe(r.budget.Totals().Debt)
	r.l.mu.Unlock()
	s := &r.slot
	level := slog.LevelInfo
	if s.Run == 0 && s.Skipped == 0 && !s.Tick { // nothing was due, or no requests were allowed
		level = slog.LevelDebug
	}
	r.l.log.Log(r.ctx, level, "slot", "slot", s.Number, "tick", s.Tick, "planned", s.Planned, "run", s.Run, "changed", s.Changed,
		"failed", s.Failed, "cut", s.Cut, "skipped", s.Skipped, "used", r.budget.Totals().Used, "took", now.Sub(s.Started), "error", s.Error)
	return nil
}

// taught returns outcomes for queries that did not run but whose policy state changed.
func taught(list []*policy.Candidate, now time.Time) (out []Outcome) {
	for _, c := range list {
		out = append(out, Outcome{Query: c.Query.ID, Stats: c.Stats.Clone(), Checked: c.Stats.CheckedAt, At: now})
	}
	return out
}

// logHealth logs a change of the endpoint's health since the last record.
func (r *runner) logHealth(now registry.Health) {
	was, log := r.health, r.l.log
	switch {
	case was.State == now.State:
	case now.State == registry.HealthFailing:
		words := []any{"failures", now.Failures, "incomplete", now.Incomplete, "error", now.Error}
		if !now.Until.IsZero() { // otherwise requests continue as usual
			words = append(words, "until", now.Until)
		}
		log.Warn("the endpoint fails", words...)
	case now.State == registry.HealthThrottled:
		log.Warn("the endpoint asks us to wait", "until", now.Until, "error", now.Error)
	case was.State == registry.HealthFailing || was.State == registry.HealthThrottled:
		log.Info("the endpoint has recovered", "was", was.State, "down", r.l.clock.Now().Sub(was.Since))
	}
}

// offGridSummary returns the slot's summary with what ran after it.
func (r *runner) offGridSummary() Slot {
	s, used := r.slot, r.budget.Totals().Used
	s.OffGrid.Used = (exactly(r.offGrid.before.Used) + used).Seconds()
	s.OffGrid.Lent = (r.offGrid.granted - used).Seconds()
	return s
}

// addRounds adds the progress of profiles to a batch, and the notes for their
// followers to those that the commit sends.
func (r *runner) addRounds(b *Batch) {
	r.l.mu.Lock()
	u := r.l.planner.Rounds().Drain()
	r.l.mu.Unlock()
	b.Rounds, b.Models = u.Rounds, u.Models
	for i := range u.Rounds {
		switch u.Rounds[i].State {
		case registry.RoundCaptured:
			r.slot.Captured++
		case registry.RoundExpired:
			r.slot.Expired++
		}
	}
	r.notes = append(r.notes, notesOf(u)...)
}

// notesOf returns notes for the followers of profiles whose round ended.
func notesOf(u rounds.Updates) (notes []Note) {
	for _, id := range u.Ended {
		notes = append(notes, Note{Profile: id})
	}
	return notes
}
