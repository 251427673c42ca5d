package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds"
)

// Finish books an answer and applies the budget to it. An execution that exceeded its
// limit counts as cut, whatever its answer, and is charged what was left. whole
// reports that it was cut with the whole budget. stopped says that the process is
// ending.
func (s *SlotBudget) Finish(r *Execution, a registry.Answer, stopped bool) (booked registry.Answer, whole bool) {
	s.runs = slices.DeleteFunc(s.runs, func(o *Execution) bool { return o == r })
	s.adjust(r, &a, stopped)
	left := s.budget + s.credit - s.used
	if a.Outcome == registry.Cut {
		a.Elapsed = min(a.Elapsed, left)
		if s.serial && !stopped && s.credit == 0 {
			a.Elapsed = min(r.limit, left)
		}
		r.c.short = !stopped && r.limit < s.p.budget
	}
	taken := min(a.Elapsed, left)
	s.used += taken
	if r.front {
		s.front += taken
	}
	if r.tier == TierHinted {
		s.onHints += taken
	}
	if r.checks {
		s.onChecks += taken
	}
	s.chargeClaim(r, taken)
	return a, a.Outcome == registry.Cut && r.whole && !stopped && a.Elapsed >= s.p.budget-s.p.budget/10
}

// adjust distinguishes the budget's limit from the endpoint's timeout: the smaller of
// the two ended the execution.
func (s *account) adjust(r *Execution, a *registry.Answer, stopped bool) {
	switch {
	case a.Outcome == registry.Cut:
		if !stopped && s.timeout < r.limit && a.Elapsed >= s.timeout-s.timeout/10 {
			a.Outcome, a.Error = registry.Timeout, "no complete answer within "+s.timeout.String()
		}
	case a.Outcome.Complete():
		if a.Elapsed > r.limit {
			a.Outcome = registry.Cut
		}
	case a.Outcome == registry.Timeout && r.limit <= s.timeout && a.Elapsed >= r.limit-r.limit/10,
		a.Elapsed >= r.limit:
		a.Outcome = registry.Cut
	}
}

// chargeClaim charges a claimed execution to the share of claims and to its profile.
func (s *SlotBudget) chargeClaim(r *Execution, taken time.Duration) {
	if r.tier == TierInterval {
		s.onClaims += taken
		s.p.rounds.Charge(r.claim, taken)
	}
}

// A Completion is what follows from a finished execution.
type Completion struct {
	Stats   *policy.Stats
	Delta   *diff.Delta // nil if the result has not changed
	Checked time.Time   // when the answer was true
	At      time.Time   // when the execution ended
}

// Record updates the plan with what follows from a finished execution. ended reports
// that the execution ended a round of a profile.
func (s *SlotBudget) Record(r *Execution, x *Completion) (ended bool) {
	p, c, was := s.p, r.c, r.c.Stats.CheckedAt
	event, armed := p.isArmed(c)
	run := &x.Stats.LastRun
	if run.Outcome.Complete() {
		c.start, c.Overdue = s.start, 0
	}
	p.learn(c, x.Stats)
	if c.planned {
		p.count(c)
	}
	r.onRecorded(run.Outcome, run.Elapsed)
	if len(r.riders) == 0 {
		if r.search != nil {
			r.search.ended(s, r, false)
		}
	}
	if !run.Outcome.Complete() {
		if r.marked && c.planned {
			p.hints.marked[c] = struct{}{}
		}
		return false
	}
	p.Proofs().recordAnswer(c, x.Delta != nil, armed, event, x.At)
	if !s.offGrid() {
		p.observe(c, run.Outcome == registry.Changed)
	}
	return p.claims.onExecution(c, was, r.start, x)
}

// onExecution reports to the profiles a complete execution that began at start. was is
// the previous time at which the query was checked. ended reports that the execution
// ended a round.
func (p *claims) onExecution(c *item, was, start time.Time, x *Completion) (ended bool) {
	run := &x.Stats.LastRun
	if p.rounds.Idle() {
		return false
	}
	if x.Checked.Before(start) { // the answer comes from a cache
		start = x.Checked
	}
	return p.rounds.Observe(rounds.Observation{
		Execution: rounds.Execution{Start: start, End: x.At, Slot: run.Slot, Tier: run.Why},
		Query:     c.Query.ID, Delta: x.Delta, Before: was, Checked: x.Checked,
	})
}
